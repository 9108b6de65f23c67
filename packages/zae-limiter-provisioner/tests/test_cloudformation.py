from collections.abc import Iterator
from typing import Any

import pytest
from provisions import EVERY_LEVEL, World, entities, limits, manifest, rpm
from stack_replies import Replies, response_url

from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Transact
from zae_limiter_manifest import LimitsManifest, StackProperties
from zae_limiter_provisioner import cloudformation, replying
from zae_limiter_provisioner.handler import on_event

STACK = "arn:aws:cloudformation:eu-central-1:123456789012:stack/tenants/0f1e2d3c"
OWNER = f"stack:{STACK}/TenantLimits"


@pytest.fixture
def replies() -> Iterator[Replies]:
    with response_url() as replies:
        yield replies


class Stack:
    """A stack whose resource sends events, each with a request id of its own."""

    def __init__(self, world: World, replies: Replies, patch: pytest.MonkeyPatch, stack_id: str = STACK) -> None:
        self.world, self.replies, self.stack_id = world, replies, stack_id
        self.store = world.store()
        self.physical_id: str | None = None
        self.count = 0
        patch.setattr(cloudformation, "table_of_environment", lambda: world.table(self.store))
        patch.setattr(replying, "PAUSES", (0.01, 0.01, 0.01))

    def event(self, kind: str, wanted: LimitsManifest, **properties: Any) -> dict[str, Any]:
        self.count += 1
        said = texts({"ServiceToken": "arn", **StackProperties(wanted).to_dict(), **properties})
        physical = {} if self.physical_id is None else {"PhysicalResourceId": self.physical_id}
        return {
            "RequestType": kind,
            "RequestId": f"request-{self.count}",
            "ResponseURL": self.replies.url,
            "StackId": self.stack_id,
            "LogicalResourceId": "TenantLimits",
            "ResourceType": "Custom::ZaeLimiterLimits",
            "ResourceProperties": said,
            **physical,
        }

    def send(self, event: dict[str, Any], context: object = None) -> dict[str, Any]:
        self.replies.bodies.clear()
        on_event(event, context)
        told = self.replies.only
        assert all(len(body) < 4096 for body in self.replies.bodies)
        assert (told["RequestId"], told["StackId"]) == (event["RequestId"], self.stack_id)
        return told

    def do(self, kind: str, wanted: LimitsManifest = EVERY_LEVEL, **properties: Any) -> dict[str, Any]:
        told = self.send(self.event(kind, wanted, **properties))
        self.physical_id = told["PhysicalResourceId"]
        return told


def texts(value: Any) -> Any:
    """As CloudFormation hands values over: all scalars as text."""
    if isinstance(value, dict):
        return {key: texts(each) for key, each in value.items()}
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture
def stack(world: World, replies: Replies, monkeypatch: pytest.MonkeyPatch) -> Stack:
    return Stack(world, replies, monkeypatch)


def owner(world: World) -> str | None:
    return world.ask("state").state.owner  # type: ignore[union-attr]


def test_a_create_applies_with_numbers_as_text_and_replies_with_counts_and_the_hash(stack: Stack, world: World) -> None:
    told = stack.do("Create")
    assert (told["Status"], told["PhysicalResourceId"]) == ("SUCCESS", f"{OWNER}/tenant-alpha")
    assert (told["Data"]["Created"], told["Data"]["ManifestHash"]) == (4, EVERY_LEVEL.canonical_hash())
    assert (world.live(), owner(world)) == (EVERY_LEVEL, OWNER)
    assert stack.replies.types == [""]


def test_an_update_applies_and_keeps_the_physical_id(stack: Stack, world: World) -> None:
    first = stack.do("Create")
    told = stack.do("Update", manifest(resources={"gpt-4": limits(51)}))
    assert (told["Status"], told["PhysicalResourceId"]) == ("SUCCESS", first["PhysicalResourceId"])
    assert (told["Data"]["Updated"], told["Data"]["Deleted"]) == (1, 3)


def test_a_delete_takes_all_that_is_managed_and_nothing_else(stack: Stack, world: World) -> None:
    world.repository().set_resource_defaults("by-hand", rpm(7))
    stack.do("Create")
    assert stack.do("Delete")["Status"] == "SUCCESS"
    assert (world.live(), owner(world)) == (manifest(resources={"by-hand": limits(7)}), None)


def test_a_second_owner_is_refused_and_its_delete_takes_nothing(stack: Stack, world: World) -> None:
    world.apply(EVERY_LEVEL)
    told = stack.do("Create")
    assert (told["Status"], "cli manages the limits" in told["Reason"]) == ("FAILED", True)
    assert stack.do("Delete")["Status"] == "SUCCESS"
    assert (world.live(), owner(world)) == (EVERY_LEVEL, "cli")


def test_one_that_takes_over_owns_the_namespace_from_then_on(stack: Stack, world: World) -> None:
    world.apply(EVERY_LEVEL)
    assert stack.do("Create", TakeOver=True)["Status"] == "SUCCESS"
    assert owner(world) == OWNER
    (failure,) = world.ask("apply", EVERY_LEVEL).errors
    assert failure.code == "not_owner"
    assert world.ask("plan", EVERY_LEVEL).errors[0].code == "not_owner"
    assert world.ask("diff", EVERY_LEVEL).status == "planned"
    world.apply(EVERY_LEVEL, take_over=True)
    assert owner(world) == "cli"


