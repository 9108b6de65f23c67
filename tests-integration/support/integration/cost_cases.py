"""What lives here: calls of every public method that asks the store, in small and in typical cases, to be counted.
What never does: what they cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import pytest

from zae_limiter import Limit, ValidationError
from zae_limiter.engines.meter import Meter
from zae_limiter.maintenance import ProvisionerState, StoredConfig, VersionRecord
from zae_limiter.testing import ManualClock
from zae_limiter.values.provisioner import StoredEntity
from zae_limiter.values.versions import core_version

from . import cost_setup as at
from .awaited import Variant
from .clocks import START_MS
from .cost_setup import KEY, LIMITS, MODEL, PROJECT, Place, Step, called
from .harness import Harness
from .targets import Target

UNTOLD: Final = object()


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a method, ``when`` it is made, and what is done ``before`` it, which does not count.

    With ``answer`` and ``refused`` the method needs no case of api_cases: the call answers so on every store, and
    such calls are refused behind it.
    """

    method: str
    when: str
    call: Step
    before: Sequence[Step] = ()
    answer: object = UNTOLD
    refused: Sequence[Step] = ()


def case(method: str, *args: object, when: str = "", before: Sequence[Step] = (), **kwargs: object) -> Case:
    """A call of a method with these arguments."""
    return Case(method, when, called(method, *args, **kwargs), before)


def stored(state: ProvisionerState, over: int = 0) -> Step:
    """A put of a state, in place of the one of that serial."""
    return called("put_provisioner_state", state, expected_serial=over)


RAISED = [Limit.per_minute(limit.name, 2 * limit.capacity) for limit in LIMITS]
raised = called("set_resource_defaults", MODEL, RAISED)
WARM = (at.resource_limits, at.take)
TWO_MODELS = (at.resource_limits, at.other_resource_limits)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PLACES = {(entity, MODEL): LIMITS for entity in at.ids(1000)}
CONFIGS = {place: StoredConfig(tuple(limits), fingerprint="0" * 32) for place, limits in PLACES.items()}
PARENT_OF_ALL = "acme-corp"
RECORDS = {PARENT_OF_ALL: StoredEntity(), **{each: StoredEntity(PARENT_OF_ALL) for each in at.ids(1000)}}
SMALL_STATE = ProvisionerState(True, [MODEL], {KEY: [MODEL]}, owner="cli")
BIG_STATE = ProvisionerState(managed_entities={entity: [MODEL] for entity in at.ids(1000)})
STATE_IN_PARTS = ProvisionerState(managed_entities={entity: ["_default_", MODEL] for entity in at.ids(10_000)})

