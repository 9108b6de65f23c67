"""An override: limits that replace an entity's own for a time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass
from .limits import Limit, check_limits
from .resolution import check_said

LONGEST_OVERRIDE: Final = timedelta(days=366)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_END_OF_TIME_MS: Final = 253_402_300_800_000  # the year 10000


@dataclass(frozen=True, slots=True)
class Override:
    """The limits that hold at a place until an instant (epoch ms); from then on its own limits hold again.

    With ``extends`` those limits hold beside them that the override does not name.
    """

    limits: tuple[Limit, ...]
    until_ms: int
    extends: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", check_limits("limits", self.limits))
        if type(self.until_ms) is not int or not 0 < self.until_ms < _END_OF_TIME_MS:
            raise ValidationError("until_ms", self.until_ms, "must be an instant in epoch milliseconds")

    @property
    def until(self) -> datetime:
        """The instant of its end, in UTC."""
        return _EPOCH + self.until_ms * _MILLISECOND


def new_override(limits: Sequence[Limit | str], until: datetime, now_ms: int, *, extends: bool = False) -> Override:
    """Return the override of a call made at ``now_ms``. Raises ``ValidationError``, which names ``override_until``."""
    if not isinstance(until, datetime) or until.utcoffset() is None:
        problem = "must be a datetime with a time zone, like datetime.now(UTC) + timedelta(hours=2)"
        raise ValidationError("override_until", until, problem)
    until_ms = (until - _EPOCH) // _MILLISECOND
    if until_ms <= now_ms:
        raise ValidationError("override_until", until.isoformat(), "must be in the future")
    if until_ms - now_ms > LONGEST_OVERRIDE // _MILLISECOND:
        raise ValidationError("override_until", until.isoformat(), "must be at most 366 days from now")
    said = check_said(limits, extends=extends)
    if not said.limits:
        raise ValidationError("limits", limits, "is of a level: to admit everything for a time, switch bypass on")
    return Override(said.limits, until_ms, extends)
