import json
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.calls import answering
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import SyncMaintenance, VersionRecord
from zae_limiter.values.versions import SCHEMA_VERSION, core_version
from zae_limiter_cli.artifacts.builder import LAMBDAS, build_artifact
from zae_limiter_cli.commands.stack import changes
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.code import VERSION_TAG, function_name
from zae_limiter_cli.stack.deploy import DeployRequest, make_plan
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import plain

pytestmark = pytest.mark.slow

ARN = "arn:aws:{}:us-east-1:123456789012:any"
LARGE = (
    *("--dashboard", "--app-roles", "--tracing", "--role-name-format", "corp-{}", "--policy-name-format", "corp-{}"),
    *("--kms-key-arn", ARN.format("kms"), "--alert-bus-arn", ARN.format("events"), "--contributor-insights", "all"),
    *("--permission-boundary-arn", ARN.format("iam"), "--alarm-refusals", "5", "--capacity", "provisioned"),
    *("--min-reads", "5", "--min-writes", "5", "--max-reads", "20000", "--max-writes", "20000"),
    *("--warm-reads", "20000", "--warm-writes", "20000", "--archive-lock", "governance"),
)


def run(*args: str, **more: Any) -> Result:
    return CliRunner().invoke(main, args, **more)


def succeed(*args: str) -> str:
    done = run(*args)
    assert done.exit_code == 0, done.output
    return done.stdout


def deploy(*args: str) -> Any:
    return opened(succeed("deploy", "--yes", "-n", "my-app", "--output", "json", *args))


def squeezed(told: str) -> str:
    """Columns as wide as what is in them."""
    return re.sub("  +", "  ", told)


def fail(*args: str) -> str:
    """What a command that fails says: one line."""
    done = run(*args)
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.splitlines()
    return line.removeprefix("Error: ")


def test_it_makes_a_stack_that_an_application_can_use_at_once(aws: str) -> None:
    told = succeed("deploy", "--yes", "-n", "my-app")
    assert told.startswith("Stack my-app created.\n")
    repository = SyncRepository.open("default", stack="my-app", register=False)
    with SyncRateLimiter(repository=repository) as limiter:
        limiter.set_system_defaults([Limit.per_minute("rpm", 10)])
        with limiter.acquire("key-abc", "gpt-4", {"rpm": 1}):
            pass
        assert limiter.available("key-abc", "gpt-4") == {"rpm": 9}
        assert SyncMaintenance(repository).get_version_record() == VersionRecord(
            SCHEMA_VERSION, core_version(), "0.1.0"
        )


def test_it_uploads_the_code_of_the_lambdas_and_tags_it_with_its_version(aws: str) -> None:
    assert deploy()["code"] == dict.fromkeys(LAMBDAS, "uploaded")
    client = boto3.client("lambda")
    for name in LAMBDAS:
        found = client.get_function(FunctionName=function_name("my-app", name))
        artifact = build_artifact(name)
        assert found["Configuration"]["CodeSha256"] == artifact.code_sha256
        assert found["Tags"][VERSION_TAG] == artifact.version


def test_again_it_changes_nothing_and_says_so(aws: str) -> None:
    deploy()
    before = boto3.client("lambda").get_function(FunctionName="my-app-aggregator")["Configuration"]["LastModified"]
    assert succeed("deploy", "--yes", "-n", "my-app") == "No changes: stack my-app is up to date.\n"
    after = boto3.client("lambda").get_function(FunctionName="my-app-aggregator")["Configuration"]["LastModified"]
    assert after == before
    again = deploy()
    assert (again["action"], again["changed"], again["version_record_written"]) == ("unchanged", False, False)


def test_options_and_tags_that_are_not_given_again_stay(aws: str) -> None:
    deploy("--aggregator-memory", "512", "--no-alarms", "--tag", "team=red")
    second = deploy("--provisioner-memory", "1024", "--tag", "cost=x")
    assert second["action"] == "updated"
    client = boto3.client("lambda")
    assert client.get_function(FunctionName="my-app-aggregator")["Configuration"]["MemorySize"] == 512
    assert client.get_function(FunctionName="my-app-limits-provisioner")["Configuration"]["MemorySize"] == 1024
    (stack,) = boto3.client("cloudformation").describe_stacks(StackName="my-app")["Stacks"]
    tags = {each["Key"]: each["Value"] for each in stack["Tags"]}
    assert (tags["team"], tags["cost"]) == ("red", "x")
    assert deploy()["action"] == "unchanged"


