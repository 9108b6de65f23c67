"""An apply that is killed at any write is finished by the next one; nothing is orphaned, nothing unmanaged touched."""

import pytest

from support.provisioner.provisions import EVERY_LEVEL, Killed, World, limits, manifest, rpm
from zae_limiter.flows.records import many_levels as bulk
from zae_limiter_manifest import LimitsManifest
from zae_limiter_provisioner.apply_options import ApplyOptions

AFTER = manifest(
    system=limits(90),
    resources={"gpt-5": limits(5)},
    entities={"user-1": {"resources": {"gpt-4": limits(21)}}, "user-2": {"resources": {"gpt-4": limits(2)}}},
)


def by_hand(world: World) -> None:
    """What no manifest names at first; `gpt-5` is to be adopted."""
    world.repository().set_resource_defaults("by-hand", rpm(7))
    world.repository().set_resource_defaults("gpt-5", rpm(55))
    world.repository().set_limits("user-9", rpm(9))


def writes_of_an_apply() -> int:
    world = World()
    by_hand(world)
    world.apply(EVERY_LEVEL)
    store = world.store()
    world.apply(AFTER, store=store)
    return len(store.written)


with pytest.MonkeyPatch.context() as patch:
    patch.setattr(bulk, "CHANGES_PER_TRANSACTION", 1)
    COUNT = writes_of_an_apply()


@pytest.fixture(autouse=True)
def every_change_is_a_write_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHANGES_PER_TRANSACTION", 1)


def killed(at: int, *, applied: bool, wanted: LimitsManifest = AFTER) -> World:
    world = World()
    by_hand(world)
    world.apply(EVERY_LEVEL)
    with pytest.raises(Killed):
        world.ask("apply", wanted, store=world.store(at, applied=applied))
    return world


everywhere = pytest.mark.parametrize("at", range(COUNT))
either = pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])


def with_what_was_made_by_hand(wanted: LimitsManifest, **resources: dict[str, object]) -> LimitsManifest:
    plain = wanted.to_dict()
    plain.setdefault("resources", {}).update({"by-hand": limits(7), **resources})
    plain.setdefault("entities", {})["user-9"] = {"resources": {"_default_": limits(9)}}
    return LimitsManifest.from_dict(plain)


@either
@everywhere
def test_the_next_apply_ends_in_the_declared_state(at: int, *, applied: bool) -> None:
    world = killed(at, applied=applied)
    world.clock.advance(906)
    world.apply(AFTER)
    assert world.live() == with_what_was_made_by_hand(AFTER)
    state = world.ask("state").state
    assert state
    assert (state.managed, state.lock) == (AFTER.managed_set(), None)


@either
@everywhere
def test_an_apply_of_the_file_before_leaves_nothing_of_the_one_that_was_killed(at: int, *, applied: bool) -> None:
    world = killed(at, applied=applied)
    world.clock.advance(906)
    was_adopted = world.live().resources["gpt-5"].limits["rpm"].capacity == 5
    world.apply(EVERY_LEVEL)
    adopted = {} if was_adopted else {"gpt-5": limits(55)}
    assert world.live() == with_what_was_made_by_hand(EVERY_LEVEL, **adopted)


@either
def test_another_apply_waits_for_the_one_that_was_killed_or_says_who_it_is(applied: bool) -> None:  # noqa: FBT001
    world = killed(1, applied=applied)
    refused = world.ask("apply", AFTER)
    (failure,) = refused.errors
    assert failure.code == "locked"
    assert "cli is applying, until " in failure.message
    long_timeout = ApplyOptions(lock_timeout=1000)
    world.apply_run(AFTER, options=long_timeout, deadline=world.deadline(5000)).run()
    assert world.live() == with_what_was_made_by_hand(AFTER)


def test_an_apply_consists_of_the_intention_the_changes_and_the_outcome() -> None:
    assert COUNT == 1 + 2 + 6 + 1 + 1  # and its place in the history: the manifest, what it is, what came of it
