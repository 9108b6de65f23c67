"""States of a stack that no emulator makes, as recorded answers."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.stack.cloudformation import STACK_TAG, Stack, find, preview
from zae_limiter_cli.stack.deploy import DeployRequest, Plan, make_plan, start
from zae_limiter_cli.stack.events import Event, Follower, failure, way_to_remove
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.ownership import check_ours
from zae_limiter_cli.stack.remove import check_deletable, delete
from zae_limiter_cli.stack.template.build import plain

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN_TAGS = [{"Key": STACK_TAG, "Value": "my-app"}]
GONE = "Stack with id my-app does not exist"


def described(status: str, reason: str = "", **more: Any) -> dict[str, Any]:
    stack = {"StackName": "my-app", "StackId": "arn", "StackStatus": status, "CreationTime": NOW, "Tags": OWN_TAGS}
    return {"Stacks": [{**stack, "StackStatusReason": reason, **more}]}


def events(*told: tuple[str, str, str, str], kind: str = "AWS::Lambda::Function", name: str = "") -> dict[str, Any]:
    """Events as CloudFormation lists them, the newest first; ``name`` is the resource's own."""
    return {
        "StackEvents": [
            {
                "StackId": "arn",
                "EventId": event_id,
                "StackName": "my-app",
                "LogicalResourceId": resource,
                "PhysicalResourceId": name,
                "ResourceType": kind,
                "ResourceStatus": status,
                **({"ResourceStatusReason": reason} if reason else {}),
                "Timestamp": NOW,
            }
            for event_id, resource, status, reason in reversed(told)
        ]
    }


