"""Describe a stack as CloudFormation does, and make the calls that read and change it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import CommandError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

STACK_TAG: Final = "zae-limiter:stack"
ARCHIVE_OUTPUT: Final = "ArchiveBucketName"
LARGEST_BODY: Final = 51_200  # bytes of a template in a request; one in a bucket may have 1,000,000
CAPABILITIES: Final = ("CAPABILITY_NAMED_IAM",)

_NO_CHANGES: Final = "No updates are to be performed"


Source = Mapping[str, str]  # a template as a parameter of a request: its text, or its address in a bucket


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack as it is; ``protected`` says that it cannot be deleted.

    The id finds it for some months after its deletion, its name does not.
    """

    id: str
    name: str
    status: str
    reason: str
    outputs: Mapping[str, str]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    protected: bool
    changed_at: str

    @property
    def changed_iso(self) -> str:
        """When it was changed last, in the form of all documents."""
        return f"{self.changed_at.replace(' ', 'T')}.000Z"

    @property
    def moving(self) -> bool:
        """Whether CloudFormation is at work on the stack."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def well(self) -> bool:
        """Whether the last operation on the stack succeeded."""
        return self.status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}

    @property
    def usable(self) -> bool:
        """Whether the stack is complete, if only in its state before a change that failed."""
        return self.well or self.status == "UPDATE_ROLLBACK_COMPLETE"

    @property
    def archive_bucket(self) -> str | None:
        """The bucket with the archived audit events, which the stack does not delete; ``None`` without an archive."""
        return self.outputs.get(ARCHIVE_OUTPUT)


def find(client: Any, name: str) -> Stack | None:
    """Return the stack of that name or id; ``None`` if there is none."""
    from botocore.exceptions import ClientError

    try:
        (found,) = client.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    return _stack(found)


def is_missing(error: "ClientError") -> bool:
    """Return whether CloudFormation says that there is no such stack; it has no error code for that."""
    return "does not exist" in error.response.get("Error", {}).get("Message", "")


def find_all(client: Any) -> Iterator[Stack]:
    """Yield every stack that `deploy` created in this region."""
    for page in client.get_paginator("describe_stacks").paginate():
        yield from (stack for each in page["Stacks"] if STACK_TAG in (stack := _stack(each)).tags)


def template_of(client: Any, name: str) -> dict[str, Any]:
    """Return the template of the last deployment."""
    body = client.get_template(StackName=name)["TemplateBody"]
    return _parsed(body) if isinstance(body, str) else body  # botocore has parsed it, if it is JSON


def body_of(template: Mapping[str, Any]) -> str:
    """Return a template as it is sent."""
    return json.dumps(template, separators=(",", ":"))


def create(client: Any, name: str, source: Source, tags: Mapping[str, str], *, protected: bool) -> None:
    """Begin to create a stack."""
    client.create_stack(EnableTerminationProtection=protected, **_request(name, source, tags))


def update(client: Any, name: str, source: Source, tags: Mapping[str, str]) -> bool:
    """Begin to change a stack; return ``False`` if nothing would change."""
    return _unless_equal(lambda: client.update_stack(**_request(name, source, tags)))


def protect(client: Any, stack: Stack, *, protected: bool) -> bool:
    """Switch the protection from deletion on or off; return ``False`` if it was so already."""
    if stack.protected == protected:
        return False
    client.update_termination_protection(StackName=stack.name, EnableTerminationProtection=protected)
    return True


def preview(client: Any, name: str, source: Source, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what an update would do to each resource, by a change set, which is removed again."""
    from botocore.exceptions import WaiterError

    request = {**_request(name, source, tags), "ChangeSetName": "zae-limiter-plan", "ChangeSetType": "UPDATE"}
    change_set = {"ChangeSetName": client.create_change_set(**request)["Id"], "StackName": name}
    try:
        client.get_waiter("change_set_create_complete").wait(**change_set, WaiterConfig={"Delay": 2})
        pages = client.get_paginator("describe_change_set").paginate(**change_set)
        return [change["ResourceChange"] for page in pages for change in page["Changes"]]
    except WaiterError as error:
        reason = str(error.last_response.get("StatusReason", ""))
        if _NO_CHANGES in reason or "didn't contain changes" in reason:
            return []
        raise CommandError(f"CloudFormation cannot preview the changes: {reason or error}") from error
    finally:
        client.delete_change_set(**change_set)


def _request(name: str, source: Source, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "StackName": name,
        **source,
        "Capabilities": list(CAPABILITIES),
        "Tags": [{"Key": key, "Value": value} for key, value in sorted({**tags, STACK_TAG: name}.items())],
    }


def _unless_equal(send: Callable[[], object]) -> bool:
    from botocore.exceptions import ClientError

    try:
        send()
    except ClientError as error:
        if _NO_CHANGES in error.response.get("Error", {}).get("Message", ""):
            return False
        raise
    return True


def _stack(found: Mapping[str, Any]) -> Stack:
    return Stack(
        id=found["StackId"],
        name=found["StackName"],
        status=found["StackStatus"],
        reason=found.get("StackStatusReason", ""),
        outputs={each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())},
        parameters={each["ParameterKey"]: each["ParameterValue"] for each in found.get("Parameters", ())},
        tags={each["Key"]: each["Value"] for each in found.get("Tags", ())},
        protected=bool(found.get("EnableTerminationProtection")),
        changed_at=f"{found.get('LastUpdatedTime', found['CreationTime']):%Y-%m-%d %H:%M:%S}",
    )


def _parsed(body: str) -> dict[str, Any]:
    """Return the template; an empty one for YAML, in which another tool may have deployed."""
    try:
        parsed: dict[str, Any] = json.loads(body)
    except ValueError:
        return {}
    return parsed
