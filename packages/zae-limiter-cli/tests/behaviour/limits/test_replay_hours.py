"""A plan is tried on the past by hourly usage: at least and at most how many calls it would have refused."""

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.tables import making
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.limits.replay.after import LimitsAfter
from zae_limiter_cli.limits.replay.past import LONGER
from zae_limiter_cli.limits.replay.run import COUNTED, replays_of
from zae_limiter_cli.limits.replay.showing import MOST_ROWS, markdown
from zae_limiter_cli.limits.replay.verdicts import Finding, Replayed
from zae_limiter_cli.main import main
from zae_limiter_manifest import Address, Change, LimitDecl, Plan, RecordDecl, ResourceDecl, SystemDecl

URL = "sqlite:///limits.db"
MANIFEST = """\
namespace: a
system: {{limits: {{rpm: {{capacity: 100, refill_period: 3600}}}}}}
resources: {{gpt-4: {{limits: {{rpm: {{capacity: {}, refill_period: 3600}}}}}}}}
entities: {{key-a: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: {}, refill_period: 3600}}}}}}}}}}}}
"""
UNUSED = "key-z: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: 1}}}}}}}}}}"
NOT_THERE = "the namespace is not there yet, and has no past"
NO_USE = "no use of what the plan changes is known of this time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file in which `key-a` was admitted 50 times and refused 10 times, `key-b` admitted 45 times,
    `key-c` twice.
    """
    folder = tmp_path_factory.mktemp("used")
    (folder / "limits.yaml").write_text(MANIFEST.format(100, 50))
    told("apply", "--yes", "-f", str(folder / "limits.yaml"), "--store", f"sqlite:///{folder}/limits.db")
    with SyncRateLimiter(repository=SyncRepository.sqlite(folder / "limits.db", "a")) as limiter:
        for entity, calls in (("key-a", 60), ("key-b", 45), ("key-c", 2)):
            for _ in range(calls):
                try:
                    limiter.acquire(entity, "gpt-4", {"rpm": 1}).__enter__().__exit__(None, None, None)
                except RateLimitExceeded:
                    assert entity == "key-a"
    return folder


@pytest.fixture(autouse=True)
def used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the folder, which is the current one, and the store of the commands."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("ZAEL_STORE", URL)
    monkeypatch.chdir(tmp_path)


def told(*args: str) -> str:
    done = CliRunner().invoke(main, ["limits", *args])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def failed(*args: str) -> str:
    done = CliRunner().invoke(main, ["limits", *args])
    assert done.exit_code == 1, done.output
    return done.stderr


def replayed(*changes: Change) -> Replayed:
    """Return the replay of a plan two hours later: the hour of the use is over, whenever the test runs."""
    at = datetime.now(UTC) + timedelta(hours=2)
    (found,) = replays_of(Connection.of_store(URL, source="--store"), [Plan("a", changes)], "24h", at)
    return found


def change(address: Address, *limits: LimitDecl) -> Change:
    before = LimitDecl(10**6)
    after = dict(zip(("rpm", "tpm"), limits, strict=False))
    if address == Address():
        return Change(address, SystemDecl(limits={"rpm": before}), SystemDecl(limits=after))
    return Change(address, ResourceDecl({"rpm": before}), ResourceDecl(after) if after else None)


def hourly(capacity: int, **fields: object) -> LimitDecl:
    return LimitDecl(capacity, refill_period=3600, **fields)  # type: ignore[arg-type]


def test_a_plan_shows_who_would_have_been_refused_by_which_limit() -> None:
    Path("limits.yaml").write_text(MANIFEST.format(10, 20))
    plan = told("plan", "-f", "limits.yaml", "--replay", "24h")
    assert "107 calls on 3 buckets that get other limits: 10 were refused, at least " in plan
    assert (
        "  WHO    RESOURCE  LIMIT        CALLS  REFUSED  WOULD BE  SHARE\n  key-b  gpt-4     rpm 10/hour  45     0 "
        in plan
    )
    assert "  key-a  gpt-4     rpm 20/hour  60     10 " in plan
    assert "key-c" not in plan.partition("Replay")[2]  # whatever the order of its calls was, they fit
    assert "Replay" not in told("plan", "-f", "limits.yaml")


def test_the_bounds_are_those_of_the_hour() -> None:
    found = replayed(change(Address("gpt-4"), hourly(10)), change(Address("gpt-4", "key-a"), hourly(20)))
    expected = [
        Finding("key-b", "gpt-4", "rpm", "10/hour", 45, 0, 45 - 19, 45 - 10),
        Finding("key-a", "gpt-4", "rpm", "20/hour", 60, 10, 60 - 39, 60 - 20),
    ]
    assert found.refusing == expected
    assert (found.calls, found.before, found.least, found.most, found.buckets) == (107, 10, 26 + 21, 35 + 40, 3)


def test_limits_of_their_own_protect_from_a_change_of_the_resource() -> None:
    found = replayed(change(Address("gpt-4"), hourly(10)))
    assert [each.entity_id for each in found.findings] == ["key-b", "key-c"]


def test_a_level_that_goes_leaves_the_weaker_one() -> None:
    found = replayed(change(Address("gpt-4", "key-a")), change(Address("gpt-4")), change(Address(), hourly(7)))
    assert {each.entity_id: each.rule for each in found.findings} == dict.fromkeys(
        ("key-a", "key-b", "key-c"), "7/hour"
    )
    with SyncRepository.sqlite("limits.db", "a") as repository:
        after = LimitsAfter(repository, Plan("a", (change(Address("gpt-4", "key-a")), change(Address("gpt-4")))))
        assert after.bucket("key-a", "gpt-4").limits == (Limit.per_hour("rpm", 100),)


def test_an_override_in_force_stays_over_the_change_of_its_place() -> None:
    with SyncRepository.sqlite("limits.db", "a") as repository:
        until = datetime.now(UTC) + timedelta(hours=1)
        repository.set_limits("key-a", [Limit.per_hour("rpm", 77)], "gpt-4", override_until=until)
    Path("limits.yaml").write_text(MANIFEST.format(10, 20))
    plan = told("plan", "-f", "limits.yaml", "--replay", "24h")
    assert "  key-b  " in plan
    assert "  key-a  " not in plan


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (ResourceDecl({"rpm": hourly(10)}, disabled=True), (107, 107)),
        (ResourceDecl({"rpm": hourly(10)}, bypass=True), (0, 0)),
        (ResourceDecl({"rpm": hourly(10, shadow=True)}), (0, 0)),
        (ResourceDecl({"rpm": LimitDecl(0)}), (47, 47)),
    ],
    ids=["disabled", "bypass", "shadow", "blocked"],
)
def test_switches_and_shadow_limits_count_as_they_decide(after: ResourceDecl, expected: tuple[int, int]) -> None:
    found = replayed(Change(Address("gpt-4"), ResourceDecl({"rpm": hourly(1000)}), after))
    assert (found.least, found.most) == expected


def test_what_usage_does_not_tell_is_left_out_and_said() -> None:
    slots = LimitDecl(2, kind="concurrent")
    moved = Change(Address(None, "key-a"), None, RecordDecl(("org",)))
    found = replayed(moved, change(Address("gpt-4"), slots, hourly(5)))
    assert not found.findings
    assert found.notes == [
        "1 change of parents left out: usage does not say whose calls a parent's are",
        "slots left out, because usage does not say how long calls held them: key-b/gpt-4 rpm, key-c/gpt-4 rpm",
        "no use is known of a limit by this name: key-b/gpt-4 tpm, key-c/gpt-4 tpm",
    ]


def test_the_parts_of_json_and_of_markdown() -> None:
    Path("limits.yaml").write_text(MANIFEST.format(10, 50))
    (found,) = json.loads(told("plan", "-f", "limits.yaml", "--replay", "24h", "-o", "json"))["replays"]
    assert (found["source"], found["nothing_replayed"]) == ("hourly usage", None)
    assert found["findings"][0]["limit"] == {"name": "rpm", "text": "10/hour", "shadow": False}
    assert found["refused_after"] == found["findings"][0]["refused_after"]
    assert "replays" not in json.loads(told("plan", "-f", "limits.yaml", "-o", "json"))
    document = told("plan", "-f", "limits.yaml", "--replay", "24h", "-o", "markdown")
    assert "\n### Replay of `a`\n\nHourly usage from " in document
    assert "\n| `key-b` | `gpt-4` | `rpm 10/hour` | 45 | 0 | " in document


def test_many_rows_are_counted_in_text_and_in_markdown() -> None:
    rows = [Finding(f"key-{n:02}", "gpt-4", "rpm", "5/min", 10, 0, n, n) for n in range(1, 30)]
    span = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    found = Replayed("a", *span, calls=290, before=0, least=400, most=400, buckets=29, findings=rows)
    text = markdown([found], full=False)
    assert "| `key-29` | `gpt-4` | `rpm 5/min` | 10 | 0 | 29 | 290 % |" in text
    assert text.count("| `key-") == MOST_ROWS
    assert "… and 9 more rows." in text
    assert markdown([found], full=True).count("| `key-") == 29


@pytest.mark.parametrize(
    ("replay", "manifest", "problem"),
    [
        ("24x", MANIFEST, "--replay '24x': must be how long ago "),
        ("2200-01-01", MANIFEST, "--replay '2200-01-01': must be before now"),
    ],
    ids=["no time", "no past"],
)
def test_a_time_that_cannot_be_replayed_is_an_error(replay: str, manifest: str, problem: str) -> None:
    Path("other.yaml").write_text(manifest.format(100, 50))
    assert problem in failed("plan", "-f", "other.yaml", "--replay", replay)


@pytest.mark.parametrize(
    ("manifest", "store", "why", "notes"),
    [
        (MANIFEST.replace(": a\n", ": unknown\n"), URL, NOT_THERE, []),
        (MANIFEST, "sqlite:///missing.db", NOT_THERE, []),
        (MANIFEST.replace("entities: {{", f"entities: {{{{{UNUSED}, "), URL, NO_USE, [LONGER]),
    ],
    ids=["no namespace", "no file", "no usage"],
)
def test_a_plan_without_a_past_is_shown_and_says_that_nothing_could_be_replayed(
    manifest: str, store: str, why: str, notes: list[str]
) -> None:
    Path("other.yaml").write_text(manifest.format(100, 50))
    words = ("plan", "-f", "other.yaml", "--replay", "24h", "--store", store)
    head, _, rest = told(*words).partition("\nReplay of ")
    assert "Plan: " in head
    said = f"UTC:\nnothing could be replayed: {why}.\n{''.join(f'-  {note.capitalize()}' for note in notes)}"
    assert said in rest
    assert "Hash: sha256:" in rest
    (found,) = json.loads(told(*words, "-o", "json"))["replays"]
    assert (found["nothing_replayed"], found["notes"]) == (why, notes)
    assert (found["source"], found["buckets"], found["findings"]) == (None, 0, [])
    assert f" UTC: nothing could be replayed: {why}.\n" in told(*words, "-o", "markdown")
    assert not Path("missing.db").exists()
    assert CliRunner().invoke(main, ["limits", *words, "--exit-code"]).exit_code == 2


def test_a_stack_without_usage_says_who_counts_it(aws: str) -> None:
    with making("my-app"):
        (found,) = replays_of(Connection("my-app"), [Plan("default", (change(Address("gpt-4"), hourly(10)),))], "24h")
    assert (found.nothing, found.notes) == (NO_USE, [LONGER, COUNTED])


def test_a_plan_without_changes_has_nothing_to_try() -> None:
    plan = told("plan", "-f", "limits.yaml", "--replay", "24h")
    assert "-  The plan changes no limits and no switches: no call would be decided otherwise\n" in plan.replace(
        "\n   ", " "
    )


def test_a_replay_fits_a_terminal_of_60_columns() -> None:
    Path("limits.yaml").write_text(MANIFEST.format(10, 20))
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    code = "from zae_limiter_cli.main import main; main(['limits', 'plan', '-f', 'limits.yaml', '--replay', '24h'])"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=follower, stderr=subprocess.PIPE, env=environment, check=True
    )
    os.close(follower)
    shown = os.read(leader, 100_000).decode().replace("\r\n", "\n").partition("Replay of")[2].partition("Hash: ")[0]
    assert not done.stderr
    assert "key-b" in shown
    assert max(map(len, shown.splitlines())) <= 60


def test_switches_of_weaker_levels_hold_once_a_stronger_one_goes() -> None:
    with SyncRepository.sqlite("limits.db", "a") as repository:
        repository.set_resource_switches("gpt-4", disabled=True)
        repository.set_switches("key-a", "gpt-4", disabled=False)
        kept = LimitsAfter(repository, Plan("a"))
        assert [kept.bucket(each, "gpt-4").disabled for each in ("key-a", "key-b")] == [False, True]
        without = ResourceDecl({"rpm": hourly(5)})
        said = ResourceDecl({"rpm": hourly(5)}, disabled=False)
        after = LimitsAfter(repository, Plan("a", (Change(Address("gpt-4", "key-a"), said, without),)))
        assert after.bucket("key-a", "gpt-4").disabled


def test_limits_of_a_tier_come_before_those_of_the_resource() -> None:
    with SyncRepository.sqlite("limits.db", "a") as repository:
        repository.set_tier_limits("gold", [Limit.per_hour("rpm", 80)])
        for entity in ("key-a", "key-b"):
            repository.create_entity(entity, tier="gold")
        after = LimitsAfter(
            repository, Plan("a", (change(Address("gpt-4"), hourly(10)), change(Address("gpt-4", "key-a"))))
        )
        found = {each: after.bucket(each, "gpt-4").limits for each in ("key-a", "key-b", "key-c")}
        gold, other = (Limit.per_hour("rpm", 80),), (Limit.per_hour("rpm", 10),)
        assert found == {"key-a": gold, "key-b": gold, "key-c": other}


def test_entities_and_a_filter_narrow_the_replay_too() -> None:
    Path("limits.yaml").write_text(MANIFEST.format(10, 20))
    words = ("plan", "-f", "limits.yaml", "--replay", "24h")
    one = told(*words, "-e", "key-b").partition("Replay of")[2]
    assert "45 calls on 1 bucket that get other limits" in one
    assert "key-b" in one
    assert "key-a" not in one
    assert "107 calls on 3 buckets" in told(*words, "-e", "key-b", "-e", "key-a", "-e", "key-c")
    of_resource = told(*words, "--filter", "resource gpt-4").partition("Replay of")[2]
    assert "key-b" in of_resource
    own = told(*words, "--filter", "key-a/gpt-4").partition("Replay of")[2]
    assert "60 calls on 1 bucket" in own
    (found,) = json.loads(told(*words, "-e", "key-b", "-o", "json"))["replays"]
    assert {each["entity_id"] for each in found["findings"]} == {"key-b"}


def test_a_range_that_says_nothing_is_left_out_and_a_trace_is_named() -> None:
    Path("limits.yaml").write_text(MANIFEST.replace("refill_period: 3600", "refill_period: 60").format(100, 5))
    found = told("plan", "-f", "limits.yaml", "--replay", "24h", "-e", "key-a").partition("Replay of")[2]
    assert "60 calls on 1 bucket that get other limits: 10 were refused; how many would be is not known" in found
    (row,) = (line for line in found.splitlines() if line.startswith("  key-a"))
    assert row.split()[-4:] == ["60", "10", "unknown", "-"]
    assert "%" not in found
    assert "`zae-limiter namespace trace a --share 1`" in " ".join(found.split())
    words = ("plan", "-f", "limits.yaml", "--replay", "24h")
    (plain,) = json.loads(told(*words, "-o", "json"))["replays"]
    assert plain["findings"][0]["refused_after"].keys() == {"at_least", "at_most"}