def test_options_of_a_stack_that_another_tool_made_from_the_parametrized_template_stay_too(aws: str) -> None:
    template = succeed("cfn-template", "--aggregator-memory", "512")
    boto3.client("cloudformation").create_stack(
        StackName="my-app",
        TemplateBody=template,
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "ProvisionerMemory", "ParameterValue": "1024"}],
    )
    upgraded = opened(succeed("upgrade", "--yes", "-n", "my-app", "--code-only", "--output", "json"))
    assert (upgraded["status"], set(upgraded["code"].values())) == ("CREATE_COMPLETE", {"uploaded"})
    options = make_plan(boto3.client("cloudformation"), "my-app", DeployRequest({"tracing": True})).options
    assert options == StackOptions(aggregator_memory=512, provisioner_memory=1024, tracing=True)


def test_lambdas_can_be_switched_off(aws: str) -> None:
    assert deploy("--no-aggregator", "--no-provisioner")["code"] == {}
    assert boto3.client("lambda").list_functions()["Functions"] == []


def test_off_a_terminal_it_needs_a_yes_before_anything_is_sent() -> None:
    told = "There is no terminal to answer on: pass --yes to confirm"
    assert fail("deploy", "-n", "my-app") == f"`deploy` asks before it changes stack my-app. {told}"


@pytest.mark.usefixtures("on_a_terminal")
def test_it_shows_the_changes_and_asks(aws: str) -> None:
    done = run("deploy", "-n", "my-app", "-q", input="n\n")
    assert (done.exit_code, "Create stack my-app? [y/N]" in done.stderr) == (1, True)
    assert boto3.client("cloudformation").list_stacks()["StackSummaries"] == []
    deploy("--yes")
    done = run("deploy", "-n", "my-app", "--aggregator-memory", "512", "-o", "json", input="y\n")
    assert re.search("^~ +AggregatorFunction .*", done.stderr, re.MULTILINE)
    assert opened(done.stdout.removeprefix(" y\n"))["action"] == "updated"  # older click shows what is typed
    assert "Change stack" not in run("deploy", "-n", "my-app").output


