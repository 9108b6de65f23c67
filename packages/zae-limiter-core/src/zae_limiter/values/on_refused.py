"""The policy of a refusal: wait, then overflow, then refuse."""

from typing import Final, Self

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass
from .naming import check_resource

LONGEST_WAIT: Final = 86_400  # seconds
REFUSE: Final = "refuse"


@dataclass(frozen=True, slots=True)
class OnRefused:
    """What follows if a call's limits are short: wait for the tokens ``wait`` seconds at most, as ``max_wait`` does;
    then take the same amounts from the entity's bucket on the resource ``overflow``; then refuse.

    ``wait`` is exact to the millisecond. ``OnRefused()`` refuses at once, whatever a weaker level says. Its text is
    ``wait=2,overflow=credits``, or ``refuse``. Raises ``ValidationError``.
    """

    wait: float = 0.0
    overflow: str | None = None

    def __post_init__(self) -> None:
        wait = self.wait
        if not isinstance(wait, int | float) or isinstance(wait, bool) or not 0 <= wait <= LONGEST_WAIT:
            raise ValidationError("on_refused.wait", wait, f"must be a number of seconds, from 0 to {LONGEST_WAIT}")
        if wait and round(wait * 1000) == 0:
            raise ValidationError("on_refused.wait", wait, "must be 0, or at least 0.001")
        object.__setattr__(self, "wait", round(wait * 1000) / 1000)
        if self.overflow is not None:
            object.__setattr__(self, "overflow", check_resource("on_refused.overflow", self.overflow))

    @classmethod
    def check(cls, field: str, value: object, resource: str | None = None) -> "OnRefused":
        """Return ``value`` if it is such a policy, and can follow the refusals of ``resource``. Raises
        ``ValidationError``.
        """
        if not isinstance(value, OnRefused):
            raise ValidationError(field, value, "must be an OnRefused, like OnRefused(wait=2, overflow='credits')")
        if value.overflow is not None and value.overflow == resource:
            problem = "is the resource that has refused: name another one"
            raise ValidationError(f"{field}.overflow", value.overflow, problem)
        return value

    @classmethod
    def parse(cls, field: str, text: str) -> Self:
        """Return the policy of a text like ``wait=2,overflow=credits``. Raises ``ValidationError``."""
        if text == REFUSE:
            return cls()
        before, _, overflow = text.partition("overflow=")  # a resource may contain a comma
        wait, comma = before.removesuffix(",").removeprefix("wait="), before.endswith(",")
        if not (before or overflow) or (before and not (before.startswith("wait=") and _is_seconds(wait))):
            raise _no_policy(field, text)
        if bool(before and overflow) != comma:
            raise _no_policy(field, text)
        return cls(float(wait or 0), overflow or None)

    def __str__(self) -> str:
        wait = [f"wait={self.wait:.3f}".rstrip("0").rstrip(".")] if self.wait else []
        return ",".join([*wait, *([f"overflow={self.overflow}"] if self.overflow else [])]) or REFUSE


def _is_seconds(text: str) -> bool:
    """Return whether a text is a number of seconds with at most five digits, and three decimals."""
    whole, dot, decimals = text.partition(".")
    digits = f"{whole}{decimals}"
    is_number = digits.isascii() and digits.isdecimal() and bool(dot) == bool(decimals)
    return is_number and 1 <= len(whole) <= 5 and len(decimals) <= 3


def _no_policy(field: str, text: str) -> ValidationError:
    return ValidationError(field, text, f"must be like wait=2,overflow=credits, or {REFUSE}")
