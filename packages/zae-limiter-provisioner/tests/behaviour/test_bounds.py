"""What comes by the alias of a namespace keeps the namespace's bounds, whatever its payload says; the platform may do
anything.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from support.provisioner.provisions import NAMESPACE, Store, World, limits, manifest, rpm
from support.provisioner.stack_sender import Stack
from zae_limiter import RateLimitExceeded, SyncRateLimiter, ValidationError
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.values import Key, Update
from zae_limiter.schema import keys
from zae_limiter_manifest import LimitsManifest, pack
from zae_limiter_manifest.delegation import alias_of
from zae_limiter_provisioner import cloudformation, handler
from zae_limiter_provisioner.handler import on_event, on_plan_event

ARN = "arn:aws:lambda:us-east-1:123456789012:function:my-app-limits-provisioner"
BOUNDS = {"limits": {"rpm": "100/min"}, "parents": ["org-*"], "tiers": ["free"]}
WITHIN = manifest(system=limits(100), resources={"gpt-4": limits(50)})
TIER = {"resources": {"_default_": limits(1)}}
BEYOND = {
    "system.limits.rpm": manifest(system=limits(101)),
    "resources.gpt-4.limits.rpm": manifest(system=limits(100), resources={"gpt-4": limits(101)}),
    'resources["*"].limits': manifest(resources={"*": {"limits": "unlimited"}}),
    "entities.ann.resources._default_.limits": manifest(
        system=limits(100), entities={"ann": {"resources": {"_default_": {"limits": {"tpm": "9/min"}}}}}
    ),
    "system.bypass": manifest(system={**limits(1), "bypass": True}),
    "tiers.vip": manifest(tiers={"vip": TIER}),
    "entities.ann.parent": manifest(entities={"boss": {}, "ann": {"parent": "boss"}}),
}


@dataclass(frozen=True)
class Context:
    """What Lambda tells a handler."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


OURS = Context(f"{ARN}:{alias_of(NAMESPACE)}")
PLATFORM = Context(ARN)