ACQUIRES = [
    Case("acquire", "admitted", at.take, WARM),
    Case("acquire", "refused, bucket seen within the last second", at.take_in_vain, (at.resource_limits, at.take_all)),
    Case("acquire", "refused, bucket not seen", at.take_in_vain, (at.resource_limits, at.take_all, at.wait(1.1))),
    Case("acquire", "refused, served by its overflow", at.take, (at.overflow, at.take_all, at.take)),
    Case(
        "acquire", "admitted behind a refusal", at.take, (at.resource_limits, at.take_all, at.take_in_vain, at.wait(5))
    ),
    Case("acquire", "limits known for too long", at.take, (*WARM, at.wait(61))),
    Case("acquire", "the first behind a change of its limits", at.take, (*WARM, raised)),
    Case("acquire", "the first behind the end of an override", at.take, (*WARM, at.override, at.take, at.wait(31))),
    Case("acquire", "bucket that the process does not know", at.take, (at.resource_limits, at.take_elsewhere)),
    Case("acquire", "no bucket yet", at.take, (at.resource_limits,)),
    Case("acquire", "admitted, with a shadow limit", at.take, (at.shadow_beside, at.take)),
    Case("acquire", "a shadow limit would have refused", at.take_in_shadow, (at.shadow_beside, at.take)),
    Case("acquire", "shadow limits alone", at.take, (at.only_shadow, at.take)),
    Case("acquire", "shadow limits alone, which would have refused", at.take_in_shadow, (at.only_shadow, at.take)),
    Case("acquire", "admitted with a slot, and the end of its block", at.take_slot, (at.with_slots, at.take_slot)),
    Case("acquire", "limits of a tier", at.take, (at.tier_limits, at.with_tier, at.take)),
    Case("acquire", "limits of a tier, no bucket yet", at.take, (at.tier_limits, at.with_tier)),
    Case(
        "acquire", "limits of a tier, known for too long", at.take, (at.tier_limits, at.with_tier, at.take, at.wait(61))
    ),
    Case("acquire", "child and parent", at.take, (at.resource_limits, at.family, at.take)),
    Case("acquire", "child and parent, no buckets yet", at.take, (at.resource_limits, at.family)),
    *(
        Case("acquire", f"{buckets} buckets", at.take, (at.resource_limits, at.path(buckets), at.take))
        for buckets in (4, 8)
    ),
    *(
        Case("acquire", f"{buckets} buckets, none there yet", at.take, (at.resource_limits, at.path(buckets)))
        for buckets in (4, 8)
    ),
    *(
        Case(
            "acquire",
            f"{buckets} buckets, refused by the topmost, not seen",
            at.take_in_vain,
            (at.resource_limits, at.path(buckets), at.take, at.take_from_top(buckets), at.wait(1)),
        )
        for buckets in (2, 4, 8)
    ),
    Case("acquire", "2 further buckets by `draws`", at.take_draws, (*TWO_MODELS, at.take_draws)),
    Case("acquire", "2 further buckets by `draws`, none there yet", at.take_draws, TWO_MODELS),
    Case(
        "acquire",
        "2 further buckets by `draws`, refused by one, not seen",
        at.take_also_in_vain,
        (*TWO_MODELS, at.take_much_also, at.wait(1.1)),
    ),
    Case("acquire", "admitted, and its block raises", at.fail, WARM),
    Case("lease.consume", "", at.consume, (*WARM, at.enter)),
    Case("lease.adjust", "at the end of the block", at.adjust, (*WARM, at.enter)),
    Case("lease.release", "at the end of the block", at.release, (*WARM, at.enter)),
    case("available", KEY, MODEL, before=WARM),
    case("time_until_available", KEY, MODEL, {"rpm": 1}, before=WARM),
    case("check", KEY, MODEL, {"rpm": 1}, before=WARM),
    case("check", KEY, MODEL, {"rpm": 1}, when="8 buckets", before=(at.resource_limits, at.path(8), at.take)),
    case("check", KEY, MODEL, {"rpm": 1}, when="8 buckets, nothing known", before=(at.resource_limits, at.path(8))),
    case("explain", KEY, MODEL, before=WARM),
    case("explain", KEY, MODEL, when="child and parent", before=(at.resource_limits, at.family, at.take)),
    case("explain", KEY, MODEL, when="8 buckets", before=(at.resource_limits, at.path(8), at.take)),
    case(
        "explain",
        KEY,
        MODEL,
        when="child in 2 shards, and parent",
        before=(at.resource_limits, at.family, at.take, at.split),
    ),
    case("resolve_limits", KEY, MODEL, when="known", before=WARM),
    case("resolve_limits", KEY, MODEL, when="not known", before=(at.resource_limits,)),
]
BUCKETS = [
    case("get_bucket", KEY, MODEL, before=WARM),
    case("get_bucket", KEY, MODEL, when="2 shards", before=(*WARM, at.split)),
    case("get_buckets", KEY, MODEL, when="of one resource", before=WARM),
    case("get_buckets", KEY, when="10 resources", before=(at.buckets(1, 10),)),
    case("get_buckets_at", [(each, MODEL) for each in at.ids(50)], when="50 of them", before=(at.buckets(1000, 1),)),
    case("get_resource_capacity", MODEL, when="1,000 entities", before=(at.buckets(1000, 1),)),
    case("list_buckets", when="a page of 100, of 1,000", before=(at.buckets(1000, 1),)),
    case("reset_bucket", KEY, MODEL, before=WARM),
    replace(
        case("credit_bucket", KEY, MODEL, {"rpm": 1}, before=WARM),
        answer=True,
        refused=(
            called("credit_bucket", KEY, MODEL, {"rpm": -1}),
            called("credit_bucket", KEY, MODEL, {"unknown": 1}),
            called("credit_bucket", KEY, MODEL, {"rpm": 6}, idempotency_key=""),
        ),
    ),
    case("reset_bucket", KEY, MODEL, when="2 shards", before=(*WARM, at.split)),
    case("credit_bucket", KEY, MODEL, {"rpm": 1}, when="2 shards", before=(*WARM, at.split)),
    case("credit_bucket", KEY, MODEL, {"rpm": 1}, when="no bucket"),
    case("merge_bucket", KEY, MODEL, when="2 shards", before=(*WARM, at.split)),
    case("reset_bucket", KEY, MODEL, when="with a key", before=WARM, idempotency_key="bill-7"),
    case("credit_bucket", KEY, MODEL, {"rpm": 1}, when="with a key", before=WARM, idempotency_key="bill-7"),
    case(
        "credit_bucket",
        KEY,
        MODEL,
        {"rpm": 1},
        when="with a key, a repeat",
        before=(*WARM, at.credited("bill-7")),
        idempotency_key="bill-7",
    ),
    case("get_usage_snapshots", entity_id=KEY, when="of an entity, 24 hours", before=(at.usage(1, 24),)),
    case("get_last_calls", [KEY], when="24 hours on a resource", before=(at.usage(1, 24),)),
    case("get_usage_snapshots", resource=MODEL, when="of a resource, 100 entities", before=(at.usage(100, 1),)),
    case("get_usage_snapshots", when="of the namespace, 100 entities", before=(at.usage(100, 1),)),
    case("get_usage_summary", entity_id=KEY, when="of an entity, 31 days by the hour", before=(at.usage(1, 744),)),
    case(
        "get_usage_summary", resource=MODEL, when="of a resource, 100 entities, 10 hours", before=(at.usage(100, 10),)
    ),
    case("get_top_usage", MODEL, when="of a resource, 100 entities, 10 hours", before=(at.usage(100, 10),)),
    case("get_top_usage", when="of the namespace, 100 entities, 10 hours", before=(at.usage(100, 10),)),
]
LIMITS_OF_LEVELS = [
    case("set_system_defaults", LIMITS),
    case("set_resource_defaults", MODEL, LIMITS),
    case("set_system_defaults", RAISED, when="in place of others", before=(called("set_system_defaults", LIMITS),)),
    Case("set_resource_defaults", "in place of others", raised, (at.resource_limits,)),
    case("set_tier_limits", "gold", LIMITS),
    Case("set_tier_limits", "which 1,000 entities have", at.tier_limits, (at.tier_limits, at.of_tier(1000))),
    case("set_limits", KEY, LIMITS, MODEL),
    case("set_limits", KEY, RAISED, MODEL, when="in place of others", before=(at.own_limits,)),
    case(
        "set_limits", KEY, RAISED, MODEL, when="in place of others, with a live bucket", before=(at.own_limits, at.take)
    ),
    Case("set_limits", "as an override", at.override),
    Case("set_limits", "as an override of own limits", at.override, (at.own_limits,)),
    case("set_many_limits", PLACES, when="1,000 entities"),
    case(
        "set_many_limits",
        dict.fromkeys(PLACES, RAISED),
        when="1,000 entities, in place of others",
        before=(called("set_many_limits", PLACES),),
    ),
    case("set_system_switches", cascade="off"),
    case("set_resource_switches", MODEL, cascade="off"),
    case("set_switches", KEY, MODEL, cascade="off"),
    case("get_switches", KEY, MODEL),
    case("resolve_switches", KEY, MODEL),
    case("count_live_buckets", MODEL, when="1,000 entities", before=(at.buckets(1000, 1),)),
    case("invalidate_live_buckets", MODEL, when="1,000 entities", before=(at.buckets(1000, 1),)),
    case("get_system_defaults"),
    case("get_resource_defaults", MODEL),
    case("get_tier_limits", "gold"),
    case("get_limits", KEY, MODEL),
    case("get_override", KEY, MODEL),
    case("delete_override", KEY, MODEL, before=(at.override,)),
    case("delete_override", KEY, MODEL, when="beside own limits", before=(at.own_limits, at.override)),
    case("delete_override", KEY, MODEL, when="nothing set"),
    case("delete_system_defaults", before=(called("set_system_defaults", LIMITS),)),
    case("delete_resource_defaults", MODEL, before=(at.resource_limits,)),
    case("delete_tier_limits", "gold", before=(at.tier_limits,)),
    case("delete_limits", KEY, MODEL, before=(at.own_limits,)),
    case("delete_limits", KEY, MODEL, when="nothing set"),
    case("delete_many_limits", list(PLACES), when="1,000 entities", before=(called("set_many_limits", PLACES),)),
    case("list_tiers", when="1 tier", before=(at.tier_limits,)),
    case("list_entities_of_tier", "gold", when="1,000 entities", before=(at.tier_limits, at.of_tier(1000))),
    case("list_resources_with_defaults", when="20 resources", before=(at.limits_of_resources(20),)),
    case("list_entities_with_custom_limits", "model-0", when="1,000 entities", before=(at.entity_limits(1000, 1),)),
    case(
        "list_entities_with_custom_limits",
        "model-0",
        limit=100,
        when="a page of 100",
        before=(at.entity_limits(1000, 1),),
    ),
    case("list_resources_with_entity_configs", when="20 entities on 5", before=(at.entity_limits(20, 5),)),
    case("list_resources_with_entity_configs", when="1,000 entities on 5", before=(at.entity_limits(1000, 5),)),
]
ENTITIES = [
    case("create_entity", KEY),
    case("create_entity", KEY, tier="gold", when="with a tier", before=(at.tier_limits,)),
    case("create_entity", KEY, parent_id=PROJECT, when="with a parent", before=(called("create_entity", PROJECT),)),
    case(
        "create_entity",
        KEY,
        parent_ids=[PROJECT, "team"],
        when="with two parents",
        before=(called("create_entity", PROJECT), called("create_entity", "team")),
    ),
    case("get_entity", KEY, before=(at.family,)),
    case("get_ancestors", KEY, when="3 above, on 2 levels", before=(at.path(4),)),
    case("get_children", PROJECT, when="100 children", before=(at.children(100),)),
    case("list_entities", when="a page of 100 records", before=(at.children(150),)),
    case("list_entities", when="a page of 100, of 1,000 with buckets", before=(at.buckets(1000, 1),)),
    case("update_entity", KEY, name="A key", before=(at.family,)),
    case("update_entity", KEY, name="A key", expected_version=1, when="of one version", before=(at.family,)),
    case("update_entity", KEY, tier=None, when="loses its tier", before=(at.tier_limits, at.with_tier)),
    case("update_entity", KEY, name=None, when="nothing changes", before=(at.family,)),
    case("update_entity", KEY, parent_id=None, cascade=False, when="loses its parent", before=(at.family,)),
    case("delete_entity", KEY, when="1 limit, 1 bucket", before=(called("create_entity", KEY), at.own_limits, at.take)),
    case(
        "update_entity",
        KEY,
        parent_ids=["above-3"],
        when="moves from two parents to one",
        before=(at.path(4),),
    ),
    case("delete_entity", KEY, when="a parent, 10 buckets", before=(at.family, at.buckets(1, 10))),
    case("get_audit_events", KEY, when="100 events", before=(at.own_limits,) * 100),
    case("get_namespace_audit_events", LONG_AGO, when="100 events", before=(at.own_limits,) * 100),
    case(
        "get_namespace_audit_events",
        LONG_AGO,
        limit=10,
        when="the last 10 of 1,000",
        before=(called("set_many_limits", PLACES),),
    ),
]
NAMESPACES = [
    *(Case(method, "", at.open_again) for method in ("open", "over", "namespace")),
    *(Case(method, "a new namespace", at.open_new) for method in ("open", "over", "namespace")),
    Case("register_namespace", "a new one", at.other_namespace),
    Case("get_namespace", "", at.on_other("get_namespace", "name"), (at.other_namespace,)),
    Case("delete_namespace", "", at.on_other("delete_namespace", "name"), (at.other_namespace,)),
    Case("recover_namespace", "", at.on_other("recover_namespace", "id"), (at.deleted_namespace,)),
    case("list_namespaces", before=(at.other_namespace,)),
    case("list_orphan_namespaces", before=(at.deleted_namespace,)),
    Case("purge_namespace", "1,000 items of every kind", at.on_other("purge_namespace", "id"), (at.everything(1000),)),
    case("get_version_record"),
    case("set_version_record", VersionRecord(1, core_version(), "0.1.0")),
    case("get_provisioner_state", before=(stored(SMALL_STATE),)),
    case("get_provisioner_state", when="1,000 entities", before=(stored(BIG_STATE),)),
    case("get_provisioner_state", when="10,000 entities, twice each", before=(stored(STATE_IN_PARTS),)),
    Case("put_provisioner_state", "", stored(SMALL_STATE)),
    Case("put_provisioner_state", "1,000 entities", stored(BIG_STATE)),
    Case("put_provisioner_state", "10,000 entities, twice each", stored(STATE_IN_PARTS)),
    Case("put_provisioner_state", "in place of such a one", stored(SMALL_STATE, 1), (stored(STATE_IN_PARTS),)),
    case("note_applied", expected_serial=1, before=(stored(SMALL_STATE),)),
    case("put_configs", CONFIGS, when="1,000 entities"),
    case(
        "put_configs",
        {place: StoredConfig(tuple(RAISED), fingerprint="1" * 32) for place in CONFIGS},
        when="1,000 entities, in place of others",
        before=(called("put_configs", CONFIGS),),
    ),
    case("get_configs", list(CONFIGS), when="1,000 entities", before=(called("put_configs", CONFIGS),)),
    case("list_config_places", when="1,000 entities", before=(called("put_configs", CONFIGS),)),
    case("put_entity_records", RECORDS, when="1,000 entities below one parent"),
    case(
        "put_entity_records",
        {each: StoredEntity(PARENT_OF_ALL, cascade=True) for each in at.ids(1000)},
        when="1,000 entities, changed",
        before=(called("put_entity_records", RECORDS),),
    ),
    case("get_entity_records", list(RECORDS), when="1,000 entities", before=(called("put_entity_records", RECORDS),)),
    case("list_entity_ids", when="1,000 entities", before=(called("put_entity_records", RECORDS),)),
    case("ping"),
]
SECTIONS: Final[Mapping[str, Sequence[Case]]] = {
    "acquires": ACQUIRES,
    "buckets and usage": BUCKETS,
    "limits": LIMITS_OF_LEVELS,
    "entities": ENTITIES,
    "namespaces and state": NAMESPACES,
}
FREE: Final = {  # methods that ask nothing
    "RateLimiter.close",
    "RateLimiter.budget",  # the opening of what it answers does
    "RateLimiter.limit",  # a call of the function asks as an acquire does
    "Repository.close",
    "Repository.builder",
    "Repository.in_memory",
    "Repository.sqlite",  # opens a file
    "Repository.name",
    "Repository.namespace_id",
    "Repository.invalidate_config_cache",
    "Repository.get_cache_stats",
    "Repository.get_store_stats",
    "Lease.keep",
    "Lease.resource",
    "Lease.overflowed",
    "Lease.overflowed_early",
    "Lease.repeated",
    "Lease.refusal",
    "LeaseCalls.consumed",
    "Lease.degraded",
    "Lease.draw",
    "Lease.draws",
    "DrawLease.as_called",
    "DrawLease.has_price",
    "DrawLease.entity_id",
    "DrawLease.resource",
    "Lease.entity_id",
    "LeaseCalls.settle",  # the end of the block writes, as for an adjust
    "Lease.corrected",
    "Lease.lost_slots",
    "Lease.shadowed",
    "Lease.statuses",
    "Lease.waited",
    "LeaseCalls.weights",
    "LeaseCalls.would_exceed",
    "RateLimiter.estimate",
}


ANSWERING: Final = [case for cases in SECTIONS.values() for case in cases if case.answer is not UNTOLD]


async def answers_and_refuses(case: Case, place: Place) -> None:
    """The case answers what it says, and its wrong calls are refused."""
    for step in case.before:
        await step(place)
    assert await case.call(place) == case.answer, case.method
    for wrong in case.refused:
        with pytest.raises(ValidationError):
            await wrong(place)


async def counted(case: Case, harness: Harness) -> Meter:
    """What a case costs, on a table of its own."""
    clock = ManualClock(START_MS)
    place = Place(harness, await harness.open(clock=clock), clock)
    for step in case.before:
        await step(place)
    harness.meter.reset()
    await case.call(place)
    return harness.meter.snapshot()


async def counted_in_memory(case: Case, variant: Variant = "async") -> Meter:
    """What DynamoDB's rules say that a case costs; a case is counted once for each variant."""
    if (case, variant) not in _COUNTED:
        harness = Harness(Target("memory"), "costs", variant)
        try:
            _COUNTED[case, variant] = await counted(case, harness)
        finally:
            await harness.close()
    return _COUNTED[case, variant]


_COUNTED: dict[tuple[Case, Variant], Meter] = {}
