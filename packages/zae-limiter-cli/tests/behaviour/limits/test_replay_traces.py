"""A plan is tried on a kept trace, and on hourly usage for what the trace has not."""

import gzip
import io
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import TracedWrite, TracePage, trace_line
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.limits.replay.run import replays_of
from zae_limiter_cli.limits.replay.traces import open_trace
from zae_limiter_cli.limits.replay.verdicts import Finding, Replayed
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.cloudformation import ARCHIVE_OUTPUT
from zae_limiter_manifest import Address, Change, LimitDecl, Plan, ResourceDecl

URL = "sqlite:///limits.db"
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) + timedelta(hours=2)
BEGIN = NOW - timedelta(hours=10)


@pytest.fixture(autouse=True)
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of the current folder in which `key-a` has made five calls on gpt-4."""
    monkeypatch.setenv("ZAEL_STORE", URL)
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text("namespace: a\nresources: {gpt-4: {limits: {rpm: {capacity: 100}}}}\n")
    told("limits", "apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "a")) as limiter:
        for _ in range(5):
            with limiter.acquire("key-a", "gpt-4", {"rpm": 1}):
                pass


def told(*args: str) -> str:
    done = CliRunner().invoke(main, [*args])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def failed(*args: str) -> str:
    done = CliRunner().invoke(main, [*args])
    assert done.exit_code == 1, done.output
    return done.stderr


def page(entity_id: str, seconds: Iterable[int], *, admitted: int = 1, refused: int = 0, new: int = 1) -> TracePage:
    """Return a page of one call of 1 rpm, or several, in each of these seconds after ``BEGIN``; the first is new."""
    writes = [
        TracedWrite(
            int(BEGIN.timestamp() + second) * 1000,
            f"a#{second:09}",
            0,
            admitted,
            refused,
            0,
            int(new and not number),
            [1000 * admitted],
        )
        for number, second in enumerate(seconds)
    ]
    return TracePage(("rpm",), [(entity_id, "gpt-4")], writes)


def keep(path: str, *pages: TracePage) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(gzip.compress("".join(map(trace_line, pages)).encode()))
    return path


def of_b(found: Replayed) -> Finding:
    return next(each for each in found.findings if each.entity_id == "key-b")


def replayed(*, trace: str | None = None, per_hour: int = 3, **fields: Any) -> Replayed:
    before, after = ResourceDecl({"rpm": LimitDecl(100)}), LimitDecl(per_hour, refill_period=3600, **fields)
    plan = Plan("a", (Change(Address("gpt-4"), before, ResourceDecl({"rpm": after})),))
    (found,) = replays_of(Connection.of_store(URL, source="--store"), [plan], "24h", NOW, trace=trace)
    return found


def test_a_trace_has_one_number_where_usage_has_bounds() -> None:
    found = replayed(trace=keep("t.jsonl.gz", page("key-b", [0, 10, 20, 30, 5000], refused=1)))
    traced = of_b(found)
    assert traced == Finding("key-b", "gpt-4", "rpm", "3/hour", 10, 5, 6, 6, source="trace")
    assert (found.source, found.traced, found.buckets) == ("trace and hourly usage", 1, 2)


def test_each_write_counts_once_in_whatever_files_it_is() -> None:
    keep("t/2026-01-01T00/x.jsonl.gz", page("key-b", range(0, 40, 10)), page("key-b", range(20, 60, 10), new=0))
    keep("t/2026-01-01T00/y.jsonl.gz", page("key-b", range(0, 60, 10)))
    traced = of_b(replayed(trace="t"))
    assert (traced.calls, traced.least, traced.most) == (6, 3, 3)


def test_hours_come_in_their_order() -> None:
    keep("t/2026-01-01T00/x.jsonl.gz", page("key-b", range(3)))
    keep("t/2026-01-01T01/a.jsonl.gz", page("key-b", range(3600, 3610), new=0))
    traced = of_b(replayed(trace="t"))
    assert (traced.calls, traced.least, traced.most) == (13, 7, 7)


def test_the_writes_of_a_second_are_spread_over_it() -> None:
    several = TracePage(
        ("rpm",),
        [("key-b", "gpt-4")],
        [TracedWrite(int(BEGIN.timestamp()) * 1000, f"a#{n}", 0, 1, 0, 0, int(not n), [1000]) for n in range(10)],
    )
    before, after = ResourceDecl({"rpm": LimitDecl(100)}), LimitDecl(1, burst=1, refill_amount=10, refill_period=1)
    plan = Plan("a", (Change(Address("gpt-4"), before, ResourceDecl({"rpm": after})),))
    connection = Connection.of_store(URL, source="--store")
    (found,) = replays_of(connection, [plan], "24h", NOW, trace=keep("t.jsonl.gz", several))
    assert of_b(found).most == 0


def test_usage_that_the_trace_has_not_is_judged_by_the_hour() -> None:
    late = int((datetime.now(UTC) - BEGIN).total_seconds())
    few = replayed(trace=keep("t.jsonl.gz", page("key-a", [late])))
    assert (few.source, [each.source for each in few.findings]) == ("hourly usage", ["hourly usage"])
    assert few.notes == ["the trace in t.jsonl.gz has not all calls of any of these buckets"]
    all_of_them = replayed(trace=keep("t.jsonl.gz", page("key-a", [late], admitted=5)))
    assert (all_of_them.source, all_of_them.least, all_of_them.most) == ("trace", 2, 2)


def test_what_is_before_the_replay_counts_for_what_is_left_alone() -> None:
    early = -int(14.6 * 3600)  # some minutes before the hour in which a replay of 24 hours begins
    found = of_b(replayed(trace=keep("t.jsonl.gz", page("key-b", [early, early + 1, early + 2, early + 400]))))
    assert (found.calls, found.least, found.most) == (1, 1, 1)


def test_slots_and_unused_limits_are_left_out() -> None:
    trace = keep("t.jsonl.gz", page("key-b", [0]))
    before = ResourceDecl({"rpm": LimitDecl(100)})
    after = ResourceDecl({"tpm": LimitDecl(5), "par": LimitDecl(2, kind="concurrent")})
    plan = Plan("a", (Change(Address("gpt-4"), before, after),))
    (found,) = replays_of(Connection.of_store(URL, source="--store"), [plan], "24h", NOW, trace=trace)
    assert not found.findings
    assert (
        "slots left out, because usage does not say how long calls held them: key-a/gpt-4 par, key-b/gpt-4 par"
        in found.notes
    )
    assert "no use is known of a limit by this name: key-a/gpt-4 tpm, key-b/gpt-4 tpm" in found.notes


def test_a_plan_says_by_what_it_was_tried() -> None:
    Path("new.yaml").write_text("namespace: a\nresources: {gpt-4: {limits: {rpm: 3/hour}}}\n")
    now = int(datetime.now(UTC).timestamp())
    trace = keep("t.jsonl.gz", page("key-b", [now - 600 - int(BEGIN.timestamp())], admitted=9))
    command = ["limits", "plan", "-f", "new.yaml", "--replay", "24h"]
    shown = " ".join(told(*command, "--trace", trace).split())
    assert "Replay of a, a trace of 1 bucket and hourly usage of 1 bucket, from " in shown
    assert "14 calls on 2 buckets that get other limits: 0 were refused, at least 6 and at most 8 would be" in shown
    assert "A trace has every write, in whole seconds: calls of one write count as of one size" in shown
    (found,) = json.loads(told(*command, "--trace", trace, "-o", "json"))["replays"]
    assert (found["source"], found["buckets_by_trace"]) == ("trace and hourly usage", 1)
    assert {each["entity_id"]: each["source"] for each in found["findings"]} == {
        "key-a": "hourly usage",
        "key-b": "trace",
    }
    assert "| `key-b` | `gpt-4` | `rpm 3/hour` | 9 | 0 | 6 | 67 % |" in told(
        *command, "--trace", trace, "-o", "markdown"
    )
    assert "hourly usage from" in " ".join(told(*command, "--trace", "off").split())


def damaged(**columns: object) -> bytes:
    """Return the line of a trace with other columns; ``None`` takes one away."""
    line = json.loads(trace_line(page("key-b", [0]))) | columns
    return json.dumps({name: value for name, value in line.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x1f\x8bnothing", "the file is not a trace, or damaged"),
        (b"{}\n", "line 1 is not a line of a trace: 'limits' is missing"),
        (b"\n[1]\n", "line 2 is not a line of a trace: it is not an object"),
        (damaged(buckets=[["a"]]), "buckets is not a list of pairs"),
        (damaged(admitted=None), "is missing"),
        (damaged(admitted=[1, 1]), "its lists are not of one length"),
        (damaged(place=[1]), "a time, a place or a count that cannot be"),
        (damaged(at_ms=[10**15]), "a time, a place or a count that cannot be"),
        (damaged(refused=[10**9]), "a time, a place or a count that cannot be"),
        (damaged(admitted=[True]), "a time, a place or a count is not a whole number"),
        (damaged(at_ms=[float("nan")]), "NaN is not a number"),
        (damaged(mark=[1]), "a mark is not text"),
        (damaged(amounts=[[1.5]]), "an amount is not a whole number"),
        (damaged(amounts=[[]]), "its lists are not of one length"),
        (damaged(amounts=[]), "amounts has not a list for each of the limits"),
        (damaged(limits="rpm"), "limits is not a list of names"),
        (b"\xff\xfe", "the file is not a trace, or damaged"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_place(content: bytes, problem: str) -> None:
    Path("bad.jsonl").write_bytes(content)
    command = ["limits", "plan", "-f", "limits.yaml", "--replay", "24h"]
    Path("limits.yaml").write_text("namespace: a\nresources: {gpt-4: {limits: {rpm: 3/hour}}}\n")
    error = failed(*command, "--trace", "bad.jsonl")
    assert error.startswith("Error: --trace bad.jsonl: ")
    assert problem in error


def test_a_path_without_a_trace_is_an_error_with_a_way_out() -> None:
    command = ["limits", "plan", "-f", "limits.yaml", "--replay", "24h"]
    Path("limits.yaml").write_text("namespace: a\nresources: {gpt-4: {limits: {rpm: 3/hour}}}\n")
    Path("empty").mkdir()
    assert "--trace empty: no file there ends in .jsonl.gz or .jsonl" in failed(*command, "--trace", "empty")
    assert "--trace none: No such file or directory: pass a file" in failed(*command, "--trace", "none")
    assert "--trace is for a replay: pass --replay" in failed(*command[:-2], "--trace", "empty")


def test_a_file_of_limits_keeps_no_trace() -> None:
    assert "a file has no stream, so no trace can be kept of it" in failed("namespace", "trace", "a", "--share", "1")


@pytest.mark.parametrize("share", ["2", "-0.1", "0.0005", "nan", "inf", "a tenth", "", "10%"])
def test_a_share_is_a_part_of_a_thousand(share: str) -> None:
    done = CliRunner(env={"ZAEL_STORE": ""}).invoke(main, ["namespace", "trace", "a", f"--share={share}"])
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: --share {share!r}: must be from 0 to 1, in thousandths, such as 0.1 or 0.005; 0 keeps none\n"
    )


class Objects:
    """The archive of a stack, as S3 and CloudFormation show it."""

    def __init__(self, objects: dict[str, bytes], *, bucket: str | None = "kept", denied: bool = False) -> None:
        self.objects, self.bucket, self.denied = objects, bucket, denied
        self.asked: list[str] = []

    def client(self, service: str, **_: Any) -> Any:
        return SimpleNamespace(
            describe_stacks=self.describe,
            get_paginator=lambda _: SimpleNamespace(paginate=self.list),
            get_object=self.get,
        )

    def describe(self, **_: Any) -> Any:
        outputs = [{"OutputKey": ARCHIVE_OUTPUT, "OutputValue": self.bucket}] if self.bucket else []
        at = datetime(2026, 1, 1, tzinfo=UTC)
        stack = {"StackId": "i", "StackName": "demo", "StackStatus": "CREATE_COMPLETE", "CreationTime": at}
        return {"Stacks": [stack | {"Outputs": outputs}]}

    def list(self, *, Bucket: str, Prefix: str) -> Any:  # noqa: N803  boto3's names
        assert Bucket == self.bucket
        self.asked.append(Prefix)
        if self.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")
        found = [{"Key": key} for key in self.objects if key.startswith(Prefix)]
        return [{"Contents": found[:1]}, {"Contents": found[1:]}] if found else [{}]

    def get(self, *, Bucket: str, Key: str) -> Any:  # noqa: N803
        assert Bucket == self.bucket
        return {"Body": io.BytesIO(self.objects[Key])}


@pytest.fixture
def of_stack(monkeypatch: pytest.MonkeyPatch) -> Callable[[Objects, int], Any]:
    """Open the trace that a namespace of a stack keeps of so many of a thousand entities."""

    def open_it(objects: Objects, permille: int) -> Any:
        connection = Connection("demo", region="eu-west-1")
        monkeypatch.setattr(Connection, "client", lambda _, service, **more: objects.client(service, **more))
        repository = SyncRepository.in_memory()
        from zae_limiter.maintenance import run, set_trace

        run(repository, set_trace(repository.name, permille))
        return repository.namespace_id, open_trace(connection, repository, None)

    return open_it


def test_a_trace_of_a_stack_is_read_from_its_archive_hour_by_hour(of_stack: Callable[[Objects, int], Any]) -> None:
    objects = Objects({})
    ids, trace = of_stack(objects, 100)
    for hour, name, second in (("08", "a", 0), ("08", "b", 1), ("09", "c", 2)):
        body = gzip.compress(trace_line(page("key-b", [second])).encode())
        objects.objects[f"trace/{ids}/2026-03-02T{hour}/{name}.jsonl.gz"] = body
    begin = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
    hours = [len(found) for found in trace.hours(begin, begin + timedelta(hours=2))]
    assert hours == [2, 1, 0]
    assert objects.asked == [f"trace/{ids}/2026-03-02T{hour}/" for hour in ("08", "09", "10")]


def test_a_namespace_that_keeps_no_trace_needs_no_archive(of_stack: Callable[[Objects, int], Any]) -> None:
    objects = Objects({}, bucket=None)
    assert of_stack(objects, 0)[1] is None
    with pytest.raises(Exception, match=r"stack demo has no archive for it: pass --trace off"):
        of_stack(objects, 1)


def test_a_trace_that_may_not_be_read_says_how_to_go_on(of_stack: Callable[[Objects, int], Any]) -> None:
    _, trace = of_stack(Objects({}, denied=True), 1)
    with pytest.raises(Exception, match=r"the trace in bucket kept cannot be read: .*AccessDenied.*--trace off"):
        next(trace.hours(BEGIN, NOW))
