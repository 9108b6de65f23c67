"""What lives here: custom resources in stacks of the local AWS, with functions that reply as they are told.
What never does: what our provisioner replies (tests-integration/tests/test_limits_template).
"""

import json
import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from support.cli.account import Account
from zae_limiter_cli.local.custom_resources import REPLY_PATH

pytestmark = pytest.mark.slow

# Called without an event, it returns the events that it has had. `Fail` names the events that it refuses.
REPLIES = """
import json, urllib.request
seen = []
def handler(event, context):
    if "RequestType" not in event:
        return seen
    kind, asked = event["RequestType"], event["ResourceProperties"]
    seen.append({name: event.get(name) for name in
        ("RequestType", "PhysicalResourceId", "ResourceProperties", "OldResourceProperties")})
    if kind in asked.get("Silent", ""):
        return
    fails = kind in asked.get("Fail", "")
    reply = {"Status": "FAILED" if fails else "SUCCESS", "Reason": "it is " + asked["Value"],
        "PhysicalResourceId": "id-" + asked["Id"], "Data": {"Answer": asked["Value"] + "!"}}
    put = urllib.request.Request(event["ResponseURL"], json.dumps(reply).encode(), method="PUT")
    urllib.request.urlopen(put).close()
"""


class Stack:
    """One stack with one custom resource."""

    def __init__(self, account: Account, function: str) -> None:
        self.client, self.functions = account.client("cloudformation"), account.client("lambda")
        self.function, self.name = function, f"stack-{uuid.uuid4().hex[:8]}"

    def template(self, value: str, *, identity: str = "a", **more: Any) -> str:
        arn = self.functions.get_function_configuration(FunctionName=self.function)["FunctionArn"]
        properties = {"ServiceToken": arn, "Value": value, "Id": identity, **more}
        return json.dumps(
            {
                "Resources": {"Thing": {"Type": "Custom::Thing", "Properties": properties}},
                "Outputs": {
                    "Answer": {"Value": {"Fn::GetAtt": ["Thing", "Answer"]}},
                    "Id": {"Value": {"Ref": "Thing"}},
                },
            }
        )

    def wait(self, event: str) -> None:
        waiter = self.client.get_waiter(f"stack_{event}_complete")
        waiter.wait(StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})

    def create(self, *values: str, **more: Any) -> None:
        self.client.create_stack(StackName=self.name, TemplateBody=self.template(*values, **more))

    def update(self, *values: str, **more: Any) -> None:
        self.client.update_stack(StackName=self.name, TemplateBody=self.template(*values, **more))

    def deploy(self, kind: str, *values: str, **more: Any) -> None:
        """Change the stack by a change set, as `aws cloudformation deploy` does."""
        change_set = self.client.create_change_set(
            StackName=self.name,
            ChangeSetName=f"set-{uuid.uuid4().hex[:8]}",
            ChangeSetType=kind,
            TemplateBody=self.template(*values, **more),
        )["Id"]
        self.client.execute_change_set(ChangeSetName=change_set, StackName=self.name)

    @property
    def described(self) -> dict[str, Any]:
        (stack,) = self.client.describe_stacks(StackName=self.name)["Stacks"]
        return dict(stack)

    @property
    def outputs(self) -> dict[str, str]:
        return {each["OutputKey"]: each["OutputValue"] for each in self.described["Outputs"]}

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """All events, the oldest first: whose, the status, the reason."""
        told = reversed(self.client.describe_stack_events(StackName=self.name)["StackEvents"])
        found = [
            (each["LogicalResourceId"], each["ResourceStatus"], each.get("ResourceStatusReason", "")) for each in told
        ]
        return [each for each in found if each[0] == "Thing" or "ROLLBACK" in each[1] or "FAILED" in each[1]]

    @property
    def seen(self) -> list[dict[str, Any]]:
        return list(json.loads(self.functions.invoke(FunctionName=self.function)["Payload"].read()))


@pytest.fixture
def stack(account: Account) -> Stack:
    return Stack(account, account.function(REPLIES, Timeout=20))


def test_a_stack_calls_the_function_and_has_what_it_replied(stack: Stack) -> None:
    stack.create("7", Deep={"Flag": True, "Numbers": [1, 2.5]})
    stack.wait("create")
    assert stack.outputs == {"Answer": "7!", "Id": "id-a"}
    stack.update("8")
    stack.wait("update")
    assert stack.outputs == {"Answer": "8!", "Id": "id-a"}
    stack_id = stack.described["StackId"]
    stack.client.delete_stack(StackName=stack.name)
    stack.wait("delete")
    assert stack.client.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE"
    created, updated, deleted = stack.seen
    assert created["ResourceProperties"]["Deep"] == {"Flag": "true", "Numbers": ["1", "2.5"]}
    assert (created["RequestType"], created["PhysicalResourceId"]) == ("Create", None)
    assert (updated["RequestType"], updated["PhysicalResourceId"]) == ("Update", "id-a")
    assert (updated["OldResourceProperties"]["Value"], updated["ResourceProperties"]["Value"]) == ("7", "8")
    assert (deleted["RequestType"], deleted["PhysicalResourceId"]) == ("Delete", "id-a")