@pytest.fixture
def store(world: World, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What the handlers talk to: the world's table."""
    store = world.store()
    for module in (handler, cloudformation):
        monkeypatch.setattr(module, "table_of_environment", lambda: world.table(store))
    return store


@pytest.fixture
def bound(store: Store) -> Store:
    """The table, whose namespace has bounds."""
    assert bind()["status"] == "applied"
    store.seen.clear()
    return store


def bind(bounds: Any = BOUNDS, context: object = PLATFORM, **more: Any) -> dict[str, Any]:
    return on_event({"action": "bind", "namespace": NAMESPACE, "bounds": bounds, **more}, context)


def ask(action: str, wanted: LimitsManifest, context: object = OURS, **more: Any) -> dict[str, Any]:
    return on_event({"action": action, "manifest": wanted.to_dict(), **more}, context)


def codes(answer: dict[str, Any]) -> list[str]:
    return [each["code"] for each in answer["errors"]]


def found() -> Any:
    return on_plan_event({"action": "bounds", "namespace": NAMESPACE}, OURS).get("bounds")


@pytest.mark.parametrize("at", BEYOND)
def test_a_plan_and_an_apply_by_the_alias_are_refused_before_anything_is_written(
    world: World, bound: Store, at: str
) -> None:
    before = world.items()
    for act, action in ((on_plan_event, "plan"), (on_event, "plan"), (on_event, "apply")):
        for payload in (plain := {"action": action, "manifest": BEYOND[at].to_dict()}, pack(plain)):
            bound.seen.clear()
            answer = act(payload, OURS)
            assert (answer["status"], codes(answer)) == ("failed", ["beyond_bounds"])
            assert [each["path"] for each in answer["errors"]] == [at]
            assert len(bound.seen) == 1  # the bounds
    assert (bound.written, world.items()) == ([], before)


def test_each_place_is_named_with_its_value_and_its_bound(bound: Store) -> None:
    wanted = manifest(system=limits(101), resources={"gpt-4": limits(200)})
    assert ask("apply", wanted)["errors"] == [
        {"code": "beyond_bounds", "message": "is 101/min, above its bound, 100/min", "path": "system.limits.rpm"},
        {
            "code": "beyond_bounds",
            "message": "is 200/min, above its bound, 100/min",
            "path": "resources.gpt-4.limits.rpm",
        },
    ]
    assert len(ask("plan", manifest(resources={f"r{n}": limits(200) for n in range(2_000)}))["errors"]) == 100


@pytest.mark.usefixtures("bound")
def test_what_keeps_the_bounds_is_applied_and_they_survive_it(world: World) -> None:
    assert ask("plan", WITHIN)["status"] == "planned"
    assert ask("apply", WITHIN)["status"] == "applied"
    assert world.live() == WITHIN
    assert ask("apply", manifest())["status"] == "applied"  # which removes all that was applied
    assert (world.live(), found()) == (manifest(), BOUNDS)


def test_an_invocation_by_the_alias_costs_one_request_more(world: World, bound: Store) -> None:
    world.apply(WITHIN)
    numbers = {}
    for context in (OURS, PLATFORM):
        bound.seen.clear()
        assert ask("apply", WITHIN, context)["status"] == "applied"
        numbers[context] = len(bound.seen)
    assert numbers[OURS] == numbers[PLATFORM] + 1


@pytest.mark.parametrize("options", [{"targets": ["system"]}, {"take_over": True}, {"share": "1%"}, {"principal": "x"}])
@pytest.mark.usefixtures("bound")
def test_no_option_widens_the_bounds(options: dict[str, Any]) -> None:
    for action in ("plan", "apply"):
        assert codes(ask(action, BEYOND["system.limits.rpm"], **options)) == ["beyond_bounds"]


@pytest.mark.parametrize(
    "forged",
    [
        {"action": "bind", "namespace": NAMESPACE, "bounds": {"limits": {"rpm": "1M/sec"}}},
        {"action": "unbind", "namespace": NAMESPACE},
    ],
    ids=lambda each: each["action"],
)
@pytest.mark.parametrize("alias", [alias_of(NAMESPACE), "live", "7"])
def test_no_alias_changes_bounds(bound: Store, forged: dict[str, Any], alias: str) -> None:
    answer = on_event(forged, Context(f"{ARN}:{alias}"))
    assert codes(answer) == ["not_delegated"]
    assert codes(on_plan_event(forged, OURS)) == codes(on_plan_event(forged, PLATFORM)) == ["read_only"]
    assert (bound.written, found()) == ([], BOUNDS)


@pytest.mark.parametrize("action", ["plan", "apply"])
def test_bounds_in_another_request_are_refused(bound: Store, action: str) -> None:
    answer = ask(action, BEYOND["system.limits.rpm"], bounds={"limits": {"rpm": "1M/sec"}})
    assert (codes(answer), bound.seen) == (["bad_request"], [])


@pytest.mark.parametrize("context", [PLATFORM, None, Context(f"{ARN}:$LATEST")])
@pytest.mark.usefixtures("bound")
def test_the_platform_is_not_bound_and_its_plan_says_what_is_beyond(world: World, context: object) -> None:
    wanted = BEYOND["system.limits.rpm"]
    message = "is 101/min, above its bound, 100/min"
    for act in (on_event, on_plan_event):
        planned = act({"action": "plan", "manifest": wanted.to_dict()}, context)
        assert (planned["status"], [each["message"] for each in planned["beyond"]]) == ("planned", [message])
    assert ask("apply", wanted, context)["status"] == "applied"
    assert world.live() == wanted
    assert "beyond" not in ask("plan", WITHIN, context)


@pytest.mark.usefixtures("store")
def test_without_bounds_an_alias_may_set_any_limit(world: World) -> None:
    assert ask("apply", BEYOND["system.limits.rpm"])["status"] == "applied"
    assert world.live() == BEYOND["system.limits.rpm"]
    assert found() is None


@pytest.mark.usefixtures("bound")
def test_bounds_are_changed_and_removed() -> None:
    assert found() == BOUNDS
    assert bind({"limits": {"rpm": "101/min"}})["bounds"] == {"limits": {"rpm": "101/min"}}
    assert ask("apply", BEYOND["system.limits.rpm"])["status"] == "applied"
    told = bind()  # what is applied is beyond them now, and stays until the next apply
    assert [(each["path"], each["message"]) for each in told["beyond"]] == [
        ("system.limits.rpm", "is 101/min, above its bound, 100/min")
    ]
    assert codes(ask("plan", BEYOND["system.limits.rpm"])) == ["beyond_bounds"]
    assert on_event({"action": "unbind", "namespace": NAMESPACE}, PLATFORM)["status"] == "applied"
    assert (found(), ask("plan", BEYOND["system.limits.rpm"])["status"]) == (None, "planned")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("bounds", [{"limits": {"rpm": 5}}, {}, "x", None, {"limits": {"rpm": "5/min shadow"}}])
def test_bounds_that_are_none_are_refused_and_change_nothing(bounds: Any) -> None:
    bind()
    assert codes(bind(bounds)) == ["bad_request"]
    assert found() == BOUNDS


def test_bounds_hold_before_the_namespace_is_there_and_after_it_was_purged(world: World, bound: Store) -> None:
    assert codes(ask("apply", BEYOND["system.limits.rpm"])) == ["beyond_bounds"]
    ask("apply", WITHIN)
    repository = world.repository()
    repository.delete_namespace(NAMESPACE)
    SyncMaintenance(repository).purge_namespace(repository.namespace_id)
    assert codes(ask("apply", BEYOND["system.limits.rpm"])) == ["beyond_bounds"]
    assert ask("apply", WITHIN)["status"] == "applied"
    assert bound.written


@pytest.mark.usefixtures("bound")
def test_bounds_that_cannot_be_read_bind_an_alias_to_nothing(world: World) -> None:
    for content in ("{", "7", '{"limits": {"rpm": 7}}', '{"newer": 1}'):
        world.memory.execute(
            Update(Key(keys.pk_system(keys.REGISTRY), keys.sk_bounds(NAMESPACE)), set={"content": content})
        )
        for act in (on_event, on_plan_event):
            assert codes(act({"action": "plan", "manifest": WITHIN.to_dict()}, OURS)) == ["unreadable_bounds"]
    assert bind()["status"] == "applied"
    assert ask("plan", WITHIN)["status"] == "planned"


@pytest.mark.usefixtures("bound")
def test_the_history_brings_nothing_back_that_is_beyond(world: World) -> None:
    """A rollback is an apply of what the history has."""
    world.apply(BEYOND["system.limits.rpm"])
    ask("apply", WITHIN)
    kept = on_event({"action": "history", "namespace": NAMESPACE}, OURS)["history"]
    old = on_event({"action": "show", "namespace": NAMESPACE, "serial": kept[-1]["serial"]}, OURS)["manifest"]
    assert codes(ask("apply", LimitsManifest.from_dict(old))) == ["beyond_bounds"]


class TestCloudFormation:
    @pytest.fixture(autouse=True)
    def _bound(self, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handler, "table_of_environment", lambda: world.table(stack.store))
        bind()

    @pytest.mark.parametrize("at", BEYOND)
    def test_a_create_beyond_the_bounds_fails_and_is_rolled_back(self, stack: Stack, world: World, at: str) -> None:
        told = stack.send(stack.event("Create", BEYOND[at], TakeOver=True), OURS)
        assert told["Status"] == "FAILED"
        assert told["Reason"].startswith(f"{at} ")
        stack.physical_id = told["PhysicalResourceId"]
        assert stack.send(stack.event("Delete", BEYOND[at]), OURS)["Status"] == "SUCCESS"
        assert world.ask("export").errors[0].code == "namespace_not_found"

    def test_an_update_beyond_them_fails_and_what_keeps_them_goes_on(self, stack: Stack, world: World) -> None:
        stack.physical_id = stack.send(stack.event("Create", WITHIN), OURS)["PhysicalResourceId"]
        assert stack.send(stack.event("Update", BEYOND["system.limits.rpm"]), OURS)["Status"] == "FAILED"
        assert stack.send(stack.event("Update", WITHIN), OURS)["Status"] == "SUCCESS"
        assert world.live() == WITHIN
        assert stack.send(stack.event("Delete", WITHIN), OURS)["Status"] == "SUCCESS"
        assert world.live() == manifest()

    def test_a_rollback_to_limits_that_are_older_than_the_bounds_changes_nothing_and_succeeds(
        self, stack: Stack, world: World
    ) -> None:
        bind({"limits": {"rpm": "1000/min"}})
        old = manifest(system=limits(500))
        stack.physical_id = stack.send(stack.event("Create", old), OURS)["PhysicalResourceId"]
        bind()
        assert stack.send(stack.event("Update", manifest(system=limits(501))), OURS)["Status"] == "FAILED"
        assert stack.send(stack.event("Update", old), OURS)["Status"] == "SUCCESS"
        world.repository().set_system_defaults(rpm(1))  # by hand, in between
        assert stack.send(stack.event("Update", old), OURS)["Status"] == "FAILED"

    def test_the_stack_of_the_platform_is_not_bound(self, stack: Stack, world: World) -> None:
        assert stack.do("Create", BEYOND["system.limits.rpm"])["Status"] == "SUCCESS"
        assert world.live() == BEYOND["system.limits.rpm"]


@pytest.mark.usefixtures("bound")
def test_a_caller_gets_no_more_than_the_bound_after_any_order_of_applies_to_parts(world: World) -> None:
    """Each file keeps the bounds; of each only a part is applied, so that levels of different files hold together."""
    files = [
        manifest(system=limits(100), resources={"gpt-4": {**limits(90), "extends": True}}),
        manifest(resources={"*": limits(80)}, entities={"ann": {"resources": {"gpt-4": limits(100)}}}),
        manifest(
            system={"limits": {"tpm": "5/min"}},
            entities={"ann": {"resources": {"_default_": {"limits": {"tpm": "9/min"}, "extends": True}}}},
        ),
    ]
    for first in files:
        for second in files:
            for target in ("system", "resources/*", "entities/ann/*", "*"):
                assert ask("apply", first)["status"] == "applied"
                assert codes(ask("apply", second, targets=[target])) == []
                assert taken(world) <= 100


def taken(world: World) -> int:
    """How many calls of an entity are admitted at once, on a resource that has limits of its own."""
    repository = world.repository()
    repository.reset_bucket("ann", "gpt-4")
    limiter, count = SyncRateLimiter(repository), 0
    try:
        while count < 200:
            with limiter.acquire("ann", "gpt-4", {"rpm": 10}):
                count += 10
    except RateLimitExceeded:
        return count
    except ValidationError:  # no level knows the name, so no call has it
        return 0
    return count
