"""What lives here: deleting a stack, with the archive that CloudFormation leaves.
What never does: asking whether to (commands).
"""

from typing import Any

from ..connection import Connection
from ..errors import CommandError
from ..progress import Tell
from .cloudformation import Stack
from .following import Follower, failure


def check_deletable(stack: Stack) -> None:
    """Raise ``CommandError`` where the stack is protected, or CloudFormation at work on it."""
    if stack.protected:
        again = f"zae-limiter deploy --name {stack.name} --no-deletion-protection"
        raise CommandError(f"stack {stack.name} is protected from deletion: `{again}` lifts that")
    if stack.moving:
        raise CommandError(f"stack {stack.name} is {stack.status}: wait until CloudFormation is done")


def delete(connection: Connection, stack: Stack, tell: Tell) -> None:
    """Delete the stack and wait until it is gone. Raises ``CommandError`` where something of it stays."""
    client = connection.client("cloudformation")
    follower = Follower(client, stack.name, lambda event: tell(str(event))).skip()
    client.delete_stack(StackName=stack.name)
    left = follower.wait()
    if left is not None:
        raise failure(left, "deleted", follower.failures)


def delete_bucket(connection: Connection, bucket: str, tell: Tell) -> int:
    """How many objects were deleted with the bucket; 0 also where it is gone already."""
    client = connection.client("s3")
    try:
        deleted = _empty(client, bucket, tell)
        client.delete_bucket(Bucket=bucket)
    except client.exceptions.NoSuchBucket:
        return 0
    return deleted


def _empty(client: Any, bucket: str, tell: Tell) -> int:
    deleted = 0
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        if not objects:
            continue
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        for error in answer.get("Errors", ()):
            raise CommandError(f"{error['Key']} in bucket {bucket} cannot be deleted: {error['Message']}")
        deleted += len(objects)
        tell(f"deleted {deleted:,} objects of bucket {bucket}")
    return deleted


def archive_of(stack: Stack) -> str | None:
    """The bucket that outlives the stack; ``None`` where it has none."""
    return stack.outputs.get("ArchiveBucketName")
