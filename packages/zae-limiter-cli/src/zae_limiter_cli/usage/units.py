"""Find the currencies of limits whose usage is shown: a snapshot counts tokens, and has no limits."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository, UsageSnapshot
    from zae_limiter.values import EntityUsage

NO_UNITS: Final[Mapping[str, str]] = {}
_TRIES: Final = 5  # entities that have used a name whose limit is gone


class Units:
    """The currencies of limits of money, by name.

    Asks for the limits that hold now for the first entity and resource that used each name, and for a few more if they
    have no such limit any more: a read or two for all rows.
    """

    def __init__(self, repository: "SyncRepository") -> None:
        self._repository = repository
        self._known: dict[str, str] = {}
        self._tries: dict[str, int] = {}

    def of(self, used: "UsageSnapshot | EntityUsage") -> Mapping[str, str]:
        """Return the currencies of what was used of money."""
        unknown = [name for name in used.consumed if name not in self._known and self._tries.get(name, 0) < _TRIES]
        if unknown:
            limits = self._limits_of(used)
            self._known |= {limit.name: limit.unit for limit in limits if limit.name in unknown}
            self._tries |= {name: self._tries.get(name, 0) + 1 for name in unknown}
        return {name: unit for name in used.consumed if (unit := self._known.get(name))}

    def _limits_of(self, used: "UsageSnapshot | EntityUsage") -> "tuple[Limit, ...]":
        """Return the limits that hold; none where a record of theirs is damaged, which hides no usage."""
        from zae_limiter.exceptions import StoreRefusedError
        from zae_limiter.stores import Unreadable

        try:
            return tuple(self._repository.resolve_limits(used.entity_id, used.resource).limits)
        except StoreRefusedError as error:
            if isinstance(error.__cause__, Unreadable):
                return ()
            raise


def units_of(repository: "SyncRepository", used: "Iterable[UsageSnapshot | EntityUsage]") -> Mapping[str, str]:
    """Return the currency of each limit of money that was used, by name."""
    units = Units(repository)
    return {name: unit for each in used for name, unit in units.of(each).items()}
