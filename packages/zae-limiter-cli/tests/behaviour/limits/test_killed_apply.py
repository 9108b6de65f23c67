"""`limits apply` and `plan --out` that a `kill -9` ends at any line of their own code, and several of them at once.

Before a Lambda the command dies alone. With limits in a file it is the provisioner, too, and dies in its lines as well.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from support.cli.killed import KILLED, Commands, Line, commands
from support.cli.limits_stack import Stack
from support.provisioner.provisions import World, limits, manifest, rpm
from zae_limiter import SyncRepository
from zae_limiter.stores import SyncSQLiteStore
from zae_limiter_manifest import LimitsManifest, Request, StateReport, dump
from zae_limiter_provisioner.in_process import perform

EVERY_LINE = os.environ.get("ZAEL_TEST_EVERY_LINE") == "1"  # some minutes; else so many of them:
SAMPLE = 6
COMMAND = ("zae_limiter_cli/commands/limits/apply", "zae_limiter_cli/limits/")
PLANNING = ("zae_limiter_cli/commands/limits/plan", "zae_limiter_cli/limits/saved", "zae_limiter_cli/results")
PROVISIONER = "zae_limiter_provisioner/"
ROUNDS = 10 if EVERY_LINE else 2
WAYS_OUT = ("wait (--lock-timeout)", "somebody has applied since")

ALPHA, BETA = "tenant-alpha", "tenant-beta"
BY_HAND = {"by-hand": 7, "gpt-5": 55}  # which no manifest names at first; `gpt-5` is adopted
BEFORE = {
    "system": limits(100),
    "resources": {"gpt-4": limits(50)},
    "entities": {"user-1": {"resources": {"gpt-4": limits(20), "_default_": limits(10)}}},
}
AFTER = {
    "system": limits(90),
    "resources": {"gpt-5": limits(5)},
    "entities": {
        "team": {},
        "user-1": {"resources": {"gpt-4": limits(21)}},
        "user-2": {"parent": "team", "cascade": True, "resources": {"gpt-4": limits(2)}},
    },
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGKILL")


class Tenants(Protocol):
    """A place with both namespaces."""

    @property
    def options(self) -> Sequence[str]:
        """Those that name it on the command line."""
        ...

    def restore(self) -> None:
        """Make it what it was before any apply was killed."""
        ...

    def answer(self, action: Any, namespace: str) -> Any:
        """What the planner says."""
        ...


class OfStack:
    """Those of a stack, whose Lambda outlives the command."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.options = ("-n", "my-app", "--endpoint-url", stack.url)

    def restore(self) -> None:
        self.stack.world = World()
        for namespace in (ALPHA, BETA):
            _make_by_hand(self.stack.world.repository(namespace))
            self.stack.world.apply(manifest(namespace, **BEFORE))

    def answer(self, action: Any, namespace: str) -> Any:
        return self.stack.world.ask(action, namespace)


class OfFile:
    """Those of a file, whose provisioner is the command itself."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "limits.db"
        self.kept = directory / "kept.db"
        self.options = ("--store", f"sqlite:///{self.path}")
        for namespace in (ALPHA, BETA):
            with closing(SyncSQLiteStore(self.kept)) as store:
                _make_by_hand(SyncRepository.sqlite(self.kept, namespace=namespace))
                assert perform(store, "kept", Request.of("apply", manifest(namespace, **BEFORE))).status == "applied"

    def restore(self) -> None:
        for ending in ("", "-wal", "-shm"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        shutil.copy(self.kept, self.path)

    def answer(self, action: Any, namespace: str) -> Any:
        with closing(SyncSQLiteStore(self.path)) as store:
            return perform(store, f"sqlite:///{self.path}", Request(action, namespace))


def _make_by_hand(repository: SyncRepository) -> None:
    with closing(repository):
        for resource, capacity in BY_HAND.items():
            repository.set_resource_defaults(resource, rpm(capacity))


@pytest.fixture
def of_stack(stack: Stack) -> OfStack:
    return OfStack(stack)


@pytest.fixture
def of_file(tmp_path: Path) -> OfFile:
    return OfFile(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with the manifests that are applied."""
    directory = tmp_path / "limits"
    directory.mkdir()
    for namespace in (ALPHA, BETA):
        (directory / f"{namespace}.yaml").write_text(dump(manifest(namespace, **AFTER)))
    return directory