@pytest.mark.long
@pytest.mark.usefixtures("on_a_terminal")
def test_a_stack_that_changes_before_the_answer_is_left_alone(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy()
    with monkeypatch.context() as patch:
        patch.setattr(changes, "confirm", lambda _: deploy("--provisioner-memory", "1024"))
        done = run("deploy", "-n", "my-app", "--aggregator-memory", "512")
    told = "Error: stack my-app has been changed meanwhile. Nothing was changed: run the command again"
    assert done.stderr.splitlines()[-1] == told


def test_a_plan_shows_what_would_be_made_and_makes_nothing(aws: str) -> None:
    planned = succeed("deploy", "-n", "my-app", "--dry-run")
    assert {line.split()[0] for line in planned.splitlines()} == {"+"}
    assert "AWS::DynamoDB::Table" in planned
    assert boto3.client("cloudformation").list_stacks()["StackSummaries"] == []


def test_a_plan_shows_what_would_change_and_changes_nothing(aws: str) -> None:
    deploy()
    assert succeed("deploy", "-n", "my-app", "--dry-run") == "No changes.\n"
    planned = opened(succeed("deploy", "-n", "my-app", "--dry-run", "--output", "json", "--aggregator-memory", "512"))
    assert [(each["action"], each["what"]) for each in planned] == [("~", "AggregatorFunction")]
    assert boto3.client("cloudformation").list_change_sets(StackName="my-app")["Summaries"] == []
    assert deploy()["action"] == "unchanged"


def test_without_waiting_the_code_is_left_for_the_next_time(aws: str) -> None:
    told = succeed("deploy", "--yes", "-n", "my-app", "--no-wait")
    assert "Stack my-app is being created." in told
    again = "run `zae-limiter deploy --name my-app` without --no-wait when it is done"
    assert f"Still missing: code and version record: {again}.\n" in told
    assert deploy()["code"] == dict.fromkeys(LAMBDAS, "uploaded")
    assert "Still missing" not in succeed("deploy", "--yes", "-n", "my-app", "--no-wait", "--aggregator-memory", "512")


def test_progress_goes_to_standard_error(aws: str) -> None:
    done = run("deploy", "--yes", "-n", "my-app")
    assert "create complete" in done.stderr
    assert "uploading the code of my-app-aggregator" in done.stderr


@pytest.mark.long
def test_what_is_to_be_quiet_prints_errors_only_and_the_json_that_was_asked_for(aws: str) -> None:
    for words in (
        ["deploy", "--yes", "--production", "--no-deletion-protection"],
        ["deploy", "--yes"],
        ["deploy", "--yes", "--no-wait", "--aggregator-memory", "512"],
        ["upgrade", "--yes"],
        ["upgrade", "--yes", "--code-only"],
    ):
        assert run(*words, "-n", "my-app", "--quiet").output == "", words
    assert opened(succeed("deploy", "--yes", "-n", "my-app", "-q", "-o", "json"))["action"] == "unchanged"
    table = boto3.client("dynamodb")
    table.update_table(TableName="my-app", DeletionProtectionEnabled=True)
    assert fail("delete", "-n", "my-app", "-q", "--yes").startswith("table my-app is protected from deletion")
    table.update_table(TableName="my-app", DeletionProtectionEnabled=False)
    assert run("delete", "-n", "my-app", "-q", "--yes", "--keep-archive").output == ""


def options_now() -> StackOptions:
    return make_plan(boto3.client("cloudformation"), "my-app", DeployRequest()).options


def test_production_says_what_it_asks_for_and_upgrade_keeps_it(aws: str) -> None:
    done = run("deploy", "--yes", "-n", "my-app", "--production", "--recovery-days", "7")
    asked = "--point-in-time-recovery, --deletion-protection, --alarms, --archive"
    assert done.stderr.startswith(f"--production asks for {asked}\n")
    assert "  recovery     to any second of the last 7 days\n  deletion     refused\n" in done.stdout
    wanted = StackOptions(point_in_time_recovery=True, recovery_days=7, deletion_protection=True)
    assert options_now() == wanted
    succeed("upgrade", "--yes", "-n", "my-app")
    assert options_now() == wanted
    assert boto3.client("dynamodb").describe_table(TableName="my-app")["Table"]["DeletionProtectionEnabled"]
    told = (
        "stack my-app is protected from deletion: `zae-limiter deploy --name my-app --no-deletion-protection` removes"
    )
    assert fail("delete", "-n", "my-app", "--yes").startswith(told)
    assert boto3.client("lambda").list_functions()["Functions"] != []
    sent = Mock(return_value={})
    with answering("UpdateTerminationProtection", sent), answering("UpdateStack", sent):  # moto changes no table
        succeed("deploy", "--yes", "-n", "my-app", "--no-deletion-protection")
    assert sent.call_count == 2


def test_what_is_given_beside_production_wins_and_what_cannot_be_is_refused(aws: str) -> None:
    done = run("deploy", "--yes", "-n", "my-app", "--production", "--no-alarms", "--no-deletion-protection")
    asked = "--point-in-time-recovery, --archive; you have given --no-deletion-protection, --no-alarms"
    assert done.stderr.startswith(f"--production asks for {asked}\n")
    assert options_now() == StackOptions(point_in_time_recovery=True, alarms=False)
    told = run("deploy", "--yes", "-n", "other", "--production", "--no-aggregator").stderr
    assert told.endswith("needs --aggregator, which is off: turn that on, or pass --no-archive\n")
    assert fail("deploy", "--yes", "-n", "other", "--recovery-days", "7").startswith("--recovery-days 7 needs")
    assert boto3.client("dynamodb").list_tables()["TableNames"] == ["my-app"]
    template = json.loads(succeed("cfn-template", "--production"))
    table = template["Resources"]["Table"]["Properties"]
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert table["DeletionProtectionEnabled"] is True


@pytest.mark.long(keep=2)
@pytest.mark.filterwarnings("ignore:Unable to delete ArchivePolicy:UserWarning")  # moto has made none
@pytest.mark.parametrize(("before", "after"), [("off", "governance"), ("compliance", "off")])
@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--no-wait",)], ids=" ".join)
def test_the_archive_that_is_there_neither_gets_object_lock_nor_loses_it(
    before: str, after: str, more: tuple[str, ...], aws: str
) -> None:
    deploy("--archive-lock", before, "--no-provisioner")
    told = fail("deploy", "--yes", "-n", "my-app", "--archive-lock", after, "--aggregator-memory", "512", *more)
    why = "was made without, and what it has stays unlocked" if before == "off" else "has Object Lock, which S3 never"
    assert told.startswith(f"--archive-lock {after}: the archive of stack my-app {why}")
    again = "`zae-limiter deploy --name my-app"
    assert f"{again} --no-archive`, then {again} --archive --archive-lock {after}`" in told
    assert options_now() == StackOptions(archive_lock=before, provisioner=False)
    if more:
        return
    deploy("--no-archive")
    deploy("--archive", "--archive-lock", after)
    assert options_now().archive_lock == after


def test_units_of_a_provisioned_table_are_refused_before_anything_is_begun(aws: str) -> None:
    told = fail(
        "deploy", "--yes", "-n", "my-app", "--capacity", "provisioned", "--min-reads", "10", "--min-writes", "20"
    )
    assert told.startswith("--capacity provisioned: --min-reads 10 must be at least 1, and at most --max-reads 0")
    assert boto3.client("cloudformation").list_stacks()["StackSummaries"] == []


@pytest.mark.long
def test_a_template_that_no_request_holds_goes_through_a_bucket(aws: str) -> None:
    large = ("--alarm-topic-arn", f"arn:aws:sns:us-east-1:123456789012:{'x' * 1500}")
    told = fail("deploy", "--yes", "-n", "my-app", *large)
    assert re.match(r"the template has \d\d,\d{3} bytes, and a request of CloudFormation holds 51,200\. ", told)
    assert boto3.client("cloudformation").list_stacks()["StackSummaries"] == []  # nothing was begun
    client = boto3.client("s3")
    client.create_bucket(Bucket="templates")
    assert deploy(*large, "--template-bucket", "templates")["action"] == "created"
    (kept,) = client.list_objects_v2(Bucket="templates")["Contents"]
    body = json.loads(client.get_object(Bucket="templates", Key=kept["Key"])["Body"].read())
    assert body == plain("my-app", options_now())
    assert deploy()["action"] == "unchanged"  # and nothing is put
    assert deploy("--aggregator-memory", "512")["action"] == "updated"
    assert client.list_objects_v2(Bucket="templates")["KeyCount"] == 2
    assert "tools send a template of more than 51,200 from a bucket" in run("cfn-template", *LARGE).stderr
    assert run("cfn-template").stderr == ""


def test_warm_throughput_is_never_taken_back(aws: str) -> None:
    deploy("--warm-writes", "8000", "--no-provisioner")
    told = fail("deploy", "--yes", "-n", "my-app", "--warm-writes", "5000")
    assert told.startswith("--warm-writes 5000: stack my-app has 8000, and DynamoDB never takes warm throughput back. ")
    for more in (0, 9000):
        request = DeployRequest({"warm_writes": more})
        assert make_plan(boto3.client("cloudformation"), "my-app", request).options.warm_writes == more


def test_object_lock_may_become_stricter_and_longer(aws: str) -> None:
    deploy("--archive-lock", "governance", "--no-provisioner")
    assert deploy("--archive-lock", "compliance", "--archive-lock-days", "30")["action"] == "updated"
    assert options_now().archive_lock_days == 30


@pytest.mark.long
def test_ctrl_c_while_the_code_is_uploaded_says_what_does_the_rest(aws: str) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with answering("UpdateFunctionCode", stop):
        told = fail("deploy", "--yes", "-n", "my-app", "--quiet")
    rest = "zae-limiter upgrade --code-only --name my-app"
    assert told == f"interrupted while uploading Lambda code: run `{rest}`, which does the rest"
    for command in (["-n", "my-app", "upgrade", "--code-only", "--yes"], ["-n", "my-app", "status"]):
        assert CliRunner().invoke(main, command).exit_code == 0


@pytest.mark.long
def test_the_provisioner_replies_to_the_emulator_whose_address_was_given(aws: str) -> None:
    def host() -> str | None:
        found = boto3.client("lambda").get_function(FunctionName="my-app-limits-provisioner")["Configuration"]
        value: str | None = found["Environment"]["Variables"].get("ZAEL_RESPONSE_HOST")
        return value

    deploy()
    assert host() is None  # the address of the environment may be a proxy of AWS
    told = "  replies      of the provisioner go to CloudFormation, or to 127.0.0.1\n"
    assert told in succeed("deploy", "--yes", "-n", "my-app", "--endpoint-url", aws)
    assert host() == "127.0.0.1"
    assert deploy()["action"] == "unchanged"
    deploy("--endpoint-url", aws, "--response-host", "localhost.localstack.cloud:4566")
    assert host() == "localhost.localstack.cloud:4566"
    deploy("--response-host", "")
    assert host() is None


def test_a_default_namespace_that_was_deleted_stays_so(aws: str) -> None:
    deploy()
    with SyncRepository.open("default", stack="my-app") as repository:
        repository.delete_namespace("default")
    assert deploy("--aggregator-memory", "512")["default_namespace"] is False


def test_a_newer_releases_stack_is_not_taken_back_by_chance(aws: str) -> None:
    deploy()
    with SyncRepository.open("default", stack="my-app") as repository:
        SyncMaintenance(repository).set_version_record(VersionRecord(SCHEMA_VERSION, "99.0.0", "0.1.0"))
    told = "was deployed with zae-limiter-core 99.0.0, and this is"
    assert told in fail("deploy", "--yes", "-n", "my-app")
    assert told in fail("upgrade", "--yes", "-n", "my-app")
    assert deploy("--allow-downgrade")["version_record_written"] is True


@pytest.mark.long
def test_upgrade_brings_code_and_record_to_this_release_and_keeps_the_options(aws: str) -> None:
    deploy("--aggregator-memory", "512")
    client = boto3.client("lambda")
    client.update_function_code(FunctionName="my-app-aggregator", ZipFile=build_artifact("provisioner").content)
    with SyncRepository.open("default", stack="my-app") as repository:
        SyncMaintenance(repository).set_version_record(VersionRecord(SCHEMA_VERSION, "0.0.9", "0.0.1"))
    upgraded = opened(succeed("upgrade", "--yes", "-n", "my-app", "--output", "json"))
    assert upgraded["code"] == {"aggregator": "uploaded", "provisioner": "unchanged", "planner": "unchanged"}
    assert upgraded["version_record_written"] is True
    with SyncRepository.open("default", stack="my-app") as repository:
        assert SyncMaintenance(repository).get_version_record() == VersionRecord(
            SCHEMA_VERSION, core_version(), "0.1.0"
        )
    assert client.get_function(FunctionName="my-app-aggregator")["Configuration"]["MemorySize"] == 512


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("command", ["deploy", "upgrade"])
def test_what_only_writes_the_version_record_says_so(command: str, aws: str) -> None:
    deploy()
    old = VersionRecord(SCHEMA_VERSION, "0.0.9", "0.0.1")
    with SyncRepository.open("default", stack="my-app") as repository:
        SyncMaintenance(repository).set_version_record(old)
        assert succeed(command, "--yes", "-n", "my-app").startswith("Stack my-app updated: version record.\n")
        SyncMaintenance(repository).set_version_record(old)
    told = opened(succeed(command, "--yes", "-n", "my-app", "--output", "json"))
    assert (told["action"], told["changed"], told["version_record_written"]) == ("updated", True, True)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Unable to delete ArchivePolicy:UserWarning")  # moto has made none
def test_an_archive_that_is_turned_off_leaves_its_bucket_which_is_named(aws: str) -> None:
    bucket = deploy()["outputs"]["ArchiveBucketName"]
    boto3.client("s3").put_object(Bucket=bucket, Key="audit/one", Body=b"1")
    assert f"ArchiveBucket  AWS::S3::Bucket  bucket {bucket} stays" in squeezed(
        succeed("deploy", "-n", "my-app", "--no-archive", "--dry-run")
    )
    told = succeed("deploy", "--yes", "-n", "my-app", "--no-archive")
    way = f"empty it in the console of S3, which deletes all versions, then `aws s3 rb s3://{bucket}` removes it"
    assert f"archive  none any more; bucket {bucket} stays with its audit events: {way}" in squeezed(told)
    assert deploy()["bucket_left"] is None


@pytest.mark.filterwarnings("ignore:Unable to delete ArchivePolicy:UserWarning")  # moto has made none
def test_without_waiting_the_bucket_that_stays_is_named_too(aws: str) -> None:
    bucket = deploy()["outputs"]["ArchiveBucketName"]
    told = succeed("deploy", "--yes", "-n", "my-app", "--no-archive", "--no-wait")
    way = f"empty it in the console of S3, which deletes all versions, then `aws s3 rb s3://{bucket}` removes it"
    assert f"Archive: bucket {bucket} stays with its audit events: {way}.\n" in told


def test_upgrade_of_a_stack_that_is_not_there_says_so(aws: str) -> None:
    told = "there is no stack my-app in us-east-1: `zae-limiter deploy --name my-app` creates it"
    assert fail("upgrade", "--yes", "-n", "my-app") == told


ORDERS = {
    "Type": "AWS::DynamoDB::Table",
    "Properties": {
        "TableName": "orders",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
    },
}


@pytest.mark.parametrize(
    "command",
    [["deploy", "--yes"], ["deploy", "--dry-run"], ["upgrade", "--yes"], ["delete", "--dry-run"]],
    ids=" ".join,
)
def test_a_stack_of_something_else_is_left_alone(command: list[str], aws: str) -> None:
    template = json.dumps({"Resources": {"Orders": ORDERS}})
    boto3.client("cloudformation").create_stack(StackName="my-app", TemplateBody=template)
    assert fail(*command, "-n", "my-app") == (
        "stack my-app is not a stack of zae-limiter, it has neither the tag zae-limiter:stack nor the metadata: "
        "nothing was changed; choose another --name"
    )
    assert boto3.client("dynamodb").list_tables()["TableNames"] == ["orders"]


def test_a_bad_name_is_refused_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert fail("deploy", "--yes", "-n", "my_app").startswith("stack name 'my_app': must be 3 to 45 characters")


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, aws: str) -> Callable[..., None]:
    """Takes variables of the environment away."""

    def nothing(*names: str) -> None:
        for name in names:
            monkeypatch.delenv(name)

    return nothing