@pytest.fixture
def stubber() -> Iterator[Stubber]:
    client = boto3.client(
        "cloudformation", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def stack(status: str, **more: Any) -> Stack:
    fields = {"reason": "", "outputs": {}, "parameters": {}, "tags": {}, "protected": False, "changed_at": ""}
    return Stack(**{"id": "arn", "name": "my-app", "status": status, **fields, **more})


def connected(stubber: Stubber) -> Any:
    """A connection whose only client is the stubbed one."""
    return SimpleNamespace(client=lambda _: stubber.client)


def follow(stubber: Stubber) -> tuple[Stack | None, list[str], list[Event]]:
    told: list[str] = []
    follower = Follower(stubber.client, "my-app", lambda event: told.append(str(event)), sleep=lambda _: None)
    return follower.wait(), told, follower.failures


def test_each_event_is_told_once_in_the_order_in_which_it_happened(stubber: Stubber) -> None:
    begun, done = ("1", "Table", "CREATE_IN_PROGRESS", ""), ("2", "Table", "CREATE_COMPLETE", "")
    stubber.add_response("describe_stacks", described("CREATE_IN_PROGRESS"))
    stubber.add_response("describe_stack_events", events(begun))
    stubber.add_response("describe_stacks", described("CREATE_COMPLETE"))
    stubber.add_response("describe_stack_events", events(begun, done))
    ended, told, failures = follow(stubber)
    assert ended is not None
    assert ended.well
    assert [line.split(" Table")[0].strip() for line in told] == ["create in progress", "create complete"]
    assert failures == []


def test_events_of_earlier_operations_are_passed_over(stubber: Stubber) -> None:
    earlier = ("1", "Table", "CREATE_FAILED", "long ago")
    stubber.add_response("describe_stack_events", events(earlier))
    stubber.add_response("describe_stacks", described("UPDATE_COMPLETE"))
    stubber.add_response("describe_stack_events", events(earlier, ("2", "Table", "UPDATE_COMPLETE", "")))
    told: list[Event] = []
    Follower.of(stubber.client, stack("UPDATE_IN_PROGRESS"), told.append).wait()
    assert [event.status for event in told] == ["UPDATE_COMPLETE"]


def test_a_failure_tells_each_cause_on_a_line_and_what_to_do(stubber: Stubber) -> None:
    stubber.add_response("describe_stacks", described("ROLLBACK_COMPLETE"))
    stubber.add_response(
        "describe_stack_events",
        events(
            ("1", "AggregatorFunction", "CREATE_FAILED", "The role cannot be\nassumed by Lambda."),
            ("2", "DeadLetters", "CREATE_FAILED", "Resource creation cancelled"),
            ("3", "LimitsProvisionerFunction", "CREATE_FAILED", "Limit exceeded"),
        ),
    )
    ended, _, failures = follow(stubber)
    assert ended is not None
    assert str(failure(ended, "created", failures)).splitlines() == [
        "stack my-app could not be created: it is ROLLBACK_COMPLETE",
        "  create failed               AggregatorFunction (Lambda::Function): The role cannot be assumed by Lambda.",
        "  create failed               LimitsProvisionerFunction (Lambda::Function): Limit exceeded",
        "  remove what is left, then deploy again: `zae-limiter delete --name my-app`",
    ]


def test_a_failure_without_a_reason_says_so_and_tells_the_stacks_own(stubber: Stubber) -> None:
    reason = "The following resource(s) failed to create: [AggregatorFunction]."
    stubber.add_response("describe_stacks", described("ROLLBACK_COMPLETE", reason))
    stubber.add_response("describe_stack_events", events(("1", "AggregatorFunction", "CREATE_FAILED", "")))
    ended, told, failures = follow(stubber)
    assert ended is not None
    line = "create failed               AggregatorFunction (Lambda::Function): CloudFormation gives no reason"
    assert told == [line]
    assert str(failure(ended, "created", failures)).splitlines()[1:3] == [f"  {line}", f"  {reason}"]


def test_a_failure_without_events_tells_the_stacks_own_reason() -> None:
    told = str(failure(stack("UPDATE_ROLLBACK_COMPLETE", reason="no such key"), "updated", []))
    assert told.splitlines()[1:] == ["  no such key", "  fix the cause and deploy again: the stack is as before"]


def test_a_stack_that_is_deleted_is_followed_by_its_id_to_its_last_event(stubber: Stubber) -> None:
    begun, skipped = ("1", "Table", "DELETE_IN_PROGRESS", ""), ("2", "ArchiveBucket", "DELETE_SKIPPED", "")
    by_id, by_name = {"StackName": "arn"}, {"StackName": "my-app"}
    stubber.add_response("describe_stacks", described("DELETE_IN_PROGRESS"), by_name)
    stubber.add_response("describe_stack_events", events(begun), by_id)
    stubber.add_client_error("describe_stacks", "ValidationError", GONE, expected_params=by_name)
    stubber.add_response(
        "describe_stack_events", events(begun, skipped, kind="AWS::S3::Bucket", name="my-archive"), by_id
    )
    ended, told, failures = follow(stubber)
    assert (ended, failures) == (None, [])
    assert told == [
        "delete in progress          Table (Lambda::Function)",
        "delete skipped              ArchiveBucket (S3::Bucket): my-archive stays",
    ]


def test_another_stack_of_the_same_name_is_not_taken_for_the_deleted_one(stubber: Stubber) -> None:
    stubber.add_response("describe_stack_events", events())
    stubber.add_response("delete_stack", {}, {"StackName": "arn"})
    stubber.add_response("describe_stacks", described("CREATE_IN_PROGRESS", StackId="another"))
    stubber.add_response("describe_stack_events", events(("1", "my-app", "DELETE_COMPLETE", "")), {"StackName": "arn"})
    told: list[str] = []
    assert delete(connected(stubber), stack("CREATE_COMPLETE"), None, told.append) == 0
    assert len(told) == 1


def test_a_stack_that_nobody_finds_any_more_is_gone(stubber: Stubber) -> None:
    stubber.add_client_error("describe_stacks", "ValidationError", GONE)
    assert follow(stubber) == (None, [], [])


def test_a_bucket_that_cannot_be_deleted_because_it_is_full_is_named_with_the_way_out(stubber: Stubber) -> None:
    full = ("1", "ArchiveBucket", "DELETE_FAILED", "The bucket you tried to delete is not empty (Status Code: 409)")
    stubber.add_response("describe_stack_events", events())
    stubber.add_response("delete_stack", {})
    stubber.add_response("describe_stacks", described("DELETE_FAILED"))
    stubber.add_response("describe_stack_events", events(full, kind="AWS::S3::Bucket", name="my-archive"))
    told: list[str] = []
    with pytest.raises(CommandError) as refused:
        delete(connected(stubber), stack("CREATE_COMPLETE"), None, told.append)
    assert str(refused.value).splitlines() == [
        "stack my-app could not be deleted: it is DELETE_FAILED",
        f"  {told[0]}",
        f"  bucket my-archive is not empty: {way_to_remove('my-archive')}",
        "  fix the cause, then delete it again: `zae-limiter delete --name my-app`",
    ]
    assert told[0].endswith(
        "ArchiveBucket (S3::Bucket): The bucket you tried to delete is not empty (Status Code: 409)"
    )


def test_events_that_went_with_their_stack_are_no_error(stubber: Stubber) -> None:
    stubber.add_response("describe_stacks", described("DELETE_IN_PROGRESS"))
    stubber.add_client_error("describe_stack_events", "ValidationError", "Stack [my-app] does not exist")
    stubber.add_client_error("describe_stacks", "ValidationError", GONE)
    stubber.add_client_error("describe_stack_events", "ValidationError", "Stack [my-app] does not exist")
    assert follow(stubber) == (None, [], [])


def test_another_error_of_the_events_is_not_taken_for_a_missing_stack(stubber: Stubber) -> None:
    stubber.add_response("describe_stacks", described("DELETE_IN_PROGRESS"))
    stubber.add_client_error("describe_stack_events", "AccessDenied", "User is not authorized to perform it")
    with pytest.raises(stubber.client.exceptions.ClientError, match="not authorized"):
        follow(stubber)


def test_a_change_set_that_would_make_a_stack_of_somebody_else_is_not_ours(stubber: Stubber) -> None:
    with pytest.raises(CommandError, match="stack my-app is not a stack of zae-limiter"):
        check_ours(stubber.client, stack("REVIEW_IN_PROGRESS"))


@pytest.mark.parametrize(
    ("status", "way"),
    [
        ("ROLLBACK_COMPLETE", "remove what is left, then deploy again: `zae-limiter delete --name my-app`"),
        ("ROLLBACK_FAILED", "remove what is left, then deploy again: `zae-limiter delete --name my-app`"),
        ("CREATE_FAILED", "remove what is left, then deploy again: `zae-limiter delete --name my-app`"),
        (
            "UPDATE_ROLLBACK_FAILED",
            "fix the cause, then continue the rollback: `aws cloudformation continue-update-rollback",
        ),
        ("DELETE_FAILED", "fix the cause, then delete it again: `zae-limiter delete --name my-app`"),
        ("REVIEW_IN_PROGRESS", "another change set would create it"),
        ("CREATE_IN_PROGRESS", "wait until CloudFormation is done: `zae-limiter status --name my-app`"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "wait until CloudFormation is done: `zae-limiter status --name my-app`"),
    ],
)
def test_a_stack_in_a_state_that_cannot_be_deployed_is_one_line_with_the_way_out(
    status: str, way: str, stubber: Stubber
) -> None:
    stubber.add_response("describe_stacks", described(status))
    with pytest.raises(CommandError) as refused:
        make_plan(stubber.client, "my-app", DeployRequest())
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"stack my-app is {status}: {way}")


