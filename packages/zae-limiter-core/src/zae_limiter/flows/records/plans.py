"""Plans: limits that many entities have, each of which names its plan in its record.

A plan has configs like an entity: on a resource, and on all (``_default_``). It exists as long as it has one. A change
of a plan writes its config alone, however many entities have it; every process reads it within the life of its config
cache, as with the limits of a resource. An entity that is given another plan has its live buckets told, as if its own
limits were changed. If an entity gets a plan at the moment at which the last config of the plan is deleted, it names a
plan without limits, and those of the resource hold.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Query
from ...schema import keys, plan_keys
from ...schema.attributes import GSI3SK, GSI4PK, GSI4SK, PK, RESOURCE, SK
from ...schema.configs import read_limits
from ...values.audit import Cause
from ...values.limits import Limit, check_limits
from ...values.naming import DEFAULT_RESOURCE, check_identifier, check_plan, check_resource
from ...values.on_refused import OnRefused
from ..bucket.telling import tell_own
from ..index_rows import IndexRows, query_rows, report
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read, with_retries
from ..steps import Flow
from .limits import Change, Place, change
from .plain_configs import refused_attributes


def plan_place(namespace_state: NamespaceState, plan: str, resource: str) -> Place:
    """Return the place of a plan's config on a resource, or on all (``_default_``)."""
    ns = namespace_state.namespace_id
    key = Key(plan_keys.pk_plan(ns, plan), keys.sk_config(resource))
    fixed = {GSI4PK: keys.gsi4_pk(ns), GSI4SK: key.pk, RESOURCE: resource}
    return Place(key, fixed, plan_keys.audit_plan(plan), resource)


def set_plan(
    namespace_state: NamespaceState,
    plan: str,
    resource: str,
    limits: Sequence[Limit | str],
    cause: Cause,
    *,
    on_refused: OnRefused | None,
) -> Flow[None]:
    """Replace a plan's limits at a place; its ``on_refused`` stays as it is if that is ``None``."""
    place = plan_place(namespace_state, *_checked(plan, resource))
    wanted = Change(place, check_limits("limits", limits), refused_attributes(on_refused, place.resource))
    yield from change(namespace_state, wanted, cause)


def get_plan(namespace_state: NamespaceState, plan: str, resource: str) -> Flow[list[Limit]]:
    """Return a plan's limits at a place, sorted by name; empty if none are set."""
    place = plan_place(namespace_state, *_checked(plan, resource))
    return list(read_limits((yield from read(place.key))))


def delete_plan(namespace_state: NamespaceState, plan: str, resource: str, cause: Cause) -> Flow[None]:
    """Remove a plan's limits at a place, if there are any. Raises ``ValidationError`` for the last ones of a plan that
    entities have.
    """
    place = plan_place(namespace_state, *_checked(plan, resource))
    if (yield from _configs_of(namespace_state, plan)) == [place.key]:
        yield from check_unused(namespace_state, plan)
    yield from change(namespace_state, Change(place, None), cause)


def check_unused(namespace_state: NamespaceState, plan: str) -> Flow[None]:
    """Raise ``ValidationError`` if entities have the plan; those of the last moment may be missed."""
    count = yield from count_entities(namespace_state, plan)
    if count:
        entities = "1 entity has it" if count == 1 else f"{count:,} entities have it"
        raise ValidationError("plan", plan, f"{entities}: give them another plan, or none, before its last limits go")


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
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=plan_keys.pk_plan(ns, ""))
    return (yield from query_rows(query, rows, lambda item: plan_keys.parse_plan_key(ns, item[PK], item[SK])))


def list_entities(namespace_state: NamespaceState, plan: str) -> Flow[list[str]]:
    """Return the entities that have a plan, by id; a very recent change may be missing."""
    ns, rows = namespace_state.namespace_id, IndexRows(namespace_state.namespace_id)
    query = Query(plan_keys.gsi3_pk_plan(ns, check_plan("plan", plan)), "GSI3")
    found = yield from query_rows(query, rows, lambda item: _entity(rows, item))
    yield from report(rows)
    return sorted(found)


def count_entities(namespace_state: NamespaceState, plan: str) -> Flow[int]:
    """Return the number of entities that have a plan; a very recent change may be missing."""
    return len((yield from list_entities(namespace_state, plan)))


def tell_entities(namespace_state: NamespaceState, entity_ids: Sequence[str]) -> Flow[None]:
    """Tell the live buckets of entities that have another plan now. Raises ``StoreError`` if one was not told."""
    told = yield from tell_own(namespace_state, [(each, DEFAULT_RESOURCE) for each in entity_ids])
    for error in told.failed.values():
        raise error


def _entity(rows: IndexRows, item: Item) -> str:
    """Return the entity in a row of the entities of a plan. Raises ``ValueError`` for any other row."""
    namespace_id, entity_id = keys.parse_entity_pk(item[PK])
    expected = (rows.namespace_id, keys.sk_meta(), keys.gsi3_sk_entity(entity_id))
    if (namespace_id, item[SK], item[GSI3SK]) != expected:
        raise ValueError("not as the record of an entity")
    return check_identifier("entity_id", entity_id)


def _configs_of(namespace_state: NamespaceState, plan: str) -> Flow[list[Key]]:
    """Return the keys of a plan's first two configs."""
    pk = plan_keys.pk_plan(namespace_state.namespace_id, plan)
    page = yield from with_retries(Query(pk, begins_with=keys.CONFIG_PREFIX, limit=2))
    return [key_of(item) for item in page.items]


def _checked(plan: str, resource: str) -> tuple[str, str]:
    return check_plan("plan", plan), check_resource("resource", resource, allow_default=True)
