from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.manifests import applied, manifest_of, resource, situations, written
from zae_limiter_manifest import (
    Address,
    Change,
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    LiveItem,
    ManagedSet,
    Plan,
    SystemDecl,
    compute_diff,
    fingerprint,
    managed_after,
    settle_intended,
)

GPT_4 = Address("gpt-4")
MANAGED = ManagedSet.of([GPT_4])
NONE = ManagedSet()
OLD, NEW = resource(rpm=400), resource(rpm=500)
WANTED = manifest_of({"gpt-4": NEW})
EMPTY = manifest_of({})


def only_change(desired: LimitsManifest, live: Mapping[Address, LiveItem], managed: ManagedSet) -> Change:
    (change,) = compute_diff(desired, live, managed=managed).changes
    return change


def test_declared_unmanaged_and_absent_is_created() -> None:
    assert only_change(WANTED, {}, NONE) == Change(GPT_4, None, NEW)


def test_declared_unmanaged_and_present_is_adopted() -> None:
    assert only_change(WANTED, {GPT_4: LiveItem(OLD)}, NONE) == Change(GPT_4, OLD, NEW, adopted=True)


def test_what_is_adopted_is_written_though_its_limits_are_equal_so_that_it_carries_a_fingerprint() -> None:
    assert only_change(WANTED, {GPT_4: LiveItem(NEW)}, NONE) == Change(GPT_4, NEW, NEW, adopted=True)
    assert compute_diff(WANTED, {GPT_4: written(NEW)}).changes == ()


@pytest.mark.parametrize("item", [written(NEW), LiveItem(NEW), LiveItem(NEW, fingerprint(OLD))])
def test_declared_managed_and_equal_is_nothing(item: LiveItem) -> None:
    plan = compute_diff(WANTED, {GPT_4: item}, managed=MANAGED)
    assert (plan.changes, plan.forgotten, plan.unmanaged) == ((), (), ())


def test_declared_managed_and_as_it_was_written_is_a_pending_update() -> None:
    assert only_change(WANTED, {GPT_4: written(OLD)}, MANAGED) == Change(GPT_4, OLD, NEW)


@pytest.mark.parametrize("item", [LiveItem(OLD), LiveItem(OLD, fingerprint(NEW)), LiveItem(OLD, "other")])
def test_declared_managed_and_not_as_it_was_written_is_drift(item: LiveItem) -> None:
    assert only_change(WANTED, {GPT_4: item}, MANAGED) == Change(GPT_4, OLD, NEW, drift=True)


def test_declared_managed_and_absent_is_created_again_and_drift() -> None:
    assert only_change(WANTED, {}, MANAGED) == Change(GPT_4, None, NEW, drift=True)


def test_managed_and_declared_no_more_is_deleted() -> None:
    assert only_change(EMPTY, {GPT_4: written(OLD)}, MANAGED) == Change(GPT_4, OLD, None)
    assert only_change(EMPTY, {GPT_4: LiveItem(OLD)}, MANAGED) == Change(GPT_4, OLD, None, drift=True)


def test_managed_declared_no_more_and_absent_only_corrects_the_state() -> None:
    plan = compute_diff(EMPTY, {}, managed=MANAGED)
    assert (plan.changes, plan.forgotten) == ((), (GPT_4,))


def test_what_is_neither_declared_nor_managed_is_left_alone_and_listed() -> None:
    plan = compute_diff(EMPTY, {GPT_4: LiveItem(OLD), Address(): LiveItem(SystemDecl(on_unavailable="allow"))})
    assert (plan.changes, plan.unmanaged) == ((), (Address(), GPT_4))


def test_the_system_is_one_item_and_what_its_section_does_not_say_goes() -> None:
    live = {Address(): LiveItem(SystemDecl(on_unavailable="allow", limits={"rpm": LimitDecl(5)}))}
    desired = manifest_of({}, system=SystemDecl(on_unavailable="allow"))
    assert only_change(desired, live, NONE).after == SystemDecl(on_unavailable="allow")


def test_an_empty_manifest_deletes_all_that_is_managed_and_nothing_else() -> None:
    live = {**applied(WANTED), Address("other"): LiveItem(OLD)}
    plan = compute_diff(EMPTY, live, managed=MANAGED)
    assert [(change.action, change.address) for change in plan.changes] == [("delete", GPT_4)]


def test_changes_are_in_the_order_of_addresses_whatever_their_action() -> None:
    entity = EntityDecl({"gpt-4": NEW, "_default_": NEW})
    desired = manifest_of({"b": NEW}, system=SystemDecl(on_unavailable="block"), entities={"u": entity})
    live = {Address("a"): written(OLD), Address("c", "u"): written(OLD), Address("b", "a"): written(OLD)}
    plan = compute_diff(desired, live, managed=ManagedSet.of(live))
    assert [change.address.target for change in plan.changes] == [
        None,
        "a",
        "b",
        "a/b",
        "u/_default_",
        "u/c",
        "u/gpt-4",
    ]


def test_a_plan_says_what_it_was_made_of() -> None:
    plan = compute_diff(WANTED, {}, managed=ManagedSet.of([Address("x")]), serial=7, taken_from="stack:s/r")
    assert (plan.namespace, plan.serial, plan.taken_from) == ("tenant-alpha", 7, "stack:s/r")
    assert plan.manifest_hash == WANTED.canonical_hash()
    assert (plan.managed, plan.declared) == (1, 1)


