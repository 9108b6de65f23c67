"""Plans: limits that many entities have, each of which names its plan in its record.

A plan has configs like an entity: on a resource, and on all (``_default_``). It exists as long as it has one. A change
of a plan writes its config alone, however many entities have it; every process reads it within the life of its config
cache, as with the limits of a resource. An entity that is given another plan has its live buckets told, as if its own
limits were changed. If an entity gets a plan at the moment at which the last config of the plan is deleted, it names a
plan without limits, and those of the resource hold.
"""

from difflib import get_close_matches

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Query
from ...schema import keys
from ...schema.attributes import GSI3SK, PK, SK
from ...values.audit import Cause
from ...values.naming import check_identifier, check_plan
from ..index_rows import IndexRows, query_rows, report
from ..process.namespace_state import NamespaceState
from ..retry import key_of, with_retries
from ..steps import Flow
from .levels import delete_limits, of_plan, place_of


def delete_plan(namespace_state: NamespaceState, plan: str, resource: str, cause: Cause) -> Flow[None]:
    """Remove a plan's limits at a place, if there are any. Raises ``ValidationError`` for the last ones of a plan that
    entities have; those that got it a moment ago may be missed.
    """
    level = of_plan(plan, resource)
    if (yield from _configs_of(namespace_state, plan)) == [place_of(namespace_state, level).key]:
        count = yield from count_entities(namespace_state, plan)
        if count:
            entities = "1 entity has it" if count == 1 else f"{count:,} entities have it"
            problem = f"{entities}: give them another plan, or none, before its last limits go"
            raise ValidationError("plan", plan, problem)
    yield from delete_limits(namespace_state, level, cause)


def check_exists(namespace_state: NamespaceState, plan: str | None) -> Flow[None]:
    """Raise ``ValidationError`` for a plan without limits; ``None`` stands for no plan."""
    if plan is None or (yield from _configs_of(namespace_state, plan)):
        return
    known = list((yield from list_plans(namespace_state)))
    close = get_close_matches(plan, known, n=1)
    meant = f", did you mean {close[0]!r}?" if close else ": set its limits first"
    raise ValidationError("plan", plan, f"there is no plan of this name{meant}")


def list_plans(namespace_state: NamespaceState) -> Flow[dict[str, list[str]]]:
    """Return the resources (or ``_default_``) on which each plan has limits, by the plan's name."""
    rows = IndexRows(namespace_state.namespace_id)
    found = yield from plan_rows(rows)
    yield from report(rows)
    plans: dict[str, list[str]] = {}
    for plan, resource in sorted(found):
        plans.setdefault(plan, []).append(resource)
    return plans


def plan_rows(rows: IndexRows) -> Flow[list[tuple[str, str]]]:
    """Return the plan and the resource of each config of a plan that the index shows."""
    ns = rows.namespace_id
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_plan(ns, ""))
    return (yield from query_rows(query, rows, lambda item: keys.parse_plan_key(ns, item[PK], item[SK])))


def list_entities(namespace_state: NamespaceState, plan: str) -> Flow[list[str]]:
    """Return the entities that have a plan, by id; a very recent change may be missing."""
    ns, rows = namespace_state.namespace_id, IndexRows(namespace_state.namespace_id)
    query = Query(keys.gsi3_pk_plan(ns, check_plan("plan", plan)), "GSI3")
    found = yield from query_rows(query, rows, lambda item: _entity(rows, item))
    yield from report(rows)
    return sorted(found)


def count_entities(namespace_state: NamespaceState, plan: str) -> Flow[int]:
    """Return the number of entities that have a plan; a very recent change may be missing."""
    return len((yield from list_entities(namespace_state, plan)))


def _entity(rows: IndexRows, item: Item) -> str:
    """Return the entity in a row of the entities of a plan. Raises ``ValueError`` for any other row."""
    namespace_id, entity_id = keys.parse_entity_pk(item[PK])
    expected = (rows.namespace_id, keys.sk_meta(), keys.gsi3_sk_entity(entity_id))
    if (namespace_id, item[SK], item[GSI3SK]) != expected:
        raise ValueError("not as the record of an entity")
    return check_identifier("entity_id", entity_id)


def _configs_of(namespace_state: NamespaceState, plan: str) -> Flow[list[Key]]:
    """Return the keys of a plan's first two configs."""
    pk = keys.pk_plan(namespace_state.namespace_id, plan)
    page = yield from with_retries(Query(pk, begins_with=keys.CONFIG_PREFIX, limit=2))
    return [key_of(item) for item in page.items]
