"""`zae-limiter doctor`: what it finds in a stack of moto, in a file, and where AWS does not answer or refuses."""

import os
import shlex
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, NoReturn

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.calls import answering
from support.cli.terminals import running
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import create_table_request
from zae_limiter_cli.main import main

ROLE = "arn:aws:sts::123456789012:assumed-role/on-call/alice"
BLOCKS = "rights: block, lift, and all that changes system, resource, entity, bucket"
CONTINUE = "aws cloudformation continue-update-rollback"
READS = "rights: why, usage, audit, and each show and list"


def run(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "60"}).invoke(main, ["doctor", *args])


def found(*args: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and each check by its name."""
    done = run(*(args or ("-n", "my-app")), "-o", "json")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    document = opened(done.stdout)
    assert document["ok"] is (done.exit_code == 0)
    for each in document["checks"]:
        assert each["state"] in {"ok", "warn", "fail", "unknown", "n/a"}
        assert each["message"]
        assert each["fix"] or each["state"] not in {"warn", "fail"}, each
        assert each["fix"] or not each["commands"], each
    return done.exit_code, {each["check"]: each for each in document["checks"]}


def states(checks: dict[str, Any]) -> dict[str, str]:
    return {name: each["state"] for name, each in checks.items() if not name.startswith("rights")}


def denied(code: str = "AccessDeniedException") -> Callable[[], NoReturn]:
    def answer() -> NoReturn:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "Any")

    return answer


@contextmanager
def answers(**operations: Callable[[], Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for operation, answer in operations.items():
            stack.enter_context(answering(operation, answer))
        yield


def identity(arn: str = ROLE, date: datetime | None = None) -> dict[str, Any]:
    headers = {"date": format_datetime(date or datetime.now(UTC), usegmt=True)}
    return {"Arn": arn, "Account": "123456789012", "ResponseMetadata": {"HTTPHeaders": headers}}


@pytest.fixture
def stack(aws: str) -> None:
    done = CliRunner().invoke(main, ["deploy", "--yes", "-n", "my-app", "-q", "--alarms"])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_a_fresh_stack_is_well_but_for_alarms_that_tell_nobody() -> None:
    code, checks = found()
    assert (code, set(states(checks).values())) == (0, {"ok", "warn"})
    assert [name for name, state in states(checks).items() if state == "warn"] == ["alarms"]
    assert checks["alarms"]["commands"] == ["zae-limiter deploy --name my-app --alarms --alarm-topic-arn ARN"]
    assert checks[READS]["state"] == "ok"
    assert checks[BLOCKS]["state"] == "unknown"
    assert "iam:SimulatePrincipalPolicy" in checks[BLOCKS]["fix"]


def alarm(name: str, *topics: str, state: str = "OK") -> None:
    """Make an alarm, which moto's CloudFormation does not."""
    cloudwatch = boto3.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        AlarmActions=list(topics),
        MetricName="Errors",
        Namespace="AWS/Lambda",
        Period=300,
        EvaluationPeriods=1,
        Threshold=1,
        Statistic="Sum",
        ComparisonOperator="GreaterThanThreshold",
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="test")


