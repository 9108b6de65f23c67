"""How far an apply is: beside the command that waits for it, and by `limits status --follow`; and `limits stop`."""

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.limits_stack import PLANNER, Stack
from support.provisioner.provisions import entities, manifest
from zae_limiter.maintenance import ProvisionerLock, ProvisionerState, SyncMaintenance, note_progress, run
from zae_limiter.operations.values import Transact
from zae_limiter.values.provisioner import ApplyProgress
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.limits import watching
from zae_limiter_cli.limits.watching import ProgressDisplay, follow, progress_line
from zae_limiter_cli.terminal import Terminal
from zae_limiter_manifest import Answer, LockReport, ManagedSet, Plan, ProgressReport, Request, StateReport, dump
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.planning import iso_time
from zae_limiter_provisioner.table import Table

LOCK = LockReport("0123", "cli (ann)", "2030-01-01T00:00:00Z")
MANY = manifest(entities=entities(1_000))


def state(done: int | None = None, *, stop: str | None = None, lock: LockReport | None = LOCK) -> StateReport:
    progress = None if done is None else ProgressReport(done, 5_001, done / 250)
    return StateReport(ManagedSet(), 7, lock=lock, progress=progress, stop=stop)


def test_a_line_has_what_is_done_the_rate_and_the_time_left() -> None:
    assert progress_line("a", state(1_000)) == "a: 1,000 of 5,001 changes, 250/s, 17 s left"
    assert progress_line("a", state(0)) == "a: 0 of 5,001 changes, 0/s"
    assert progress_line("a", state()) == "a: the apply has begun"
    assert progress_line("a", state(250, stop="bob")).endswith("20 s left; bob has asked it to stop")


def test_a_terminal_draws_one_line_again_and_cuts_it_to_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    display = ProgressDisplay(Terminal(stream, live=True, colour=False, symbols=True))
    for done in (200, 200, 400):
        display.show(progress_line("a", state(done)))
    first, second = "200 of 5,001 changes, 250/s, ", "400 of 5,001 changes, 250/s, "
    assert stream.getvalue() == f"\r\x1b[2K{first}\n\x1b[1A\r\x1b[2K{second}\n"
    assert display.seconds == 1


def test_a_terminal_of_60_columns_has_the_whole_line_and_its_name_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for name, drawn in (("tenant-alpha", "tenant-alpha: "), ("a-tenant-with-a-long-name", "")):
        stream = io.StringIO()
        display = ProgressDisplay(Terminal(stream, live=True, colour=False, symbols=True))
        display.show(progress_line(name, state(4_000)))
        assert stream.getvalue() == f"\r\x1b[2K{drawn}4,000 of 5,001 changes, 250/s, 4.1 s left\n"


def test_without_a_terminal_there_is_a_plain_line_for_each_news() -> None:
    stream = io.StringIO()
    display = ProgressDisplay(Terminal(stream, live=False, colour=False, symbols=True))
    for done in (200, 200, 400):
        display.show(progress_line("a", state(done)))
    assert [line[:25] for line in stream.getvalue().splitlines()] == [
        "a: 200 of 5,001 changes, ",
        "a: 400 of 5,001 changes, ",
    ]
    assert display.seconds == 10


def following(*states: StateReport) -> tuple[list[Answer], list[float]]:
    answers = [Answer("planned", Plan("a"), state=each) for each in states]
    return answers, []


def test_watch_follows_an_apply_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    answers, slept = following(state(), state(200), state(400), state(lock=None))
    asked: list[Request] = []

    def ask(request: Request) -> Answer:
        asked.append(request)
        return answers.pop(0)

    assert follow(ask, "a", sleep=slept.append) == state(lock=None)
    assert capsys.readouterr().err.splitlines() == [
        "a: cli (ann) holds the lock until 2030-01-01T00:00:00Z at most",
        "a: the apply has begun",
        "a: 200 of 5,001 changes, 250/s, 20 s left",
        "a: 400 of 5,001 changes, 250/s, 19 s left",
    ]
    assert (slept, {request.action for request in asked}) == ([10.0] * 3, {"watch"})


def test_watch_ends_at_a_lock_that_has_expired_because_its_apply_was_killed() -> None:
    answers, _ = following(state(200))
    with pytest.raises(
        CommandError, match=r"a: the lock of cli \(ann\) expired at 2030-01-01T00:00:00Z: its apply was"
    ):
        follow(lambda _: answers.pop(), "a", now=lambda: "2030-01-01T00:00:00Z")


def test_watch_without_an_apply_says_so_and_a_namespace_that_is_missing_is_an_error(stack: Stack) -> None:
    assert stack.error("status", "--follow", "-N", "tenant-alpha").startswith(
        "tenant-alpha: there is no namespace tenant-alpha"
    )
    stack.ok("apply", "--yes", "-f", stack.write(dump(manifest(entities=entities(1)))))
    told = stack.ok("status", "--follow", "-N", "tenant-alpha")
    assert "  serial   2, last applied " in told
    assert stack.error("stop", "-N", "tenant-alpha") == "tenant-alpha: no apply is under way\n"


