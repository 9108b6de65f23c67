"""Entities themselves: made, moved and removed in an order that holds at each write, and never those of others."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.provisioner.provisions import Killed, World, limits, manifest
from zae_limiter.flows.records import managed_entities
from zae_limiter.flows.records import many_levels as bulk
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.values import Transact
from zae_limiter_manifest import Address, LimitsManifest, dump, load

BEFORE = manifest(
    entities={
        "acme": {"name": "Acme"},
        "globex": {},
        "key-1": {"parent": "acme", "cascade": True, "resources": {"gpt-4": limits(10)}},
        "key-2": {"parent": "acme", "metadata": {"tier": "gold"}},
        "key-3": {"parent": "globex"},
    }
)
AFTER = manifest(  # acme moves below initech, key-1 below both; key-2 and globex go
    entities={
        "acme": {"parent": "initech", "cascade": True},
        "initech": {"metadata": {"seats": 5}},
        "key-1": {"parents": ["initech", "acme"], "cascade": True, "resources": {"gpt-4": limits(20)}},
        "key-3": {"resources": {"gpt-4": limits(3)}},
    },
)
AFTERWARDS = manifest(  # what an apply of AFTER leaves: key-3 is managed, and has lost its parent
    entities={**AFTER.to_dict()["entities"], "key-3": {"cascade": False, "resources": {"gpt-4": limits(3)}}}
)


def counts(world: World) -> dict[str, int]:
    """The children that each record counts."""
    repository = world.repository()
    found = SyncMaintenance(repository).get_entity_records(SyncMaintenance(repository).list_entity_ids())
    return {entity: record.children for entity, record in found.items()}


def tree_holds(world: World) -> None:
    """Each parent is there, counts its children, and is not above itself; the index and the records agree."""
    repository = world.repository()
    records = SyncMaintenance(repository).get_entity_records(SyncMaintenance(repository).list_entity_ids())
    for entity, record in records.items():
        below = sorted(child for child, each in records.items() if entity in each.parent_ids)
        assert record.children == len(below)
        assert [each.entity_id for each in repository.get_children(entity)] == below
        above = [each.entity_id for each in repository.get_ancestors(entity)]
        assert entity not in above
        assert len(above) < 8


def test_entities_are_made_moved_and_removed() -> None:
    world = World()
    world.apply(BEFORE)
    assert world.live() == BEFORE
    assert counts(world) == {"acme": 2, "globex": 1, "key-1": 0, "key-2": 0, "key-3": 0}
    done: Any = world.apply(AFTER).plan
    assert (done.created, done.updated, done.deleted) == (2, 4, 2)
    assert world.live() == AFTERWARDS
    assert counts(world) == {"acme": 1, "initech": 2, "key-1": 0, "key-3": 0}
    assert world.repository().get_children("initech")[1].cascade
    assert world.ask("plan", AFTER).plan.changes == ()  # type: ignore[union-attr]
    done = world.apply(manifest()).plan
    assert done.deleted == 6
    assert world.live() == manifest()


def test_what_is_exported_plans_nothing() -> None:
    world = World()
    world.apply(BEFORE)
    exported = world.live()
    plan: Any = world.ask("plan", load(dump(exported))).plan
    assert (plan.changes, plan.managed) == ((), 6)
    assert world.ask("diff", exported).plan.unmanaged == ()  # type: ignore[union-attr]


def test_a_tree_made_by_hand_is_exported_and_adopted_unchanged() -> None:
    world = World()
    repository = world.repository()
    repository.create_entity("acme", name="Acme", metadata={"a": [1, True, {"b": None}]})
    repository.create_entity("key-1", parent_id="acme", cascade=True)
    repository.create_entity("alone")
    exported = world.live()
    assert exported == manifest(
        entities={
            "acme": {"name": "Acme", "metadata": {"a": [1, True, {"b": None}]}},
            "key-1": {"parent": "acme", "cascade": True},
            "alone": {},
        }
    )
    plan: Any = world.apply(exported).plan
    assert [(change.adopted, change.fields()) for change in plan.changes] == [(True, ())] * 3
    assert world.live() == exported
    assert world.ask("plan", exported).plan.changes == ()  # type: ignore[union-attr]


def test_drift_is_told_from_what_is_pending_and_from_what_is_not_managed() -> None:
    world = World()
    world.apply(BEFORE)
    repository = world.repository()
    repository.update_entity("key-1", parent_id="globex")
    repository.delete_entity("key-2")
    repository.create_entity("by-hand", parent_id="acme")
    plain = BEFORE.to_dict()
    plain["entities"]["key-3"]["name"] = "three"
    plan: Any = world.ask("diff", LimitsManifest.from_dict(plain)).plan
    assert {str(change.address): change.drift for change in plan.changes} == {
        "entity key-1": True,
        "entity key-2": True,
        "entity key-3": False,
    }
    assert plan.unmanaged == (Address(None, "by-hand"),)
    world.apply(BEFORE)
    assert world.repository().get_entity("by-hand")
    assert counts(world)["acme"] == 3


def test_an_entity_that_only_has_limits_is_left_as_it_is() -> None:
    world = World()
    world.repository().create_entity("key-1", name="mine", metadata={"a": "b"})
    world.apply(manifest(entities={"key-1": {"resources": {"gpt-4": limits(1)}}}))
    world.apply(manifest(entities={"key-2": {"resources": {"gpt-4": limits(1)}}}))
    found = world.repository().get_entity("key-1")
    assert found is not None
    assert (found.name, found.metadata, found.version) == ("mine", {"a": "b"}, 1)
    assert world.repository().get_entity("key-2") is None


def test_children_of_others_guard_their_parent() -> None:
    wanted = manifest()
    world = World()
    world.apply(manifest(entities={"acme": {}}))
    world.repository().create_entity("by-hand", parent_id="acme")
    for action in ("plan", "apply"):
        (failure,) = world.ask(action, wanted).errors
        assert failure.code == "has_children"
        assert "entity acme (1)" in failure.message
    assert world.live().entities.keys() == {"acme", "by-hand"}
    world.apply(manifest(entities={"x": {}, "acme": {"parent": "x"}}))  # it moves, and its children with it
    assert [each.entity_id for each in world.repository().get_ancestors("by-hand")] == ["acme", "x"]


def test_a_child_that_comes_between_plan_and_write_fails_its_parent_alone() -> None:
    world = World()
    world.apply(BEFORE)
    store = world.store()

    def hand(operation: Any) -> None:
        if store.written and type(operation).__name__ == "Transact" and not world.repository().get_entity("late"):
            world.repository().create_entity("late", parent_id="acme")

    store.fault = hand
    answer = world.ask("apply", manifest(entities={"globex": {}}), store=store)
    assert answer.status == "partial"
    (failure,) = answer.errors
    assert (failure.address, failure.code) == (Address(None, "acme"), "not_written")
    assert "children" in failure.message
    tree_holds(world)
    assert world.repository().get_children("acme")


def test_events_tell_what_became_of_an_entity() -> None:
    world = World()
    world.apply(BEFORE, principal="ann")
    world.apply(AFTER, principal="bob")
    events = world.repository().get_audit_events("key-2").events
    assert [each.action for each in events] == ["entity_deleted", "entity_created"]
    assert [each.principal for each in events] == ["provisioner (claimed: bob)", "provisioner (claimed: ann)"]
    (moved, _) = (each for each in world.repository().get_audit_events("acme").events)
    assert moved.before is not None
    assert moved.after is not None
    assert (moved.action, moved.before["parent_id"], moved.after["parent_id"]) == ("entity_updated", None, "initech")


def test_a_thousand_entities_take_few_requests() -> None:
    world = World()
    tree = {"acme": {}, "globex": {}, **{f"key-{n}": {"parent": ("acme", "globex")[n % 2]} for n in range(1000)}}
    store = world.store()
    world.apply(manifest(entities=tree), store=store)
    assert len(store.written) <= 3 + 1002 / 25 + 10
    assert counts(world)["acme"] == counts(world)["globex"] == 500
    assert len(world.ask("state").state.managed) == 1002  # type: ignore[union-attr]
    moved = {**tree, **{f"key-{n}": {"parent": "globex"} for n in range(1000)}}
    world.apply(manifest(entities=moved))
    assert (counts(world)["acme"], counts(world)["globex"]) == (0, 1000)


def test_children_of_one_parent_are_counted_together() -> None:
    world = World()
    teams: dict[str, Any] = {f"team-{n:02}": {} for n in range(20)}
    keys = {f"key-{n:03}": {"parent": f"team-{n % 20:02}", "cascade": True} for n in range(200)}
    store = world.store()
    world.apply(manifest(entities=teams | keys), store=store)
    written = [len(each.writes) for each in store.written if isinstance(each, Transact)]
    assert sum(written) <= 2 * 220 + 20 + len(written)  # a parent's children fall into two transactions at most
    world.apply(manifest(entities=teams))
    assert set(counts(world).values()) == {0}


@pytest.fixture
def every_change_is_a_write_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHANGES_PER_TRANSACTION", 1)
    monkeypatch.setattr(managed_entities, "CHANGES_PER_TRANSACTION", 1)


def killed(at: int, *, applied: bool) -> World | None:
    """A world whose apply died at that write; None if it had fewer."""
    world = World()
    world.apply(BEFORE)
    world.repository().create_entity("by-hand", parent_id="globex")
    wanted = manifest(entities={**AFTER.to_dict()["entities"], "globex": {"name": "stays"}})
    try:
        world.ask("apply", wanted, store=world.store(at, applied=applied))
    except Killed:
        return world
    return None


@pytest.mark.long(keep=1)
@pytest.mark.usefixtures("every_change_is_a_write_of_its_own")
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["the same", "the file before", "nothing"])
def test_an_apply_that_is_killed_at_any_write_is_finished_by_the_next_one(applied: bool, then: str) -> None:  # noqa: FBT001
    at = 0
    while (world := killed(at, applied=applied)) is not None:
        tree_holds(world)
        world.clock.advance(906)
        wanted = {
            "the same": manifest(entities={**AFTER.to_dict()["entities"], "globex": {"name": "stays"}}),
            "the file before": BEFORE,
            "nothing": manifest(entities={"globex": {}}),
        }[then]
        world.apply(wanted)
        tree_holds(world)
        live = world.live().to_dict()["entities"]
        assert live.pop("by-hand") == {"parent": "globex"}
        if then == "the same":
            live["key-3"].pop("cascade")
        assert live == wanted.to_dict()["entities"]
        state = world.ask("state").state
        assert state
        assert (state.managed, state.lock) == (managed_of(wanted, then), None)
        at += 1
    assert at > 8


def managed_of(wanted: LimitsManifest, then: str) -> object:
    own = wanted.managed_set()
    return type(own).of([*own, *([Address(None, "key-3")] if then == "the same" else [])])


names = st.sampled_from(["a", "b", "c", "d", "e", "f"])


@st.composite
def trees(draw: st.DrawFn) -> LimitsManifest:
    ids = draw(st.lists(names, unique=True))
    found: dict[str, Any] = {}
    for number, each in enumerate(ids):
        section: dict[str, Any] = {}
        if number and (parents := draw(st.lists(st.sampled_from(ids[:number]), unique=True, max_size=4))):
            section = {"parents": parents, "cascade": draw(st.booleans())}
        if draw(st.booleans()):
            section["resources"] = {"gpt-4": limits(draw(st.integers(1, 3)))}
        if draw(st.booleans()):
            section["name"] = draw(names)
        found[each] = section
    return manifest(entities=found)


@given(st.lists(trees(), min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_tree_follows_any_other(wanted: list[LimitsManifest]) -> None:
    world = World()
    for each in wanted:
        plan: Any = world.ask("plan", each).plan
        world.apply(each, expected_serial=plan.serial, expected_plan=plan.changes_hash())
        tree_holds(world)
        known = world.ask("state").state.managed  # type: ignore[union-attr]
        assert dict(world.live().declared()) == dict(each.declared(known))
        assert world.ask("plan", each).plan.changes == ()  # type: ignore[union-attr]
        assert world.ask("plan", load(dump(world.live()))).plan.changes == ()  # type: ignore[union-attr]


def test_a_tree_of_any_shape_is_exported_whole() -> None:
    world = World()
    repository = world.repository()
    repository.create_entity("org")
    repository.create_entity("team", parent_id="org", cascade=True)
    repository.create_entity("key", parent_id="team", cascade=True)
    repository.create_entity("both", parent_ids=["team", "org"])
    repository.create_entity("below-both", parent_id="both")
    exported = world.live()
    assert exported.to_dict()["entities"]["both"] == {"parents": ["team", "org"]}
    plan: Any = world.apply(load(dump(exported))).plan
    assert [(change.adopted, change.fields()) for change in plan.changes] == [(True, ())] * 5
    assert world.ask("plan", world.live()).plan.changes == ()  # type: ignore[union-attr]


def chain(*names: str) -> dict[str, Any]:
    """Entities of which each is the parent of the next."""
    return {name: {"parent": above} if above else {} for name, above in zip(names, ("", *names), strict=False)}


def test_a_chain_turned_upside_down_is_a_tree_at_each_write() -> None:
    world = World()
    world.apply(manifest(entities=chain(*"abcdefgh")))
    store = world.store()
    store.fault = lambda operation: tree_holds(world) if type(operation).__name__ == "Transact" else None
    world.apply(manifest(entities=chain(*"hgfedcba")), store=store)
    assert [each.entity_id for each in world.repository().get_ancestors("a")] == list("bcdefgh")


def test_targets_that_would_close_a_circle_are_refused_before_anything_is_written() -> None:
    world = World()
    world.apply(manifest(entities={**chain("a", "b"), "c": {}}))
    world.repository().update_entity("b", parent_id=None)
    world.repository().create_entity("by-hand", parent_id="a")
    world.repository().update_entity("b", parent_id="by-hand")
    wanted = manifest(entities={"b": {}, "a": {"parent": "b"}, "c": {"parent": "d"}, "d": {}})
    for action in ("plan", "apply"):
        (failure,) = world.ask(action, wanted, targets=("entity a",)).errors
        assert failure.code == "circle"
        assert failure.message == "entity a would be above itself, a -> b -> by-hand -> a: move it elsewhere"
        (failure,) = world.ask(action, wanted, targets=("entity c",)).errors
        assert (failure.code, failure.message) == (
            "no_parent",
            "entity c would be below d, which is not there: apply that, too",
        )
    assert world.repository().get_ancestors("a") == []
    world.apply(wanted)
    assert [each.entity_id for each in world.repository().get_ancestors("by-hand")] == ["a", "b"]


def test_a_move_that_puts_too_many_above_the_children_of_others_is_refused() -> None:
    world = World()
    tops = chain(*"abcdef")
    world.apply(manifest(entities={**tops, "team": {}}))
    repository = world.repository()
    repository.create_entity("by-hand", parent_id="team")
    repository.create_entity("lowest", parent_id="by-hand")
    wanted = manifest(entities={**tops, "team": {"parent": "f"}})
    for action in ("plan", "apply"):
        (failure,) = world.ask(action, wanted).errors
        assert failure.code == "too_many_above"
        assert failure.message == (
            "entity lowest would have by-hand, team, f, e, d, c, b, a above it: at most 7 entities can be"
        )
    repository.update_entity("lowest", parent_id=None)
    world.apply(wanted)
    tree_holds(world)


def test_a_child_whose_parent_the_index_does_not_show_yet_is_exported_with_it() -> None:
    world = World()
    world.apply(manifest(entities=chain("org", "team", "key")))
    shown = SyncMaintenance.list_entity_ids

    def late(of: SyncMaintenance) -> list[str]:
        return [each for each in shown(of) if each not in ("org", "team")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SyncMaintenance, "list_entity_ids", late)
        assert world.live() == manifest(entities=chain("org", "team", "key"))
        patch.setattr(SyncMaintenance, "list_entity_ids", lambda _: ["team"])
        found = SyncMaintenance.get_entity_records
        patch.setattr(
            SyncMaintenance,
            "get_entity_records",
            lambda self, ids: {each: record for each, record in found(self, ids).items() if each != "org"},
        )
        (failure,) = world.ask("export").errors
        assert (failure.code, failure.message) == ("stale", "org was deleted while its children were read: ask again")