@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_alarms_that_ring_that_tell_nobody_or_to_which_nobody_listens_are_found() -> None:
    alarm("my-app-2-AggregatorErrorsAlarm-OTHER", state="ALARM")  # of another stack
    assert found()[1]["alarms"]["message"] == "there is none: no one is notified when the aggregator fails"
    name = "my-app-AggregatorErrorsAlarm-1A2B"
    alarm(name)
    assert found()[1]["alarms"]["message"] == "of 1 alarm, 1 without a topic"
    sns = boto3.client("sns")
    topic = sns.create_topic(Name="on-call")["TopicArn"]
    alarm(name, topic)
    _, checks = found()
    assert (checks["alarms"]["state"], topic in checks["alarms"]["message"]) == ("warn", True)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:q")
    assert found()[1]["alarms"]["state"] == "ok"
    alarm(name, topic, state="ALARM")
    code, checks = found()
    assert (code, checks["alarms"]["state"], name in checks["alarms"]["message"]) == (1, "fail", True)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_iam_is_asked_about_the_role_of_a_session() -> None:
    def simulated(**decisions: str) -> Callable[[], Any]:
        results = [{"EvalActionName": f"dynamodb:{name}", "EvalDecision": each} for name, each in decisions.items()]
        return lambda: {"EvaluationResults": results}

    with answers(GetCallerIdentity=identity, SimulatePrincipalPolicy=simulated(PutItem="allowed")):
        assert {each["state"] for name, each in found()[1].items() if name.startswith("rights")} == {"ok"}
    with answers(GetCallerIdentity=identity, SimulatePrincipalPolicy=simulated(PutItem="implicitDeny")):
        code, checks = found()
    assert (code, checks[BLOCKS]["state"]) == (0, "warn")  # who reads only needs no more
    assert checks[BLOCKS]["message"] == "IAM refuses dynamodb:PutItem"
    assert checks[BLOCKS]["fix"] == "if you need it: attach FullPolicy of the stack"
    root = identity("arn:aws:iam::123456789012:root")
    with answers(GetCallerIdentity=lambda: root):
        assert found()[1][BLOCKS]["state"] == "ok"


@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_what_is_refused_is_unknown_and_the_rest_is_checked() -> None:
    refused = (
        "DescribeStacks",
        "DescribeAlarms",
        "Scan",
        "Query",
        "SimulatePrincipalPolicy",
        "ListEventSourceMappings",
    )
    with answers(**dict.fromkeys(refused, denied())):
        code, checks = found()
    assert code == 0
    unknown = [name for name, state in states(checks).items() if state == "unknown"]
    assert unknown == ["stack", "stream", "dead letters", "alarms", "sizes"]
    assert checks["alarms"]["fix"] == "allow cloudwatch:DescribeAlarms"
    assert (checks["table"]["state"], checks["aggregator"]["state"]) == ("ok", "ok")
    assert (checks[READS]["state"], checks[READS]["details"]["denied"]) == ("warn", ["dynamodb:Query"])


@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_wide_items_and_other_releases_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_cli.doctor.stack.version", lambda _: "9.9.9")
    item = {"PK": {"S": "ns/ENTITY#wide"}, "SK": {"S": "#META"}, "metadata": {"S": "x" * 250_000}}
    boto3.client("dynamodb").put_item(TableName="my-app", Item=item)
    _, checks = found()
    assert (checks["sizes"]["state"], "ENTITY#wide" in checks["sizes"]["message"]) == ("warn", True)
    assert checks["aggregator"]["state"] == "warn"
    assert checks["aggregator"]["commands"] == ["zae-limiter upgrade --name my-app"]