def test_without_credentials_it_says_how_to_get_some(aws: str, nothing: Callable[..., None]) -> None:
    nothing("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    told = fail("deploy", "--yes", "-n", "my-app")
    assert told.startswith("Unable to locate credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and")


def test_without_a_region_it_says_how_to_give_one(aws: str, nothing: Callable[..., None]) -> None:
    nothing("AWS_DEFAULT_REGION")
    assert fail("deploy", "--yes", "-n", "my-app") == "there is no AWS region: pass --region, or set AWS_REGION"


@pytest.mark.long
def test_a_local_endpoint_needs_neither(aws: str, nothing: Callable[..., None]) -> None:
    nothing("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    succeed("deploy", "--yes", "-n", "my-app", "--endpoint-url", aws)


def test_an_endpoint_that_does_not_answer_is_named(aws: str) -> None:
    told = fail("deploy", "--yes", "-n", "my-app", "--endpoint-url", "http://127.0.0.1:1")
    assert told.startswith('Could not connect to the endpoint URL: "http://127.0.0.1:1/"')


def test_a_profile_that_is_not_there_is_named(aws: str) -> None:
    assert fail("list", "--profile", "nobody").startswith("The config profile (nobody) could not be found")


@pytest.mark.parametrize("tag", ["team", "=red", "aws:team=red"])
def test_a_tag_that_is_none_is_refused(tag: str) -> None:
    done = run("deploy", "--yes", "--tag", tag)
    assert done.exit_code == 1
    assert "is not KEY=VALUE" in done.stderr
