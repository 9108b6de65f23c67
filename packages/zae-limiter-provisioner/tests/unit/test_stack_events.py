from typing import Any

import pytest

from zae_limiter_provisioner.stack_events import StackEvent

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1234abcd"
EVENT = {
    "RequestType": "Create",
    "RequestId": "request-1",
    "StackId": STACK_ID,
    "LogicalResourceId": "TenantLimits",
    "ResourceProperties": {"Namespace": "tenant-alpha"},
}
FORM = "arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/NAME/ID"


def problem(**fields: Any) -> str | None:
    return StackEvent.of({**EVENT, **fields}).problem


@pytest.mark.parametrize(
    "stack_id",
    [
        STACK_ID,
        "arn:aws-us-gov:cloudformation:us-gov-west-1:123456789012:stack/a/0f1e2d3c-0000-1111-2222-333344445555",
        "arn:aws:cloudformation:us-east-1:000000000000:stack/Team-1/c5f3e2a0",
    ],
)
def test_an_event_of_cloudformation_has_no_problem(stack_id: str) -> None:
    assert problem(StackId=stack_id) is None


@pytest.mark.parametrize(
    ("stack_id", "told"),
    [
        (
            "arn:aws:cloudformation:us-east-1:123:stack/test/guid",
            "its account '123' must be 12 digits; its id 'guid' must be 8 to 36 hex digits and hyphens",
        ),
        (STACK_ID.replace("aws", "AWS"), "its partition 'AWS' must be lower-case letters and hyphens, such as aws"),
        (STACK_ID.replace("us-east-1", ""), "its region '' must be lower-case letters, digits and hyphens"),
        (STACK_ID.replace("cloudformation", "s3"), "its service 's3' must be cloudformation"),
        (STACK_ID.replace("limits", "1st"), "its name '1st' must be a letter, then letters, digits and hyphens, 128"),
        (STACK_ID.replace("stack/", "changeSet/"), "its type 'changeSet' must be stack"),
        (STACK_ID.replace("arn", "urn"), "its beginning 'urn' must be arn"),
        (f"{STACK_ID}:x", "its id '1234abcd:x' must be"),
        (f"{STACK_ID}/x", "its id '1234abcd/x' must be"),
        ("limits", f"it must have the form {FORM}"),
        (STACK_ID.removesuffix("/1234abcd"), f"it must have the form {FORM}"),
    ],
)
def test_a_stack_id_that_is_none_is_told_by_its_part(stack_id: str, told: str) -> None:
    said = problem(StackId=stack_id)
    assert said is not None
    assert said.startswith(f"the StackId {stack_id!r} is not a stack's: {told}")


@pytest.mark.parametrize("name", ["StackId", "LogicalResourceId", "RequestId"])
@pytest.mark.parametrize("value", [None, "", 7, "a" * 1025])
def test_what_is_missing_is_told_by_its_name_and_nothing_else(name: str, value: Any) -> None:
    assert problem(**{name: value}) == f"the event's {name} is missing, empty, or no text of at most 1024 characters"


def test_all_problems_are_told_at_once() -> None:
    said = problem(RequestId=None, LogicalResourceId="a-b", StackId="x", RequestType="Destroy")
    assert said is not None
    for part in (
        "the event's RequestId is missing",
        "the LogicalResourceId 'a-b' must be 1 to 255 letters and digits",
        "the StackId 'x' is not a stack's",
        "the RequestType 'Destroy' must be Create, Update or Delete",
    ):
        assert part in said
