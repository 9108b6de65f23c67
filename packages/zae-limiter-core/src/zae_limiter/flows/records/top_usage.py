"""The entities that were refused, or that consumed, the most on a resource, or on any resource of a namespace."""

from datetime import datetime
from functools import partial
from heapq import nsmallest
from typing import NamedTuple

from ...schema.attributes import TOTALS
from ...values.limits import MILLI
from ...values.naming import check_limit_name
from ...values.usage import EntityUsage
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import validate_page_size
from .usage import Asked, Snapshot, Sums, every_snapshot, validate_usage


class Place(NamedTuple):
    """An entity on a resource."""

    entity_id: str
    resource: str


def validate_top(
    resource: str | None, by: str, window: str, start: datetime | None, end: datetime | None, limit: int
) -> Asked:
    """Return the checked request. Raises ``ValidationError``."""
    if not isinstance(by, str) or by not in TOTALS.values():
        check_limit_name("by", by)
    validate_page_size(limit)
    return validate_usage(None, resource, window, start, end)


def get_top(namespace_state: NamespaceState, asked: Asked, *, by: str, limit: int) -> Flow[tuple[EntityUsage, ...]]:
    """Return the ``limit`` entities with the most of ``by``, the first with the most; leave out entities that have
    none. In a namespace, an entity has a place for each resource: a limit of the same name is another one there.

    Read every requested snapshot, one page at a time; the sums of each entity stay in memory.
    """
    places: dict[Place, Sums] = {}

    def add(snapshot: Snapshot) -> None:
        usage = snapshot.usage
        places.setdefault(Place(usage.entity_id, usage.resource), Sums()).add(snapshot)

    yield from every_snapshot(namespace_state, asked, add)
    amount = partial(_amount, by)
    ranked = ((-amount(sums), place) for place, sums in places.items() if amount(sums) > 0)
    return tuple(_entity_usage(place, places[place]) for _, place in nsmallest(limit, ranked))


def _amount(by: str, sums: Sums) -> int:
    return sums.totals[by] if by in sums.totals else sums.milli.get(by, 0)


def _entity_usage(place: Place, sums: Sums) -> EntityUsage:
    consumed = {name: sums.milli[name] // MILLI for name in sorted(sums.milli)}
    refused_by = dict(sorted(sums.refused_by.items()))
    return EntityUsage(place.entity_id, place.resource, consumed, refused_by=refused_by, **sums.totals)