def test_no_stack_no_region_no_credentials_no_profile_are_failures(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = found()
    assert (code, checks["stack"]["state"], checks["table"]["state"]) == (1, "fail", "fail")
    assert checks["stack"]["commands"] == ["zae-limiter list", "zae-limiter deploy --name my-app"]
    assert checks["table"]["commands"] == ["zae-limiter deploy --name my-app"]
    for error in ("ExpiredToken", "InvalidClientTokenId"):
        with answers(GetCallerIdentity=denied(error)):
            assert found()[1]["credentials"]["message"] == f"AWS refuses them: {error}"
    code, checks = found("--profile", "nobody")
    assert (code, checks["credentials"]["commands"]) == (1, ["aws configure list-profiles"])
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    code, checks = found()
    assert (code, list(checks), checks["region"]["state"]) == (1, ["region"], "fail")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(("seconds", "state"), [(0, "ok"), (30, "warn"), (-30, "warn"), (400, "fail"), (-400, "fail")])
def test_the_clock_is_compared_with_that_of_aws(aws: str, seconds: int, state: str) -> None:
    date = datetime.now(UTC) - timedelta(seconds=seconds)
    with answers(GetCallerIdentity=lambda: identity(date=date)):
        _, checks = found()
    assert checks["clock"]["state"] == state
    assert abs(checks["clock"]["details"]["skew_seconds"] - seconds) < 5
    no_date = {**identity(), "ResponseMetadata": {}}
    with answers(GetCallerIdentity=lambda: no_date):
        assert found()[1]["clock"]["state"] == "unknown"


def test_an_outage_fails_soon_and_breaks_nothing(aws: str) -> None:
    code, checks = found("--endpoint-url", "http://127.0.0.1:1")
    assert code == 1
    assert (checks["credentials"]["state"], checks["stack"]["state"]) == ("fail", "fail")
    assert {each["state"] for name, each in checks.items() if name not in {"region", "credentials", "stack"}} == {
        "unknown"
    }
    assert "check the network" in checks["stack"]["fix"]


@pytest.mark.parametrize("junk", [{}, None, [], {"Stacks": None, "Table": 3}], ids=str)
def test_an_answer_that_is_none_breaks_one_check(aws: str, junk: Any) -> None:
    operations = ("DescribeStacks", "DescribeTable", "GetFunction", "DescribeAlarms", "Scan", "GetCallerIdentity")
    with answers(**dict.fromkeys(operations, lambda: junk)):
        _, checks = found()
    assert checks["table"]["state"] == "unknown"
    assert "the check broke" in checks["table"]["message"]


def test_people_see_lines_that_fit(aws: str) -> None:
    done = run("-n", "my-app")
    assert (done.exit_code, done.stderr) == (1, "")
    assert max(len(line) for line in done.stdout.splitlines() if line.strip() not in DEPLOY) <= 60
    assert done.stdout.splitlines()[0] == "ok       region         us-east-1"
    assert " -> " in done.stdout
    assert " fail, " in done.stdout.splitlines()[-1]


DEPLOY = ("zae-limiter deploy --name my-app",)


@pytest.mark.long
@pytest.mark.slow
def test_a_command_for_a_fix_has_the_options_of_the_caller_and_can_be_pasted_from_a_narrow_terminal(aws: str) -> None:
    words = ("-n", "my-app.eu", "--region", "eu-central-1", "--endpoint-url", aws)
    deploy = ["zae-limiter", "deploy", "--name", "my-app.eu", "--region", "eu-central-1", "--endpoint-url", aws]
    _, checks = found(*words)
    assert [shlex.split(each) for each in checks["table"]["commands"]] == [deploy]
    whole = run(*words).stdout
    assert f"\n         {shlex.join(deploy)}\n" in whole  # without a terminal
    with running("doctor", *words, columns=60, lines=200) as terminal:
        assert terminal.ended() == 1
    lines = terminal.sent.decode().replace("\r\n", "\n").splitlines()
    assert max(map(len, lines)) <= 60
    begin = next(at for at, line in enumerate(lines) if line.strip().startswith("zae-limiter deploy"))
    end = next(at for at in range(begin, len(lines)) if not lines[at].endswith(" \\"))
    assert end > begin
    pasted = "printf '%s\\n' " + "\n".join(lines[begin : end + 1])
    done = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == deploy


@pytest.mark.slow
@pytest.mark.usefixtures("stack")
def test_a_mapping_that_is_disabled_is_enabled_by_its_id() -> None:
    client = boto3.client("lambda")
    (mapping,) = client.list_event_source_mappings(FunctionName="my-app-aggregator")["EventSourceMappings"]
    client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    code, checks = found()
    command = f"aws lambda update-event-source-mapping --uuid {mapping['UUID']} --enabled"
    assert (code, checks["stream"]["state"], checks["stream"]["commands"]) == (1, "fail", [command])


@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("DELETE_FAILED", "zae-limiter delete --name my-app --region us-east-1"),
        ("UPDATE_ROLLBACK_FAILED", f"{CONTINUE} --stack-name my-app --region us-east-1"),
    ],
)
def test_a_stack_that_failed_has_its_way_out_as_a_command(aws: str, status: str, command: str) -> None:
    stack = {"StackName": "my-app", "StackId": "id", "StackStatus": status, "CreationTime": datetime.now(UTC)}
    with answers(DescribeStacks=lambda: {"Stacks": [stack]}):
        _, checks = found("-n", "my-app", "--region", "us-east-1")
    assert (checks["stack"]["state"], checks["stack"]["commands"]) == ("fail", [command])
    assert checks["stack"]["fix"].startswith("fix the cause, then ")