@pytest.fixture
def shell(stack: Stack) -> Iterator[Commands]:
    with commands((*COMMAND, *PLANNING, PROVISIONER), os.environ) as shell:
        yield shell


def chosen(lines: Sequence[Line], *rooms: str) -> list[Line]:
    """Those of these rooms; some of them where the test is to be fast, the first and the last among them."""
    found = [line for line in lines if line.file.startswith(rooms)]
    if EVERY_LINE:
        return found
    return [found[at * (len(found) - 1) // (SAMPLE - 1)] for at in range(SAMPLE)]


def wanted(namespace: str, levels: Any, by_hand: Mapping[str, int]) -> LimitsManifest:
    """A manifest with what was made by hand beside."""
    beside = {resource: limits(capacity) for resource, capacity in by_hand.items()}
    return manifest(namespace, **{**levels, "resources": beside | levels["resources"]})


def state_of(tenants: Tenants, namespace: str) -> StateReport:
    state = tenants.answer("state", namespace).state
    assert isinstance(state, StateReport)
    return state


def live(tenants: Tenants, namespace: str) -> LimitsManifest:
    found = tenants.answer("export", namespace).manifest
    assert isinstance(found, LimitsManifest)
    return found


def is_whole(tenants: Tenants, namespace: str, levels: Any, by_hand: Mapping[str, int] = BY_HAND) -> bool:
    """Whether the namespace has just this, manages just this beside what was made by hand, and nobody is at it."""
    state, declared = state_of(tenants, namespace), manifest(namespace, **levels)
    said = (state.managed, state.applied_hash, state.lock)
    there = live(tenants, namespace) == wanted(namespace, levels, by_hand)
    return there and said == (declared.managed_set(), declared.canonical_hash(), None)


def entries_below(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if not path.name.startswith(("limits.db", "kept.db")))


@pytest.mark.long
@pytest.mark.slow
def test_a_command_before_a_lambda_killed_at_a_line_leaves_each_namespace_whole(
    of_stack: OfStack, shell: Commands, files: Path, tmp_path: Path
) -> None:
    apply = ["limits", *of_stack.options, "apply", "--yes", "-f", str(files)]
    of_stack.restore()
    ran = shell.run(apply).lines
    # which runs first after the answer for the first namespace
    between = [line for line in ran if line.file.endswith("/limits/provisioner.py")][-1]
    lines = [*chosen(ran, *COMMAND), between]
    there, died, outcomes = entries_below(tmp_path), 0, set()
    for line in lines:
        of_stack.restore()
        died += shell.run(apply, line).code == KILLED
        made = [is_whole(of_stack, namespace, AFTER) for namespace in (ALPHA, BETA)]
        left = [is_whole(of_stack, namespace, BEFORE) for namespace in (ALPHA, BETA)]
        assert [a != b for a, b in zip(made, left, strict=True)] == [True, True], line
        outcomes.add(tuple(made))
        assert shell.run(apply).code == 0, line
        assert all(is_whole(of_stack, namespace, AFTER) for namespace in (ALPHA, BETA)), line
        assert entries_below(tmp_path) == there, line
    assert died > 0.9 * len(lines)  # the watch, a thread, may be too late for its line
    assert outcomes == {(False, False), (True, False), (True, True)}


@pytest.mark.slow
def test_a_command_on_a_file_killed_at_a_line_is_finished_or_undone_by_the_next_once_its_lock_is_freed(
    of_file: OfFile, shell: Commands, files: Path, tmp_path: Path
) -> None:
    apply, undo = (
        ["limits", *of_file.options, "apply", "--yes", "--allow-deletes", "-f", str(each)]
        for each in (files, earlier(tmp_path))
    )
    of_file.restore()
    lines = chosen(shell.run(apply).lines, *COMMAND, PROVISIONER)
    there, died, locked = entries_below(tmp_path), 0, 0
    for number, line in enumerate(lines):
        of_file.restore()
        died += shell.run(apply, line).code == KILLED
        ways_on = [(undo, BEFORE), (apply, AFTER)] if number % 2 else [(apply, AFTER)]
        for command, levels in ways_on:
            by_hand = {namespace: not_adopted(of_file, namespace) for namespace in (ALPHA, BETA)}
            locked += end_of(shell, command)
            for namespace in (ALPHA, BETA):
                assert is_whole(of_file, namespace, levels, by_hand[namespace]), (line, namespace)
        assert entries_below(tmp_path) == there, line
    assert died > 0.9 * len(lines)
    assert locked


def earlier(directory: Path) -> Path:
    """A directory with the manifests that were applied before."""
    below = directory / "earlier"
    below.mkdir()
    for namespace in (ALPHA, BETA):
        (below / f"{namespace}.yaml").write_text(dump(manifest(namespace, **BEFORE)))
    return below


def not_adopted(tenants: Tenants, namespace: str) -> dict[str, int]:
    """What was made by hand and no apply has changed; of the rest, a manifest without it deletes it."""
    there = live(tenants, namespace).to_dict()["resources"]
    return {resource: capacity for resource, capacity in BY_HAND.items() if there.get(resource) == limits(capacity)}


def end_of(shell: Commands, command: Sequence[str]) -> int:
    """Run a command until it goes well; how often the lock of one that was killed had to be freed, as it said."""
    freed = 0
    while (ended := shell.run(command)).code:
        way_out = re.search(r"free the lock: zae-limiter (limits unlock .+)", ended.error)
        assert way_out, ended
        assert shell.run([*way_out[1].split(), "--yes"]).code == 0
        freed += 1
    return freed


@pytest.mark.long
@pytest.mark.slow
def test_a_saved_plan_is_never_torn_and_the_next_one_leaves_nothing_beside_it(
    of_stack: OfStack, shell: Commands, files: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    plan = ["limits", *of_stack.options, "plan", "-N", ALPHA, "-f", str(files), "--out", str(saved)]
    of_stack.restore()
    lines = chosen(shell.run(plan).lines, *PLANNING)
    there, old = entries_below(tmp_path), saved.read_bytes()
    for line in lines:
        assert shell.run(plan, line).code == KILLED, line
        assert saved.read_bytes() == old, line
    assert shell.run(plan).code == 0
    assert entries_below(tmp_path) == there
    apply = ["limits", *of_stack.options, "apply", "--yes", str(saved)]
    assert shell.run(apply).code == 0
    assert is_whole(of_stack, ALPHA, AFTER)


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("place", ["of_stack", "of_file"])
def test_of_two_operators_and_a_rollback_at_once_each_is_whole_or_refused_with_a_way_out(
    place: str, request: pytest.FixtureRequest, shell: Commands, tmp_path: Path
) -> None:
    tenants: Tenants = request.getfixturevalue(place)
    tenants.restore()
    first = tenants.answer("history", ALPHA).history[-1].serial
    operators = {name: {"resources": {"gpt-4": limits(capacity)}} for name, capacity in (("ann", 600), ("bob", 700))}
    command = ("limits", *tenants.options)
    at_once = [[*command, "rollback", "-N", ALPHA, str(first), "--yes", "--allow-deletes", "--principal", "eve"]]
    for name, levels in operators.items():
        (file := tmp_path / f"{name}.yaml").write_text(dump(manifest(ALPHA, **levels)))
        at_once.append([*command, "apply", "-f", str(file), "--yes", "--allow-deletes", "--principal", name])
    results = {"eve": BEFORE, **operators}
    for _ in range(ROUNDS):
        ended = dict(zip(("eve", *operators), shell.run_at_once(at_once), strict=True))
        for name, end in ended.items():
            assert end.code == 0 or any(way_out in end.error for way_out in WAYS_OUT), (name, end)
        last = next(each for each in tenants.answer("history", ALPHA).history if each.created + each.updated)
        assert ended[last.principal].code == 0
        assert is_whole(tenants, ALPHA, results[last.principal]), ended
