"""Find the currencies of limits whose usage is shown: a snapshot counts tokens, and has no limits."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import EntityUsage

NO_UNITS: Final[Mapping[str, str]] = {}
_TRIES: Final = 5  # entities that are asked for a name, for a table, until one has its limit
_CONFIRMED: Final = 2  # of those that have it: it may be of another currency


class Units:
    """The currencies of the limits of money that hold now for an entity on a resource, or above it: a read for each
    pair.
    """

    def __init__(self, repository: "SyncRepository") -> None:
        self._repository = repository
        self._known: dict[tuple[str, str], Mapping[str, str]] = {}
        self._above: dict[str, list[str]] = {}

    def of(self, used: "UsageSnapshot | EntityUsage") -> Mapping[str, str]:
        """Return the currencies of what was used of money, by name; none where a damaged record hides the limits."""
        found = dict(self._limits_of(used.entity_id, used.resource))
        if not used.consumed.keys() <= found.keys():  # a bucket counts what only those above it limit
            for above in self._ancestors_of(used.entity_id):
                found = {**self._limits_of(above, used.resource), **found}
        return {name: unit for name, unit in found.items() if unit and name in used.consumed}

    def _ancestors_of(self, entity_id: str) -> list[str]:
        from zae_limiter.exceptions import EntityNotFoundError

        if entity_id not in self._above:
            try:
                self._above[entity_id] = [each.entity_id for each in self._repository.get_ancestors(entity_id)]
            except EntityNotFoundError:
                self._above[entity_id] = []
        return self._above[entity_id]

    def _limits_of(self, entity_id: str, resource: str) -> Mapping[str, str]:
        """Return the names of limits, each with its currency, or nothing."""
        pair = entity_id, resource
        if pair not in self._known:
            self._known[pair] = self._read(*pair)
        return self._known[pair]

    def _read(self, entity_id: str, resource: str) -> Mapping[str, str]:
        from zae_limiter import ValidationError
        from zae_limiter.exceptions import StoreRefusedError
        from zae_limiter.stores import Unreadable

        try:
            limits = self._repository.resolve_limits(entity_id, resource).limits
        except ValidationError:  # an id of the usage, which no program can use today, has no limits
            return {}
        except StoreRefusedError as error:
            if isinstance(error.__cause__, Unreadable):
                return {}
            raise
        return {limit.name: limit.unit for limit in limits}


def units_of(repository: "SyncRepository", used: "Iterable[UsageSnapshot | EntityUsage]") -> Mapping[str, str]:
    """Return the currency of each limit of money that was used, by name, for a table with a column for each.

    Asks for the first entities that used a name: a read or two for all rows. A name that they have of two currencies
    has none.
    """
    units, tries, found = Units(repository), Counter[str](), dict[str, set[str]]()
    for each in used:
        asked = [name for name in each.consumed if tries[name] < (_CONFIRMED if name in found else _TRIES)]
        if not asked:
            continue
        tries.update(asked)
        for name, unit in units.of(each).items():
            found.setdefault(name, set()).add(unit)
    return {name: unit for name, (unit, *others) in ((name, [*each]) for name, each in found.items()) if not others}