def failing(stack: Stack) -> None:
    def fault(operation: Any) -> None:
        if isinstance(operation, Transact) and any("ENTITY#user-1" in str(write) for write in operation.writes):
            raise NotApplied("refused")

    stack.store.fault = fault


def test_a_create_of_which_one_item_fails_is_failed_and_its_delete_removes_the_rest(stack: Stack, world: World) -> None:
    failing(stack)
    told = stack.do("Create")
    assert told["Status"] == "FAILED"
    assert "entity user-1/gpt-4" in told["Reason"]
    stack.store.fault = lambda _: None
    assert stack.do("Delete")["Status"] == "SUCCESS"
    assert world.live() == manifest()


def test_a_take_over_that_fails_leaves_the_owner_and_its_delete_takes_nothing(stack: Stack, world: World) -> None:
    world.apply(manifest(resources={"gpt-4": limits(50)}))
    failing(stack)
    assert stack.do("Create", TakeOver="true")["Status"] == "FAILED"
    stack.store.fault = lambda _: None
    stack.do("Delete")
    assert world.live().resources["gpt-4"].limits["rpm"].capacity == 50
    assert owner(world) == "cli"


def test_another_namespace_is_a_replacement_and_the_delete_of_the_old_one_empties_that(
    stack: Stack, world: World
) -> None:
    old = stack.do("Create")["PhysicalResourceId"]
    other = LimitsManifest.from_dict({**EVERY_LEVEL.to_dict(), "namespace": "tenant-beta"})
    new = stack.do("Update", other)["PhysicalResourceId"]
    assert new != old
    stack.physical_id = old
    stack.do("Delete")
    assert world.live() == manifest()
    assert world.ask("export", "tenant-beta").manifest == other


def test_an_update_that_fails_keeps_the_old_physical_id(stack: Stack, world: World) -> None:
    old = stack.do("Create")["PhysicalResourceId"]
    told = stack.do("Update", Namespace="tenant beta")
    assert (told["Status"], told["PhysicalResourceId"]) == ("FAILED", old)
    assert "Namespace" in told["Reason"] or "namespace" in told["Reason"]


def test_an_event_that_comes_twice_does_its_work_once(stack: Stack, world: World) -> None:
    create = stack.event("Create", EVERY_LEVEL)
    stack.send(create)
    stack.do("Update", manifest(resources={"gpt-4": limits(51)}))
    items = world.items()
    again = stack.send(create)
    assert (again["Status"], "come before" in again["Reason"]) == ("SUCCESS", True)
    assert world.items() == items


def test_a_delete_that_comes_again_takes_nothing_of_what_was_created_anew(stack: Stack, world: World) -> None:
    stack.do("Create")
    delete = stack.event("Delete", EVERY_LEVEL)
    stack.send(delete)
    stack.do("Create")
    assert stack.send(delete)["Status"] == "SUCCESS"
    assert world.live() == EVERY_LEVEL


def test_a_delete_under_an_id_that_cloudformation_made_up_finds_the_namespace_in_the_properties(
    stack: Stack, world: World
) -> None:
    stack.do("Create")
    stack.physical_id = "tenants-TenantLimits-1ABC"
    assert stack.do("Delete")["Status"] == "SUCCESS"
    assert world.live() == manifest()


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete", "Refresh"])
def test_the_reply_comes_whatever_fails(stack: Stack, kind: str) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a mistake of ours")

    stack.store.fault = broken
    told = stack.do(kind)
    assert told["Status"] == "FAILED"
    assert told["Reason"]
    assert told["PhysicalResourceId"]


@pytest.mark.parametrize(
    "properties", [None, {}, {"Namespace": 3}, {"Namespace": "a", "Bad": "\u00fc" * 9000}], ids=str
)
def test_bad_properties_are_failed_with_a_short_reason(stack: Stack, properties: Any) -> None:
    event = stack.event("Create", EVERY_LEVEL) | {"ResourceProperties": properties}
    assert stack.send(event)["Status"] == "FAILED"
    event = stack.event("Delete", EVERY_LEVEL) | {"ResourceProperties": properties, "PhysicalResourceId": "x"}
    assert stack.send(event)["Status"] == "SUCCESS"


def test_a_reply_is_sent_again_where_it_was_not_taken(stack: Stack) -> None:
    stack.replies.refusing = 3
    assert stack.do("Create")["Status"] == "SUCCESS"


def test_an_event_whose_reply_nobody_takes_is_to_come_again(stack: Stack, world: World) -> None:
    stack.replies.refusing = 4
    event = stack.event("Create", EVERY_LEVEL)
    with pytest.raises(replying.ReplyFailed):
        on_event(event, None)
    assert stack.send(event)["Status"] == "SUCCESS"
    assert world.live() == EVERY_LEVEL


class Context:
    """A Lambda that has so little time."""

    def get_remaining_time_in_millis(self) -> int:
        return 400


def test_the_reply_comes_before_the_time_is_up_whatever_the_work_is_at(stack: Stack) -> None:
    def hangs(_: object) -> None:
        assert stack.replies.came.wait(10)
        raise NotApplied("too late")

    stack.store.fault = hangs
    told = stack.send(stack.event("Create", EVERY_LEVEL), Context())
    assert (told["Status"], told["Reason"]) == ("FAILED", cloudformation.NO_TIME)


def test_the_reply_about_ten_thousand_items_is_short(stack: Stack) -> None:
    assert stack.do("Create", manifest(entities=entities(10_000)))["Data"]["Created"] == 10_000