def test_a_stack_whose_resource_is_not_created_is_rolled_back_and_says_why(stack: Stack) -> None:
    stack.create("wrong", Fail="Create")
    with pytest.raises(WaiterError, match="ROLLBACK_COMPLETE"):
        stack.wait("create")
    assert stack.events == [
        ("Thing", "CREATE_IN_PROGRESS", ""),
        ("Thing", "CREATE_FAILED", "it is wrong"),
        (stack.name, "ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create: [Thing]."),
        ("Thing", "DELETE_IN_PROGRESS", ""),
        ("Thing", "DELETE_COMPLETE", ""),
        (stack.name, "ROLLBACK_COMPLETE", ""),
    ]
    assert [each["PhysicalResourceId"] for each in stack.seen] == [None, "id-a"]
    stack.client.delete_stack(StackName=stack.name)
    stack.wait("delete")
    assert len(stack.seen) == 2


def test_an_update_that_fails_is_taken_back(stack: Stack) -> None:
    stack.create("7")
    stack.update("8", identity="b", Fail="Update")
    with pytest.raises(WaiterError, match="UPDATE_ROLLBACK_COMPLETE"):
        stack.wait("update")
    assert ("Thing", "UPDATE_FAILED", "it is 8") in stack.events
    assert stack.outputs == {"Answer": "7!", "Id": "id-a"}
    _, failed, back = stack.seen
    assert (failed["ResourceProperties"]["Value"], failed["OldResourceProperties"]["Value"]) == ("8", "7")
    assert (back["ResourceProperties"]["Value"], back["OldResourceProperties"]["Value"]) == ("7", "8")
    assert back["PhysicalResourceId"] == "id-a"
    stack.update("9")
    stack.wait("update")


def test_a_new_physical_id_deletes_the_old_resource(stack: Stack) -> None:
    stack.create("7")
    stack.update("8", identity="b")
    stack.wait("update")
    assert stack.outputs["Id"] == "id-b"
    assert [(each["RequestType"], each["PhysicalResourceId"]) for each in stack.seen] == [
        ("Create", None),
        ("Update", "id-a"),
        ("Delete", "id-a"),
    ]


def test_a_stack_whose_resource_is_not_deleted_stays_and_can_be_deleted_again(stack: Stack) -> None:
    stack.create("7", Fail="Delete")
    stack.client.delete_stack(StackName=stack.name)
    assert stack.described["StackStatus"] == "DELETE_FAILED"
    assert ("Thing", "DELETE_FAILED", "it is 7") in stack.events
    stack.update("7")
    stack.client.delete_stack(StackName=stack.name)
    stack.wait("delete")


def test_a_resource_that_an_update_removes_is_deleted(stack: Stack) -> None:
    stack.create("7")
    other = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    stack.client.update_stack(StackName=stack.name, TemplateBody=json.dumps(other))
    stack.wait("update")
    assert [each["RequestType"] for each in stack.seen] == ["Create", "Delete"]


def test_change_sets_do_the_same(stack: Stack) -> None:
    stack.deploy("CREATE", "7")
    stack.wait("create")
    stack.deploy("UPDATE", "8", Fail="Update")
    assert stack.described["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert [each["ResourceProperties"]["Value"] for each in stack.seen] == ["7", "8", "7"]
    stack.deploy("UPDATE", "9")
    stack.wait("update")


def test_a_change_set_that_creates_a_stack_is_rolled_back_too(stack: Stack) -> None:
    stack.deploy("CREATE", "wrong", Fail="Create")
    assert stack.described["StackStatus"] == "ROLLBACK_COMPLETE"
    assert ("Thing", "CREATE_FAILED", "it is wrong") in stack.events


def test_a_function_that_ends_without_a_reply_has_failed(stack: Stack) -> None:
    stack.create("7", Silent="Create")
    assert stack.described["StackStatus"] == "ROLLBACK_COMPLETE"
    (failed,) = [each for each in stack.events if each[1] == "CREATE_FAILED"]
    assert "ended without a reply; `zae-limiter local logs` has its log" in failed[2]


def test_a_stack_names_a_function_that_is_not_there(stack: Stack) -> None:
    template = stack.template("7").replace(stack.function, "no-function")
    stack.client.create_stack(StackName=stack.name, TemplateBody=template)
    (reason,) = [reason for _, status, reason in stack.events if status == "CREATE_FAILED"]
    assert reason.startswith("there is no function ")
    assert "no-function" in reason


def test_a_reply_that_no_event_waits_for_is_refused(account: Account) -> None:
    key = account.client("cloudformation")._request_signer._credentials.access_key
    url = f"{account.aws.url}{REPLY_PATH}forged?X-Amz-Credential={key}"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(url, b"{}", method="PUT"))
