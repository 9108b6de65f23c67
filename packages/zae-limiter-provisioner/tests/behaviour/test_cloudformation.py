import time
from typing import Any

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, World, entities, limits, manifest, rpm
from support.provisioner.stack_replies import Replies, slow_response_url
from support.provisioner.stack_sender import OWNER, STACK, Stack, owner
from zae_limiter.operations.errors import NotApplied, Reason, TransactionCancelled
from zae_limiter.operations.values import BatchGet, Delete, Operation, Transact
from zae_limiter_manifest import LimitsManifest
from zae_limiter_provisioner import actions, cloudformation, reply_channel, writing
from zae_limiter_provisioner.handler import on_event

BETA = LimitsManifest.from_dict({**EVERY_LEVEL.to_dict(), "namespace": "tenant-beta"})


def test_a_create_applies_with_numbers_as_text_and_replies_with_counts_and_the_hash(stack: Stack, world: World) -> None:
    told = stack.do("Create")
    assert (told["Status"], told["PhysicalResourceId"]) == ("SUCCESS", f"{OWNER}/tenant-alpha")
    assert (told["Data"]["Created"], told["Data"]["ManifestHash"]) == (4, EVERY_LEVEL.canonical_hash())
    assert (world.live(), owner(world)) == (EVERY_LEVEL, OWNER)
    assert stack.replies.types == [""]


HOSTILE = {
    "Fn::ImportValue": "platform-secrets",
    "{{resolve:ssm:/x}}": ["${AWS::AccountId}", 1.0, -(2**63), 5e-324, None, True, {"Ref": "\u2028 é \\u007b \0"}],
}


def test_metadata_come_out_of_their_text_exactly(stack: Stack, world: World) -> None:
    """Whatever the metadata call, the entity has them as they were declared."""
    declared = manifest(entities={"acme": {"name": "${AWS::AccountId}", "metadata": HOSTILE}})
    event = stack.event("Create", declared)
    assert isinstance(event["ResourceProperties"]["Entities"]["acme"]["Metadata"], str)
    assert stack.send(event)["Status"] == "SUCCESS"
    assert world.live() == declared
    entity = world.repository().get_entity("acme")
    assert entity is not None
    assert (entity.name, entity.metadata) == ("${AWS::AccountId}", HOSTILE)


def bare(*resources: str, **more: Any) -> LimitsManifest:
    return manifest(resources={each: {"limits": {"usd": {"capacity": 250}}} for each in resources}, **more)


