"""Delete a stack, with the archive that CloudFormation leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..progress import Reporter
from .cloudformation import Stack, template_of
from .deploy import options_in
from .events import Follower, failure, way_to_remove


def check_deletable(stack: Stack) -> None:
    """Raise ``CommandError`` if the stack is protected, or CloudFormation is at work on it."""
    if stack.protected:
        again = f"zae-limiter deploy --name {stack.name} --no-deletion-protection"
        raise CommandError(f"stack {stack.name} is protected from deletion: `{again}` removes the protection")
    if stack.moving:
        raise CommandError(f"stack {stack.name} is {stack.status}: wait until CloudFormation is done")


def check_table(connection: Connection) -> None:
    """Raise ``CommandError`` if the table is protected: CloudFormation would fail there, after it deleted the
    Lambdas.
    """
    client = connection.client("dynamodb")
    try:
        table = client.describe_table(TableName=connection.name)["Table"]
    except client.exceptions.ResourceNotFoundException:
        return
    if table.get("DeletionProtectionEnabled"):
        again = f"aws dynamodb update-table --table-name {connection.name} --no-deletion-protection-enabled"
        raise CommandError(f"table {connection.name} is protected from deletion: `{again}` removes the protection")


def check_unlocked(connection: Connection, stack: Stack, bucket: str) -> None:
    """Raise ``CommandError`` if S3 would refuse to delete the content of the archive once the stack is gone."""
    lock = options_in(template_of(connection.client("cloudformation"), stack.name), stack).get("archive_lock", "off")
    if lock != "off":
        raise CommandError(
            f"archive {bucket} has Object Lock in {lock} mode. Nothing was deleted: pass --keep-archive, and delete "
            "the bucket when the retention of its last event has ended"
        )


def delete(connection: Connection, stack: Stack, bucket: str | None, report: Reporter) -> int:
    """Delete the stack, wait until it is gone, then delete the bucket, if one is named; return how many objects it had.

    Raises ``CommandError`` if something stays, and says what.
    """
    follower = Follower.of(connection.client("cloudformation"), stack, lambda event: report(str(event)))
    with _naming_what_stays(stack, bucket):
        _delete_stack(follower)
        return 0 if bucket is None else _delete_bucket(connection.client("s3"), bucket, report)


def _delete_stack(follower: Follower) -> None:
    follower.client.delete_stack(StackName=follower.stack_id)
    left = follower.wait()
    if left is not None:
        raise failure(left, "deleted", follower.failures)


def _delete_bucket(client: Any, bucket: str, report: Reporter) -> int:
    try:
        deleted = _empty(client, bucket, report)
        client.delete_bucket(Bucket=bucket)
    except client.exceptions.NoSuchBucket:
        return 0
    return deleted


@contextmanager
def _naming_what_stays(stack: Stack, bucket: str | None) -> Iterator[None]:
    """Name the bucket in an error of the block: without its stack nothing leads to it any more."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except KeyboardInterrupt:
        goes_on = f"CloudFormation continues: `zae-limiter status --name {stack.name}` shows its progress"
        raise CommandError(f"stopped waiting; {goes_on}{_stays(bucket)}") from None
    except (BotoCoreError, ClientError) as error:
        raise CommandError(f"{' '.join(str(error).split())}{_stays(bucket)}") from error


def _stays(bucket: str | None) -> str:
    return f"; bucket {bucket} stays: {way_to_remove(bucket)}" if bucket else ""


def _empty(client: Any, bucket: str, report: Reporter) -> int:
    deleted = 0
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        if not objects:
            continue
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        for error in answer.get("Errors", ()):
            raise CommandError(f"{error['Key']} cannot be deleted: {error['Message']}{_stays(bucket)}")
        deleted += len(objects)
        report(f"deleted {counted(deleted, 'object')} of bucket {bucket}")
    return deleted


def archive_of(stack: Stack) -> str | None:
    """Return the bucket that outlives the stack; ``None`` if there is none."""
    return stack.archive_bucket