Situation = tuple[LimitsManifest, dict[Address, LiveItem], ManagedSet]


def carry_out(plan: Plan, live: Mapping[Address, LiveItem]) -> dict[Address, LiveItem]:
    after = dict(live)
    for change in plan.changes:
        after.pop(change.address, None)
        if change.after is not None:
            after[change.address] = written(change.after)
    return after


@pytest.mark.slow
@given(situations())
@settings(max_examples=100, deadline=None)
def test_what_is_applied_is_what_is_desired(situation: Situation) -> None:
    desired, live, managed = situation
    after = carry_out(compute_diff(desired, live, managed=managed), live)
    held = desired.managed_set(managed)
    assert {at: item.decl for at, item in after.items() if at in held} == dict(desired.declared(managed))
    assert not [at for at in after if at in managed and at not in held]


@pytest.mark.slow
@given(situations())
@settings(max_examples=100, deadline=None)
def test_a_second_plan_is_empty(situation: Situation) -> None:
    desired, live, managed = situation
    after = carry_out(compute_diff(desired, live, managed=managed), live)
    again = compute_diff(desired, after, managed=managed_after(desired.managed_set(managed), managed))
    assert (again.changes, again.forgotten) == ((), ())


@pytest.mark.long
@pytest.mark.slow
@given(situations())
@settings(max_examples=100, deadline=None)
def test_what_is_unmanaged_never_changes(situation: Situation) -> None:
    desired, live, managed = situation
    plan = compute_diff(desired, live, managed=managed)
    after = carry_out(plan, live)
    others = {at: item for at, item in live.items() if at not in managed and at not in desired.managed_set(managed)}
    assert {at: item for at, item in after.items() if at in others} == others
    assert set(plan.unmanaged) == set(others)


@pytest.mark.long
@pytest.mark.slow
@given(situations(), st.data())
@settings(max_examples=100, deadline=None)
def test_an_apply_that_did_only_a_part_is_finished_by_the_next(situation: Situation, data: st.DataObject) -> None:
    desired, live, managed = situation
    plan = compute_diff(desired, live, managed=managed)
    undone = data.draw(st.sets(st.sampled_from(plan.changes))) if plan.changes else set()
    done = Plan("a", tuple(change for change in plan.changes if change not in undone))
    part = carry_out(done, live)
    still = managed_after(desired.managed_set(managed), managed, [change.address for change in undone])
    after = carry_out(compute_diff(desired, part, managed=still), part)
    assert after == carry_out(plan, live)


@pytest.mark.long
@pytest.mark.slow
@given(situations())
@settings(max_examples=100, deadline=None)
def test_a_change_is_drift_just_where_something_managed_is_not_as_it_was_written(situation: Situation) -> None:
    desired, live, managed = situation
    for change in compute_diff(desired, live, managed=managed).changes:
        item = live.get(change.address)
        untouched = item is not None and item.is_as_written
        assert change.drift is (change.address in managed and not untouched)


def test_what_an_interrupted_apply_meant_to_manage_is_managed_only_where_it_was_written() -> None:
    wrote, by_hand, never = Address("wrote"), Address("by-hand"), Address("never")
    live = {wrote: written(OLD), by_hand: LiveItem(OLD), GPT_4: LiveItem(OLD)}
    settled = settle_intended(MANAGED, ManagedSet.of([wrote, by_hand, never]), live)
    assert set(settled) == {GPT_4, wrote}
    plan = compute_diff(EMPTY, live, managed=settled)
    assert [change.address for change in plan.changes] == [GPT_4, wrote]


def test_a_change_that_was_not_done_leaves_managed_what_was() -> None:
    new, kept, failed, dropped = (Address(name) for name in ("new", "kept", "failed", "dropped"))
    desired, before = ManagedSet.of([new, kept, failed]), ManagedSet.of([kept, failed, dropped])
    assert managed_after(desired, before) == desired
    assert set(managed_after(desired, before, [new, failed, dropped])) == {kept, failed, dropped}


class Counting(Mapping[Address, Any]):
    """A table that counts how often it is asked."""

    def __init__(self, items: Mapping[Address, LiveItem]) -> None:
        self.items_by_address = items
        self.asked: Counter[str] = Counter()

    def __getitem__(self, address: Address) -> LiveItem:
        self.asked["look-up"] += 1
        return self.items_by_address[address]

    def __iter__(self) -> Iterator[Address]:
        self.asked["pass"] += 1
        return iter(self.items_by_address)

    def __len__(self) -> int:
        return len(self.items_by_address)


@pytest.mark.parametrize("entities", [10, 1000])
def test_each_address_is_looked_up_a_fixed_number_of_times_however_many_there_are(entities: int) -> None:
    def many(capacity: int) -> LimitsManifest:
        own = EntityDecl({"gpt-4": resource(rpm=capacity)})
        return manifest_of({}, entities={f"user-{number}": own for number in range(entities)})

    live = Counting({**applied(many(1)), **{Address(f"old-{number}"): written(OLD) for number in range(entities)}})
    plan = compute_diff(many(2), live, managed=ManagedSet.of(live))
    assert (plan.updated, plan.deleted) == (entities, entities)
    assert live.asked["look-up"] <= 3 * entities
    assert live.asked["pass"] <= 2