def test_a_stack_whose_last_update_was_taken_back_can_be_deployed(stubber: Stubber) -> None:
    stubber.add_response("describe_stacks", described("UPDATE_ROLLBACK_COMPLETE"))
    stubber.add_response("get_template", {"TemplateBody": "Resources: {}"})
    assert make_plan(stubber.client, "my-app", DeployRequest()).equal is False


def plan_of(status: str, *, protected: bool = False, wanted: bool = False) -> Plan:
    options = StackOptions(deletion_protection=wanted)
    return Plan(stack(status, protected=protected), options, {}, plain("my-app", options), equal=False)


def test_an_update_that_would_change_nothing_is_no_failure(stubber: Stubber) -> None:
    stubber.add_client_error("update_stack", "ValidationError", "No updates are to be performed.")
    assert start(stubber.client, "my-app", plan_of("UPDATE_COMPLETE")) == "unchanged"


@pytest.mark.parametrize("wanted", [True, False])
def test_protection_from_deletion_is_turned_where_it_differs(wanted: Any, stubber: Stubber) -> None:
    turned = {"StackName": "my-app", "EnableTerminationProtection": wanted}
    stubber.add_response("update_termination_protection", {"StackId": "arn"}, turned)
    stubber.add_client_error("update_stack", "ValidationError", "No updates are to be performed.")
    assert start(stubber.client, "my-app", plan_of("CREATE_COMPLETE", protected=not wanted, wanted=wanted)) == "updated"


def planned(stubber: Stubber, reason: str) -> list[dict[str, Any]]:
    """What is told of a change set that CloudFormation could not make."""
    stubber.add_response("create_change_set", {"Id": "one"})
    stubber.add_response("describe_change_set", {"Status": "FAILED", "StatusReason": reason})
    stubber.add_response("delete_change_set", {})
    return preview(stubber.client, "my-app", {}, {})


@pytest.mark.parametrize(
    "reason", ["No updates are to be performed.", "The submitted information didn't contain changes."]
)
def test_a_change_set_without_changes_is_none(reason: str, stubber: Stubber) -> None:
    assert planned(stubber, reason) == []


def test_a_change_set_that_cannot_be_made_says_why(stubber: Stubber) -> None:
    with pytest.raises(CommandError, match="cannot preview the changes: no such template"):
        planned(stubber, "no such template")


def test_a_new_stack_is_protected_from_the_first_moment_and_carries_our_tag(stubber: Stubber) -> None:
    options = StackOptions(deletion_protection=True)
    expected = {
        "StackName": "my-app",
        "TemplateBody": ANY,
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
        "EnableTerminationProtection": True,
        "Tags": [{"Key": "team", "Value": "red"}, *OWN_TAGS],
    }
    stubber.add_response("create_stack", {"StackId": "arn"}, expected)
    plan = Plan(None, options, {"team": "red"}, plain("my-app", options), equal=False)
    assert start(stubber.client, "my-app", plan) == "created"


def test_what_is_protected_or_moving_is_not_deleted() -> None:
    with pytest.raises(
        CommandError, match=r"is protected from deletion: .* --no-deletion-protection` removes the protection"
    ):
        check_deletable(stack("CREATE_COMPLETE", protected=True))
    with pytest.raises(CommandError, match="is UPDATE_IN_PROGRESS: wait"):
        check_deletable(stack("UPDATE_IN_PROGRESS"))


def test_another_error_than_a_missing_stack_is_not_taken_for_one(stubber: Stubber) -> None:
    stubber.add_client_error("describe_stacks", "AccessDenied", "User is not authorized to perform it")
    with pytest.raises(stubber.client.exceptions.ClientError, match="not authorized"):
        find(stubber.client, "my-app")
