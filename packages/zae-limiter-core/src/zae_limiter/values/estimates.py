"""An amount of an acquire that is learnt from what calls before it were settled for (``Estimate``)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field
from ..runtime.named_tuple import NamedTuple
from .limits import MAX_TOKENS
from .naming import check_resource

if TYPE_CHECKING:
    from decimal import Decimal

LARGEST_QUANTILE: Final = 0.999
LONGEST_MODEL: Final = 256  # characters


Amount: TypeAlias = "int | Decimal | Estimate"
"""What a call asks for of a limit: tokens, money, or an estimate."""


class EstimateKey(NamedTuple):
    """What the amounts of calls are remembered by."""

    resource: str
    model: str
    limit: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """An amount for ``acquire``, which ``RateLimiter.estimate`` makes: as many tokens as calls were settled for lately.

    An acquire that takes it, and whose lease is settled, is one of the calls that the next one learns from. Raises
    ``ValidationError``.
    """

    resource: str
    default: int
    most: int
    quantile: float
    model: str
    learnt: Callable[[EstimateKey, float], int | None] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        check_resource("resource", self.resource)
        for name, value in (("default", self.default), ("most", self.most)):
            if type(value) is not int or not 0 <= value <= MAX_TOKENS:
                problem = f"must be a whole number of tokens, or of millionths of money, from 0 to {MAX_TOKENS}"
                raise ValidationError(f"{name} of an estimate", value, problem)
        if self.default > self.most:
            raise ValidationError("default of an estimate", self.default, f"must be at most `most`, {self.most}")
        if type(self.quantile) not in (int, float) or not 0 < self.quantile <= LARGEST_QUANTILE:
            problem = f"must be above 0 and at most {LARGEST_QUANTILE}: `most` is for every call"
            raise ValidationError("quantile of an estimate", self.quantile, problem)
        if not isinstance(self.model, str) or len(self.model) > LONGEST_MODEL:
            raise ValidationError("model of an estimate", self.model, f"must be at most {LONGEST_MODEL} characters")

    def key(self, limit: str) -> EstimateKey:
        """Return what the amounts of a limit are remembered by."""
        return EstimateKey(self.resource, self.model, limit)

    def amount(self, limit: str) -> int:
        """Return the tokens of a limit that the estimate is for now: ``default`` until enough calls were settled."""
        learnt = self.learnt(self.key(limit), self.quantile)
        return self.default if learnt is None else min(learnt, self.most)