def test_a_file_is_checked_and_what_does_not_apply_is_said(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    with SyncRepository.open(store=f"sqlite:///{path}") as repository:
        repository.set_system_defaults([Limit.per_minute("rpm", 1)])
    before = path.read_bytes()
    code, checks = found("--store", f"sqlite:///{path}")
    assert (code, path.read_bytes()) == (0, before)
    assert [name for name, state in states(checks).items() if state == "ok"] == [
        "file", "content", "clock", "version", "sizes",
    ]  # fmt: skip
    assert checks["alarms"]["state"] == checks["rights"]["state"] == "n/a"


def test_a_file_whose_lock_two_processes_may_have_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "limits.db"
    SyncRepository.open(store=f"sqlite:///{path}").close()
    assert "lock keeps a second process out" in found("--store", f"sqlite:///{path}")[1]["file"]["message"]
    monkeypatch.setattr(fcntl, "lockf", lambda *_: None)  # in this process alone
    code, checks = found("--store", f"sqlite:///{path}")
    assert (code, checks["file"]["state"]) == (1, "fail")
    assert "lets two processes have the same lock" in checks["file"]["message"]


class Fast:
    """A clock that is a year fast."""

    def now_ms(self) -> int:
        return int(time.time() * 1000) + 365 * 86_400_000


def test_buckets_written_by_a_fast_clock_are_named(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    with SyncRateLimiter(SyncRepository.sqlite(path, clock=Fast())) as limiter:
        for entity in ("ann", "bob"):
            with limiter.acquire(entity, "api", {"rpm": 1}, limits=[Limit.per_minute("rpm", 10)]):
                pass
    checks = found("--store", f"sqlite:///{path}")[1]
    assert checks["clock"]["state"] == "warn"
    assert checks["clock"]["message"].startswith("2 buckets were written by a clock that was up to 31,5")
    assert checks["clock"]["message"].endswith(" s fast: ann/api, bob/api")
    with SyncRateLimiter(SyncRepository.sqlite(path)) as limiter:
        for entity in ("ann", "bob"):
            with limiter.acquire(entity, "api", {"rpm": 1}, limits=[Limit.per_minute("rpm", 10)]):
                pass
    assert found("--store", f"sqlite:///{path}")[1]["clock"]["state"] == "ok"


def test_the_size_of_a_file_and_of_its_log_is_told(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    with SyncRepository.open(store=f"sqlite:///{path}") as repository:
        repository.set_system_defaults([Limit.per_minute("rpm", 1)])
        sizes = found("--store", f"sqlite:///{path}")[1]["sizes"]
        assert (sizes["details"]["bytes"], sizes["details"]["log_bytes"] > 0) == (path.stat().st_size, True)
        os.truncate(path.with_name("limits.db-wal"), 70 * 1024 * 1024)
        sizes = found("--store", f"sqlite:///{path}")[1]["sizes"]
        assert (sizes["state"], "its log 70.0 MB" in sizes["message"]) == ("warn", True)
        assert f"fuser {path}" in sizes["fix"]


@pytest.mark.long
def test_a_damaged_or_missing_file_fails(tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    code, checks = found("--store", f"sqlite:///{missing}")
    assert (code, checks["file"]["state"], missing.exists()) == (1, "fail", False)
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"no database at all" * 1000)
    code, checks = found("--store", f"sqlite:///{junk}")
    assert (code, checks["content"]["state"]) == (1, "fail")
    busy = tmp_path / "busy.db"
    with closing(sqlite3.connect(busy)) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        assert found("--store", f"sqlite:///{busy}")[1]["content"]["state"] == "unknown"
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE t (x)")
    code, checks = found("--store", f"sqlite:///{other}")
    assert (code, checks["content"]["state"]) == (1, "fail")
    assert checks["content"]["message"] == f"{other} is the database of another program: name another file"


def test_a_file_with_a_trigger_of_others_or_for_others_to_use_is_told(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    SyncRepository.open(store=f"sqlite:///{path}").close()
    path.chmod(0o644)
    code, checks = found("--store", f"sqlite:///{path}")
    assert (checks["file"]["state"], checks["file"]["commands"]) == ("warn", [f"chmod 600 {path}"])
    assert "has the mode 0644: other users of this host" in checks["file"]["message"]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TRIGGER thief AFTER INSERT ON items BEGIN DELETE FROM items; END")
    code, checks = found("--store", f"sqlite:///{path}")
    assert (code, states(checks)["content"], states(checks)["clock"]) == (1, "fail", "unknown")
    for check in ("content", "clock", "version"):
        assert "another program has changed its tables (trigger 'thief')" in checks[check]["message"]


@pytest.mark.skipif(os.name != "posix", reason="this system has no pipes and modes")
def test_no_check_waits_at_a_pipe(tmp_path: Path) -> None:
    path, pipe = tmp_path / "limits.db", tmp_path / "pipe.db"
    SyncRepository.open(store=f"sqlite:///{path}").close()
    os.mkfifo(tmp_path / "limits.db-journal")
    os.mkfifo(pipe)
    for each, told in ((path, "limits.db-journal is a link"), (pipe, "pipe.db is not a regular file")):
        code, checks = found("--store", f"sqlite:///{each}")
        assert (code, states(checks)["file"], states(checks)["content"]) == (1, "fail", "fail")
        for check in ("file", "content", "clock", "version", "sizes"):
            assert told in checks[check]["message"]


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes of folders")
def test_a_folder_where_others_may_write_is_told(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    SyncRepository.open(store=f"sqlite:///{path}").close()
    tmp_path.chmod(0o1777)
    path.chmod(0o640)
    checks = found("--store", f"sqlite:///{path}")[1]
    assert (checks["file"]["state"], checks["file"]["commands"]) == ("warn", [f"chmod 600 {path}"])
    assert "has the mode 0640" in checks["file"]["message"]
    assert f"others may write in {tmp_path} (mode 1777)" in checks["file"]["message"]
    assert "keep it in a folder where only its owner may write" in checks["file"]["fix"]


def test_no_check_of_a_file_lasts_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_cli.doctor.file.WORK_SECONDS", 0.0)
    monkeypatch.setattr("zae_limiter.engines.sqlite.connection.LOOKS_AFTER", 1)
    path = tmp_path / "limits.db"
    SyncRepository.open(store=f"sqlite:///{path}").close()
    checks = found("--store", f"sqlite:///{path}")[1]
    assert (checks["content"]["state"], checks["content"]["message"]) == (
        "unknown", "SQLite could not look: interrupted",
    )  # fmt: skip


# how near a table is to its limits

BUSY = datetime(2026, 3, 2, 8, 14, tzinfo=UTC)


def consumption(**units: float) -> dict[str, Any]:
    """Units a second in a minute, by CloudWatch's id of the table (0) or an index; ten in the minute before."""
    return {
        "MetricDataResults": [
            {"Id": name, "Timestamps": [BUSY, BUSY - timedelta(minutes=1)], "Values": [60 * used, 600]}
            for name, used in units.items()
        ]
    }


def table_with(**settings: Any) -> dict[str, Any]:
    described = boto3.client("dynamodb").describe_table(TableName="my-app")["Table"]
    return {"Table": {**described, **settings}}


LIMITS = {"TableMaxWriteCapacityUnits": 40_000, "TableMaxReadCapacityUnits": 40_000}


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("settings", "used", "state", "told"),
    [
        ({}, 1_200, "ok", "writes 1,200 of 40,000 units a second (3 %, the quota of a table)"),
        ({}, 32_000, "warn", "writes 32,000 of 40,000 units a second (80 %, the quota of a table)"),
        (
            {"OnDemandThroughput": {"MaxWriteRequestUnits": 2_000, "MaxReadRequestUnits": -1}},
            2_000,
            "warn",
            "writes 2,000 of 2,000 units a second (100 %, its on-demand maximum)",
        ),
        (
            {
                "BillingModeSummary": {"BillingMode": "PROVISIONED"},
                "ProvisionedThroughput": {"WriteCapacityUnits": 3_000, "ReadCapacityUnits": 100},
            },
            0,
            "ok",
            "writes of GSI1 300 of 40,000 units a second (1 %, the quota of a table)",
        ),
    ],
    ids=["far", "near", "own maximum", "an index is nearer"],
)
def test_consumption_is_set_against_the_lowest_limit(
    aws: str, settings: dict[str, Any], used: float, state: str, told: str
) -> None:
    boto3.client("dynamodb").create_table(**create_table_request("my-app"))
    described, busy = table_with(**settings), consumption(write0=used, write1=300, read0=20)
    with answers(DescribeTable=lambda: described, GetMetricData=lambda: busy, DescribeLimits=lambda: LIMITS):
        _, checks = found()
    throughput = checks["throughput"]
    assert (throughput["state"], throughput["message"].partition(", reads ")[0]) == (state, told)
    assert throughput["message"].endswith("; warm for 4,000 writes and 12,000 reads a second")
    assert ("docs/operate/quota.md" in throughput.get("fix", "")) is (state == "warn")


def test_what_is_throttled_is_counted_and_warned_of(aws: str) -> None:
    boto3.client("dynamodb").create_table(**create_table_request("my-app"))
    busy = consumption(write0=20, throttled_write0=1, throttled_write2=0.5, throttled_read1=0)
    with answers(GetMetricData=lambda: busy, DescribeLimits=lambda: LIMITS):
        _, checks = found()
    assert checks["throughput"]["state"] == "warn"
    assert checks["throughput"]["message"].startswith("THROTTLED 1,290 writes, 600 reads in 10 minutes; writes 20 of ")
    assert "runbooks/table-throttles.md" in checks["throughput"]["fix"]
    assert checks["throughput"]["details"]["write"]["throttled"] == 1_290


def test_without_figures_nothing_is_said_of_consumption(aws: str) -> None:
    boto3.client("dynamodb").create_table(**create_table_request("my-app"))
    _, checks = found()
    assert checks["throughput"]["state"] == "ok"
    assert "CloudWatch has no figures of the last 10 minutes" in checks["throughput"]["message"]
    assert "writes 0 of" not in checks["throughput"]["message"]


def test_who_may_not_see_consumption_or_quotas_is_told_the_action(aws: str) -> None:
    boto3.client("dynamodb").create_table(**create_table_request("my-app"))
    with answers(GetMetricData=denied(), DescribeLimits=denied()):
        _, checks = found()
    assert checks["throughput"]["state"] == "unknown"
    assert checks["throughput"]["message"].split("; ")[1:] == [
        "consumption not known: allow cloudwatch:GetMetricData (AccessDeniedException)",
        "quota not known: allow dynamodb:DescribeLimits (AccessDeniedException)",
    ]
