"""A further bucket that a call draws on (``Draw``), for what is not a tree of entities."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field
from .estimates import Amount
from .limits import Limit, check_limits
from .naming import check_identifier, check_resource

if TYPE_CHECKING:
    from decimal import Decimal

    from .token_usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Draw:
    """A further bucket for ``draws=`` of ``acquire``: that of another entity, on another resource, or both.

    What is left out is the call's: ``entity_id``, ``resource``, and the amounts of ``consume``, by limit in tokens; of
    the call's amounts only those for which the bucket has limits. It draws on those above the entity, too, if the
    entity ``cascade``s; ``True`` and ``False`` say so for this call. ``by_usage`` returns what a usage of the call is
    here, by limit, such as its price: ``settle(usage)`` of the draw, and the integrations, settle by it. ``limits``
    replace the stored ones, and those of the call, in the buckets of this draw. Raises ``ValidationError``.
    """

    entity_id: str | None = None
    resource: str | None = None
    consume: Mapping[str, Amount] | None = field(default=None, hash=False)
    cascade: bool | None = None
    by_usage: "Callable[[TokenUsage], Mapping[str, int | Decimal]] | None" = field(default=None, compare=False)
    limits: "Sequence[Limit | str] | None" = None

    def __post_init__(self) -> None:
        if self.entity_id is not None:
            check_identifier("entity_id of a draw", self.entity_id)
        if self.resource is not None:
            check_resource("resource of a draw", self.resource)
        if self.consume is not None and not (isinstance(self.consume, Mapping) and self.consume):
            problem = "must map limits to amounts, like {'tpm': 900}; leave it out for the amounts of the call"
            raise ValidationError("consume of a draw", self.consume, problem)
        if self.cascade is not None and not isinstance(self.cascade, bool):
            raise ValidationError("cascade of a draw", self.cascade, "must be True, False, or None: as the entity does")
        by_usage: object = self.by_usage
        if by_usage is not None and not callable(by_usage):
            problem = "must be a function of a TokenUsage that returns amounts by limit"
            raise ValidationError("by_usage of a draw", by_usage, problem)
        if self.limits is not None:
            object.__setattr__(self, "limits", check_limits("limits of a draw", self.limits))
