from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.calls import answering
from zae_limiter_cli.main import main

pytestmark = pytest.mark.slow


def run(*args: str, **more: Any) -> Result:
    return CliRunner().invoke(main, args, **more)


@pytest.fixture
def bucket(aws: str) -> str:
    """The archive of a stack that is there."""
    assert run("deploy", "--yes", "-n", "my-app").exit_code == 0
    (found,) = boto3.client("s3").list_buckets()["Buckets"]
    boto3.client("s3").put_object(Bucket=found["Name"], Key="audit/one", Body=b"1")
    return str(found["Name"])


def what_is_left() -> dict[str, Any]:
    return {
        "tables": boto3.client("dynamodb").list_tables()["TableNames"],
        "functions": boto3.client("lambda").list_functions()["Functions"],
        "mappings": boto3.client("lambda").list_event_source_mappings()["EventSourceMappings"],
        "queues": boto3.client("sqs").list_queues().get("QueueUrls", []),
        "roles": boto3.client("iam").list_roles()["Roles"],
        "logs": boto3.client("logs").describe_log_groups()["logGroups"],
        "buckets": boto3.client("s3").list_buckets()["Buckets"],
    }


def test_it_leaves_nothing_behind_not_even_a_full_archive(bucket: str) -> None:
    done = run("delete", "-n", "my-app", "--yes")
    assert (done.exit_code, done.stdout) == (0, "Stack my-app deleted.\n")
    assert what_is_left() == {name: [] for name in what_is_left()}
    assert "delete complete             my-app (CloudFormation::Stack)\n" in done.stderr
    assert f"deleted 1 object of bucket {bucket}" in done.stderr


def test_it_can_keep_the_archive(bucket: str) -> None:
    done = run("delete", "-n", "my-app", "--yes", "--keep-archive")
    stays = f"Bucket {bucket} stays, with the archived audit events; no stack leads to it any more."
    assert (done.exit_code, done.stdout) == (0, f"Stack my-app deleted.\n{stays}\n")
    assert boto3.client("s3").get_object(Bucket=bucket, Key="audit/one")["Body"].read() == b"1"


def test_all_versions_of_an_object_go(bucket: str) -> None:
    client = boto3.client("s3")
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.put_object(Bucket=bucket, Key="audit/two", Body=b"2")
    client.put_object(Bucket=bucket, Key="audit/two", Body=b"3")
    client.delete_object(Bucket=bucket, Key="audit/one")
    done = run("delete", "-n", "my-app", "--yes")
    assert f"deleted 4 objects of bucket {bucket}" in done.stderr
    assert client.list_buckets()["Buckets"] == []


def test_a_locked_archive_is_refused_before_anything_goes(aws: str) -> None:
    assert run("deploy", "--yes", "-n", "my-app", "--archive-lock", "governance").exit_code == 0
    (bucket,) = (each["Name"] for each in boto3.client("s3").list_buckets()["Buckets"])
    boto3.client("s3").put_object(Bucket=bucket, Key="audit/one", Body=b"1")
    done = run("delete", "-n", "my-app", "--yes")
    told = f"archive {bucket} has Object Lock in governance mode. Nothing was deleted: pass --keep-archive, and delete "
    assert done.stderr == f"Error: {told}the bucket when the retention of its last event has ended\n"
    assert boto3.client("lambda").list_functions()["Functions"] != []
    assert run("delete", "-n", "my-app", "--yes", "--keep-archive").exit_code == 0
    assert [each["Name"] for each in boto3.client("s3").list_buckets()["Buckets"]] == [bucket]


def test_a_table_that_another_tool_protects_is_refused_before_anything_goes(bucket: str) -> None:
    client = boto3.client("dynamodb")
    client.update_table(TableName="my-app", DeletionProtectionEnabled=True)
    done = run("delete", "-n", "my-app", "--yes")
    again = "aws dynamodb update-table --table-name my-app --no-deletion-protection-enabled"
    assert done.stderr == f"Error: table my-app is protected from deletion: `{again}` removes the protection\n"
    assert boto3.client("lambda").list_functions()["Functions"] != []