def test_warnings_are_in_the_reason_and_in_the_log_unless_they_are_ignored(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    told = stack.do("Create", bare("gpt-4"))
    warning = (
        "resources.gpt-4.limits.usd is 250/min, tokens that price lists count as $0.00025: for money write $250/min"
    )
    assert (told["Status"], told["Reason"]) == ("SUCCESS", f"warning: {warning} [bare-money]")
    assert f"the limits were applied, with a warning: {warning} [bare-money]" in capsys.readouterr().out
    assert stack.do("Update", bare("gpt-4", ignore=["bare-money"]))["Reason"] == ""
    many = stack.do("Update", bare(*(f"model-{number}" for number in range(30))))["Reason"]
    assert (many.count("[bare-money]"), many.endswith("; 25 more warnings")) == (5, True)


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
    new = stack.do("Update", BETA)["PhysicalResourceId"]
    assert new != old
    stack.physical_id = old
    stack.do("Delete")
    assert world.live() == manifest()
    assert world.ask("export", "tenant-beta").manifest == BETA


def test_an_update_that_fails_keeps_the_old_physical_id(stack: Stack, world: World) -> None:
    old = stack.do("Create")["PhysicalResourceId"]
    told = stack.do("Update", Namespace="tenant beta")
    assert (told["Status"], told["PhysicalResourceId"]) == ("FAILED", old)
    assert "Namespace" in told["Reason"] or "namespace" in told["Reason"]


def in_beta(world: World) -> tuple[LimitsManifest | None, str | None]:
    return world.ask("export", "tenant-beta").manifest, owner(world, "tenant-beta")


def test_an_update_to_another_namespace_that_fails_leaves_nothing_there(stack: Stack, world: World) -> None:
    old = stack.do("Create")["PhysicalResourceId"]
    failing(stack)
    for _ in range(2):
        told = stack.do("Update", BETA)
        assert (told["Status"], told["PhysicalResourceId"]) == ("FAILED", old)
        assert told["Reason"].startswith("entity user-1/")
        assert in_beta(world) == (LimitsManifest("tenant-beta"), None)
    stack.store.fault = lambda _: None
    assert [stack.do(kind)["Status"] for kind in ("Update", "Delete")] == ["SUCCESS"] * 2
    assert (world.live(), in_beta(world)[1]) == (manifest(), None)


def test_an_update_to_another_namespace_that_fails_takes_nothing_of_another_owner(stack: Stack, world: World) -> None:
    stack.do("Create")
    world.apply(BETA)
    assert stack.do("Update", BETA)["Status"] == "FAILED"
    assert in_beta(world) == (BETA, "cli")


def test_a_namespace_that_cannot_be_emptied_again_is_told(stack: Stack, world: World) -> None:
    stack.do("Create")

    def fault(operation: Operation[Any]) -> None:
        writes = operation.writes if isinstance(operation, Transact) else ()
        if any(isinstance(write, Delete) or "ENTITY#user-1" in str(write) for write in writes):
            raise NotApplied("refused")

    stack.store.fault = fault
    reason = stack.do("Update", BETA)["Reason"]
    assert reason.startswith("tenant-beta could not be emptied again: system: ")
    assert in_beta(world)[1] == OWNER


def test_a_rollback_that_fails_keeps_what_stood_there_before_the_update(stack: Stack, world: World) -> None:
    stack.do("Create")
    stack.do("Update", BETA)
    failing(stack)
    fewer = manifest(resources={"gpt-4": limits(51)}, entities={"user-1": {"resources": {"gpt-4": limits(1)}}})
    reason = stack.do("Update", fewer)["Reason"]
    assert "tenant-alpha could not be emptied again: this resource managed it before the update" in reason
    live = world.live()
    assert (live.resources["gpt-4"].limits["rpm"].capacity, list(live.entities)) == (51, ["user-1"])


def test_an_update_to_another_namespace_has_half_the_time_and_the_rest_to_empty_it(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.do("Create")
    monkeypatch.setattr(writing, "CHANGES_PER_BATCH", 1)

    def slow(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact) and not isinstance(operation.writes[0], Delete):
            time.sleep(0.2)

    stack.store.fault = slow
    many = LimitsManifest.from_dict({"namespace": "tenant-beta", "entities": entities(20)})
    reason = stack.send(stack.event("Update", many), Context(4_000))["Reason"]
    assert (reason.endswith(cloudformation.NO_TIME), cloudformation.GOES_ON in reason) == (True, False)
    assert in_beta(world) == (LimitsManifest("tenant-beta"), None)


def test_an_event_that_comes_twice_does_its_work_once(stack: Stack, world: World) -> None:
    create = stack.event("Create", EVERY_LEVEL)
    first = stack.send(create)["Data"]
    assert first["Created"] == 4
    again = stack.send(create)["Data"]
    assert again == {**first, "Created": 0}
    stack.do("Update", manifest(resources={"gpt-4": limits(51)}))
    items = world.items()
    late = stack.send(create)
    assert (late["Status"], "handled before" in late["Reason"]) == ("SUCCESS", True)
    assert late["Data"] == {**again, "Serial": again["Serial"] + 2}
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
    stack.physical_id = None if kind == "Create" else f"{OWNER}/tenant-alpha"
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
    with pytest.raises(reply_channel.ReplyFailed):
        on_event(event, None)
    assert stack.send(event)["Status"] == "SUCCESS"
    assert world.live() == EVERY_LEVEL


def test_a_host_that_answers_byte_by_byte_does_not_keep_the_event(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_channel, "PUT_SECONDS", 0.2)  # more than between two bytes, less than of all
    with slow_response_url() as url, pytest.raises(reply_channel.ReplyFailed, match=r"no answer within 0\.2 s"):
        on_event(stack.event("Create", EVERY_LEVEL) | {"ResponseURL": url}, None)


def test_an_event_without_an_address_for_its_reply_is_told_so(world: World, stack: Stack) -> None:
    event = stack.event("Create", EVERY_LEVEL)
    del event["ResponseURL"]
    assert on_event(event, None) == {"status": "FAILED", "reason": "the event has no ResponseURL"}
    assert world.items() == []


class Context:
    """A Lambda that has so little time."""

    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:my-app-limits-provisioner"

    def __init__(self, left_ms: int = 400) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


def test_the_reply_comes_before_the_time_is_up_whatever_the_work_is_at(stack: Stack) -> None:
    def hangs(_: object) -> None:
        assert stack.replies.came.wait(10)
        raise NotApplied("too late")

    stack.store.fault = hangs
    told = stack.send(stack.event("Create", EVERY_LEVEL), Context())
    assert (told["Status"], told["Reason"].startswith(cloudformation.NO_TIME)) == ("FAILED", True)


@pytest.mark.long
@pytest.mark.slow
def test_the_reply_about_ten_thousand_items_is_short(stack: Stack) -> None:
    assert stack.do("Create", manifest(entities=entities(10_000)))["Data"]["Created"] == 10_000


@pytest.mark.long
@pytest.mark.slow
def test_the_reply_about_ten_thousand_items_that_all_fail_is_short_and_says_so(stack: Stack) -> None:
    def fault(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact) and len(operation.writes) > 2:  # not the registration
            raise TransactionCancelled((Reason("ValidationError \u00fc"),) * len(operation.writes))

    stack.store.fault = fault
    told = stack.do("Create", manifest(entities=entities(10_000)))
    assert (told["Status"], "10000 failed in all" in told["Reason"]) == ("FAILED", True)
    assert "entity user-00000/gpt-4: " in told["Reason"]


def test_nothing_but_the_time_and_the_table_bounds_an_event(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "LISTED_BYTES", 1)
    assert stack.do("Create", manifest(entities=entities(300)))["Data"]["Created"] == 300


def test_a_table_that_goes_away_is_not_called_a_lack_of_time(stack: Stack) -> None:
    def fault(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact) and "ENTITY#" in str(operation.writes[0]):
            stack.store.fault = away

    def away(operation: Operation[Any]) -> None:
        if isinstance(operation, BatchGet | Transact):
            raise NotApplied("away")

    stack.store.fault = fault
    reason = stack.do("Create", manifest(entities=entities(1_000)))["Reason"]
    assert ("changes left" in reason, cloudformation.NO_TIME in reason) == (True, False)


def test_a_delete_of_a_namespace_that_was_deleted_has_nothing_to_do(stack: Stack, world: World) -> None:
    stack.do("Create")
    world.repository("other").delete_namespace(NAMESPACE)
    assert stack.do("Delete")["Status"] == "SUCCESS"


@pytest.mark.parametrize("url", ["https://evil.example/", "http://127.0.0.1:1@evil.example/", None], ids=str)
def test_an_event_whose_reply_would_go_elsewhere_does_nothing(stack: Stack, world: World, url: Any) -> None:
    event = stack.event("Create", EVERY_LEVEL) | {"ResponseURL": url}
    done = on_event(event, None)
    assert (done["status"], "ResponseURL" in done["reason"]) == ("FAILED", True)
    assert (stack.store.seen, stack.replies.bodies) == ([], [])


@pytest.mark.parametrize(
    "changed",
    [
        {"StackId": ""},
        {"StackId": "tenants"},
        {"StackId": {"Ref": "AWS::StackId"}},
        {"StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/tenants"},
        {"LogicalResourceId": None},
        {"LogicalResourceId": "a/b"},
        {"RequestId": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_an_event_that_names_no_resource_of_a_stack_does_nothing(
    stack: Stack, kind: str, changed: dict[str, Any]
) -> None:
    event = stack.event(kind, EVERY_LEVEL) | changed
    on_event(event, None)
    assert (stack.replies.only["Status"], stack.store.seen) == ("FAILED", [])


@pytest.mark.parametrize("other", [STACK.replace("0f1e2d3c", "0f1e2d3d"), STACK.replace("tenants", "other")])
def test_an_event_of_another_stack_empties_nothing(
    stack: Stack, world: World, other: str, replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = stack.do("Create")["PhysicalResourceId"]
    guess = Stack(world, replies, monkeypatch, other)
    for physical_id in (own, own.replace(STACK, other), "tenants-TenantLimits-1ABC"):
        guess.physical_id = physical_id
        assert guess.do("Delete")["Status"] == "SUCCESS"
        assert (world.live(), owner(world)) == (EVERY_LEVEL, OWNER)


@pytest.mark.parametrize(
    "invented", ["tenants-TenantLimits-1ABC", f"{OWNER}x/tenant-alpha", f"{OWNER}/tenant-beta", None]
)
def test_a_delete_without_the_physical_id_that_was_told_empties_nothing(
    stack: Stack, world: World, invented: str | None
) -> None:
    stack.do("Create")
    stack.do("Update")
    stack.physical_id = invented
    assert stack.do("Delete")["Status"] == "SUCCESS"
    assert (world.live(), owner(world)) == (EVERY_LEVEL, OWNER)


@pytest.mark.parametrize("physical_id", [7, ["a"], {"a": 1}, True, "", "x" * 5000], ids=lambda each: str(each)[:9])
@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_a_physical_id_that_is_no_text_still_gets_a_reply(stack: Stack, kind: str, physical_id: Any) -> None:
    told = stack.send(stack.event(kind, EVERY_LEVEL) | {"PhysicalResourceId": physical_id})
    assert (told["Status"], isinstance(told["PhysicalResourceId"], str)) == ("SUCCESS", True)


def test_properties_of_older_templates_are_ignored_and_the_reply_says_so(stack: Stack, world: World) -> None:
    told = stack.do("Create", TableName="another-table", NamespaceId="another")
    assert (told["Status"], told["Reason"]) == (
        "SUCCESS",
        "ignored, remove from the template: TableName, NamespaceId",
    )
    assert world.live() == EVERY_LEVEL
    assert stack.do("Update", TableName="x")["Reason"].endswith("TableName")
    assert stack.do("Update")["Reason"] == ""
    assert stack.do("Delete", TableName="x")["Status"] == "SUCCESS"