class Slow:
    """An apply whose batches take two seconds each, and which waits after the second for ``meanwhile``."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.store = stack.world.store()
        self.store.fault = self.fault
        self.written = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def fault(self, operation: object) -> None:
        if isinstance(operation, Transact):
            self.written += 1
            if self.written % 8 == 1:
                self.stack.world.clock.advance(2)
            if self.written == 18:  # the registration, two batches of eight
                self.meanwhile()

    def perform(self, table: Table, request: Request, context: object = None) -> Answer:
        chosen = self.stack.world.table(self.store) if request.action == "apply" else table
        return perform(chosen, request, context)


@pytest.fixture
def slow(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Slow:
    monkeypatch.setattr(watching, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(watching, "SECONDS_BETWEEN_LINES", 0.01)
    slow = Slow(stack)
    monkeypatch.setattr(handler, "perform", slow.perform)
    return slow


def test_the_command_that_waits_shows_the_progress(stack: Stack, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()

    class Display(ProgressDisplay):
        def show(self, line: str) -> None:
            super().show(line)
            if "400 of" in line:
                seen.set()

    monkeypatch.setattr(watching, "ProgressDisplay", Display)
    slow.meanwhile = lambda: seen.wait(60)
    done = stack.run("apply", "--yes", "-f", stack.write(dump(MANY)))
    assert done.exit_code == 0, done.output
    assert "tenant-alpha: 400 of 1,000 changes, 100/s, 6 s left\n" in done.stderr
    assert done.stdout.endswith("Applied: 1,000 created, 0 updated, 0 deleted.\n")


@pytest.mark.long
def test_a_look_that_fails_ends_no_apply(stack: Stack, slow: Slow) -> None:
    looked = threading.Event()
    stack.refused[PLANNER] = 500
    stack.before = lambda event: looked.set() if event["action"] == "watch" else None
    slow.meanwhile = lambda: looked.wait(60)
    done = stack.run("apply", "--yes", "-f", stack.write(dump(MANY)))
    assert looked.is_set()
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.long
def test_a_plan_during_an_apply_says_whose_and_since_when_and_a_saved_one_forgets_it(
    stack: Stack, slow: Slow, tmp_path: Path
) -> None:
    told: list[str] = []
    path, saved = stack.write(dump(MANY)), str(tmp_path / "saved.json")
    plan = ["plan", "-f", path]

    def look() -> None:
        told.extend(stack.ok(*plan, *form) for form in ([], ["-o", "json"], ["-o", "markdown"], ["--out", saved]))
        told.append(stack.ok("diff", "-f", path))

    slow.meanwhile = look
    began = iso_time(stack.world.clock.now_ms() + 2_000)  # for the registration
    assert stack.run("apply", "--yes", "--quiet", "-f", path, "--principal", "ann").exit_code == 0
    text, document, markdown, _, drift = told
    (under_way,) = (each["under_way"] for each in json.loads(document)["namespaces"])
    assert (under_way["owner"], under_way["began_at"]) == ("cli (ann)", began.replace("Z", ".000Z"))
    until = under_way["expires_at"].replace(".000Z", "Z")
    line = f"Another apply is under way since {began}, by cli (ann), until {until} at most"
    for shown in (text, drift):
        assert shown.count(f"{line}: this may be out of date.\n") == 1
    assert line.replace("cli (ann)", "`cli (ann)`") in markdown
    assert "under_way" not in Path(saved).read_text()
    assert "under way" not in stack.ok(*plan)


@pytest.mark.long
def test_a_stop_by_somebody_else_ends_the_command_with_the_rest_pending(stack: Stack, slow: Slow) -> None:
    slow.meanwhile = lambda: stack.world.ask("stop", principal="bob")
    done = stack.run("apply", "--yes", "--quiet", "-f", stack.write(dump(MANY)))
    assert (done.exit_code, done.stderr) == (1, "")
    assert "! bob has stopped the apply: 400 changes are left, and another apply makes them\n" in done.stdout
    assert done.stdout.endswith("Applied: 600 created, 0 updated, 0 deleted. 1 failed. 400 left to do.\n")
    assert stack.actions() == ["plan", "apply"]  # and no further invocation for the rest
    again = stack.ok("apply", "--yes", "--quiet", "-f", stack.write(dump(MANY)))
    assert again.endswith("Applied: 400 created, 0 updated, 0 deleted.\n")


def test_stop_says_whom_it_has_asked_and_state_shows_it(stack: Stack) -> None:
    repository = stack.world.repository()
    lock = ProvisionerLock("0123", "cli (ann)", 1_893_456_000_000)
    SyncMaintenance(repository).put_provisioner_state(ProvisionerState(lock=lock), expected_serial=0)
    progress = ApplyProgress(400, 1_000, 0, 4_000)
    run(repository, note_progress(repository.namespace_state, progress, expected_serial=1))
    told = stack.ok("stop", "-N", "tenant-alpha", "--principal", "bob")
    assert told.startswith("tenant-alpha: asked cli (ann) to stop at the next checkpoint; ")
    assert told.endswith(
        "`zae-limiter limits status --follow --name my-app --namespace tenant-alpha` shows when it has\n"
    )
    shown = stack.ok("status", "-N", "tenant-alpha")
    assert "  progress 400 of 1,000 changes\n  stop     asked for by bob\n" in shown
    for command in (["status"], ["stop", "--principal", "bob"]):
        document = json.loads(stack.ok(*command, "-N", "tenant-alpha", "-o", "json"))
        assert document["kind"] == "state"
        state = document["state"]
        assert (state["progress"], state["stop"]) == ({"done": 400, "total": 1_000, "seconds": 4.0}, "bob")
