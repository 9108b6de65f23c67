"""Find the currencies of limits whose usage is shown: a snapshot counts tokens, and has no limits."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import EntityUsage

NO_UNITS: Final[Mapping[str, str]] = {}


def units_of(repository: "SyncRepository", used: "Iterable[UsageSnapshot | EntityUsage]") -> Mapping[str, str]:
    """Return the currency of each limit of money, by name.

    Asks for the limits that hold now for the first entity and resource that used each name: a read or two for all rows.
    """
    known: dict[str, str] = {}
    for each in used:
        if not known.keys() >= each.consumed.keys():
            limits = repository.resolve_limits(each.entity_id, each.resource).limits
            units = {limit.name: limit.unit for limit in limits}
            known |= {name: units.get(name, "") for name in each.consumed if name not in known}
    return {name: unit for name, unit in known.items() if unit}
