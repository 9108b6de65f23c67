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

    From ``at`` on, such as ``80%`` of a limit used, calls ask the overflow first. ``wait`` is exact to the
    millisecond. ``OnRefused()`` refuses at once, whatever a weaker level says. Its text is
    ``wait=2,at=80%,overflow=credits``, or ``refuse``. Raises ``ValidationError``.
    """

    wait: float = 0.0
    overflow: str | None = None
    at: str | None = None

    def __post_init__(self) -> None:
        wait = self.wait
        if not isinstance(wait, int | float) or isinstance(wait, bool) or not 0 <= wait <= LONGEST_WAIT:
            raise ValidationError("on_refused.wait", wait, f"must be a number of seconds, from 0 to {LONGEST_WAIT}")
        if wait and round(wait * 1000) == 0:
            raise ValidationError("on_refused.wait", wait, "must be 0, or at least 0.001")
        object.__setattr__(self, "wait", round(wait * 1000) / 1000)
        if self.overflow is not None:
            object.__setattr__(self, "overflow", check_resource("on_refused.overflow", self.overflow))
        if self.at is not None:
            _check_at(self.at, self.overflow)

    @property
    def percent(self) -> int | None:
        """At how much of a limit used the overflow comes first, in percent; ``None`` without ``at``."""
        return None if self.at is None else int(self.at[:-1])

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
        """Return the policy of a text like ``wait=2,at=80%,overflow=credits``. Raises ``ValidationError``."""
        if text == REFUSE:
            return cls()
        before, names_one, overflow = text.partition("overflow=")  # a resource may contain a comma
        steps = (before.removesuffix(",") if names_one else before).split(",") if before else []
        wait = steps.pop(0).removeprefix("wait=") if steps and steps[0].startswith("wait=") else ""
        at = steps.pop(0).removeprefix("at=") if steps and steps[0].startswith("at=") else None
        given = [*([f"wait={wait}"] if wait else []), *([] if at is None else [f"at={at}"])]
        given += [f"overflow={overflow}"] if overflow else []
        if not given or ",".join(given) != text or (wait and not _is_seconds(wait)):
            raise _no_policy(field, text)
        return cls(float(wait or 0), overflow or None, at)

    def __str__(self) -> str:
        wait = [f"wait={self.wait:.3f}".rstrip("0").rstrip(".")] if self.wait else []
        at = [f"at={self.at}"] if self.at else []
        return ",".join([*wait, *at, *([f"overflow={self.overflow}"] if self.overflow else [])]) or REFUSE


def _check_at(at: object, overflow: str | None) -> None:
    """Check at how much of a limit used the overflow comes first. Raises ``ValidationError``."""
    digits = at[:-1] if isinstance(at, str) and at.endswith("%") else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 2 and digits[0] != "0"):
        raise ValidationError("on_refused.at", at, "must be a whole percentage from 1% to 99%, like 80%")
    if overflow is None:
        raise ValidationError("on_refused.at", at, "says when the overflow comes first: name an overflow, too")


def _is_seconds(text: str) -> bool:
    """Return whether a text is a number of seconds with at most five digits, and three decimals."""
    whole, dot, decimals = text.partition(".")
    digits = f"{whole}{decimals}"
    is_number = digits.isascii() and digits.isdecimal() and bool(dot) == bool(decimals)
    return is_number and 1 <= len(whole) <= 5 and len(decimals) <= 3


def _no_policy(field: str, text: str) -> ValidationError:
    return ValidationError(field, text, f"must be like wait=2,at=80%,overflow=credits, or {REFUSE}")
