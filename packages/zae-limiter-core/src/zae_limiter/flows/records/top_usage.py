"""The entities that were refused, or that consumed, the most on a resource."""

from datetime import datetime
from functools import partial
from heapq import nsmallest

from ...schema.attributes import TOTALS
from ...values.limits import MILLI
from ...values.naming import check_limit_name, check_resource
from ...values.usage import EntityUsage
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import validate_page_size
from .usage import Asked, Sums, every_snapshot, validate_usage


def validate_top(
    resource: str, by: str, window: str, start: datetime | None, end: datetime | None, limit: int
) -> Asked:
    """Return the checked request. Raises ``ValidationError``."""
    if not isinstance(by, str) or by not in TOTALS.values():
        check_limit_name("by", by)
    validate_page_size(limit)
    return validate_usage(None, check_resource("resource", resource), window, start, end)


def get_top(namespace_state: NamespaceState, asked: Asked, *, by: str, limit: int) -> Flow[tuple[EntityUsage, ...]]:
    """Return the ``limit`` entities with the most of ``by``, the first with the most; leave out entities that have
    none.

    Read every requested snapshot, one page at a time; the sums of each entity stay in memory.
    """
    entities: dict[str, Sums] = {}
    yield from every_snapshot(
        namespace_state, asked, lambda each: entities.setdefault(each.usage.entity_id, Sums()).add(each)
    )
    amount = partial(_amount, by)
    ranked = ((-amount(sums), entity_id) for entity_id, sums in entities.items() if amount(sums) > 0)
    return tuple(_entity_usage(entity_id, entities[entity_id]) for _, entity_id in nsmallest(limit, ranked))


def _amount(by: str, sums: Sums) -> int:
    return sums.totals[by] if by in sums.totals else sums.milli.get(by, 0)


def _entity_usage(entity_id: str, sums: Sums) -> EntityUsage:
    consumed = {name: sums.milli[name] // MILLI for name in sorted(sums.milli)}
    by_parent = dict(sorted(sums.by_parent.items()))
    return EntityUsage(entity_id, consumed, refused_by_parent=by_parent, **sums.totals)