@pytest.mark.usefixtures("on_a_terminal")
def test_it_asks_and_names_what_goes(bucket: str) -> None:
    done = run("delete", "-n", "my-app", input="n\n")
    assert done.exit_code == 1
    assert (
        f"Delete stack my-app, its table with everything in it, and its archive, bucket {bucket}? [y/N]" in done.output
    )
    assert boto3.client("dynamodb").list_tables()["TableNames"] == ["my-app"]


@pytest.mark.long
def test_a_stack_that_was_deleted_can_be_made_again(bucket: str) -> None:
    assert run("delete", "-n", "my-app", "-y").exit_code == 0
    assert run("deploy", "--yes", "-n", "my-app").exit_code == 0


def test_a_stack_that_is_not_there_is_said_not_to_be(aws: str) -> None:
    done = run("delete", "-n", "my-app", "--yes")
    assert (done.exit_code, done.stderr) == (1, "Error: there is no stack my-app in us-east-1: nothing was deleted\n")


def test_off_a_terminal_nothing_goes_without_a_yes(bucket: str) -> None:
    done = run("delete", "-n", "my-app")
    assert done.exit_code == 1
    assert "There is no terminal to answer on: pass --yes" in done.stderr
    assert boto3.client("dynamodb").list_tables()["TableNames"] == ["my-app"]


def test_a_dry_run_shows_what_goes_and_deletes_nothing(bucket: str) -> None:
    told = run("delete", "-n", "my-app", "--dry-run").stdout
    assert {line.split()[0] for line in told.splitlines()} == {"-"}
    assert ("AWS::DynamoDB::Table" in told, bucket in told) == (True, True)
    assert "AWS::S3::Bucket" not in run("delete", "-n", "my-app", "--dry-run", "--keep-archive").stdout
    assert boto3.client("dynamodb").list_tables()["TableNames"] == ["my-app"]


@pytest.mark.usefixtures("on_a_terminal")
def test_programs_get_what_went_as_json(bucket: str) -> None:
    done = run("delete", "-n", "my-app", "--output", "json", input="y\n")
    told = opened(done.stdout.removeprefix(" y\n"))  # older click shows what is typed
    assert told == {"stack": "my-app", "action": "deleted", "bucket": bucket, "objects": 1, "kept": None}


def interrupt() -> None:
    raise KeyboardInterrupt


def deny() -> None:
    raise ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "DeleteBucket")


def lock() -> Any:
    return {"Errors": [{"Key": "audit/one", "Code": "AccessDenied", "Message": "it is locked"}]}


STOPPED = "stopped waiting; CloudFormation continues: `zae-limiter status --name my-app` shows its progress"


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("operation", "answer", "told"),
    [
        ("DeleteStack", interrupt, STOPPED),
        ("ListObjectVersions", interrupt, STOPPED),
        (
            "DeleteBucket",
            deny,
            "An error occurred (AccessDenied) when calling the DeleteBucket operation: Access Denied",
        ),
        ("DeleteObjects", lock, "audit/one cannot be deleted: it is locked"),
    ],
    ids=["stopped at once", "stopped when the stack is gone", "no right to the bucket", "no right to an object"],
)
def test_a_bucket_that_stays_is_named_with_the_way_to_remove_it(
    operation: str, answer: Callable[[], Any], told: str, bucket: str
) -> None:
    with answering(operation, answer):
        done = run("delete", "-n", "my-app", "--yes", "--quiet")
    assert done.exit_code == 1
    way = f"empty it in the console of S3, which deletes all versions, then `aws s3 rb s3://{bucket}` removes it"
    assert done.stderr == f"Error: {told}; bucket {bucket} stays: {way}\n"
