"""Commands in processes of their own, each of which may die at a line of its code as by SIGKILL.

Lives here: the processes, which are forked from one that has everything imported, and the lines that they run. Never:
a claim.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from types import FrameType
from typing import Any, NamedTuple

KILLED = -signal.SIGKILL
IMPORTED = (  # what a command imports when it runs
    "boto3",
    "zae_limiter.stores",
    "zae_limiter_cli.commands.limits.apply",
    "zae_limiter_cli.commands.groups",
    "zae_limiter_cli.commands.limits.plan",
    "zae_limiter_cli.limits.replay.run",
    "zae_limiter_cli.limits.rollout",
    "zae_limiter_cli.limits.saved",
    "zae_limiter_cli.main",
    "zae_limiter_provisioner.in_process",
)


class Line(NamedTuple):
    """A line of the code: its file, from the name of its package on, and its number."""

    file: str
    number: int


@dataclass(slots=True)
class Watcher:
    """What Python tells of the lines that run in ``rooms``: each is kept once, and the process dies at ``dies_at``."""

    rooms: tuple[str, ...]
    dies_at: Line | None
    seen: dict[Line, None] = field(default_factory=dict)

    def on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self.on_line if _file_of(frame).startswith(self.rooms) else None

    def on_line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            line = Line(_file_of(frame), frame.f_lineno)
            if line == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen[line] = None
        return self.on_line


class Ended(NamedTuple):
    """A command that has ended: its exit code, ``KILLED`` if it died, what it said on standard error, its lines."""

    code: int
    error: str
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Commands:
    """The process from which those of the commands are forked."""

    process: "subprocess.Popen[str]"

    def run(self, args: Sequence[str], dies_at: Line | None = None) -> Ended:
        """Run a command to its end."""
        (ended,) = self.run_at_once([args], dies_at)
        return ended

    def run_at_once(self, commands: Sequence[Sequence[str]], dies_at: Line | None = None) -> list[Ended]:
        """Run commands beside each other to the end of all."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([commands, dies_at]) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        return [Ended(code, error, [Line(*each) for each in lines]) for code, error, lines in told]


@contextmanager
def commands(rooms: Sequence[str], environ: Mapping[str, str]) -> Iterator[Commands]:
    """Commands whose lines are watched in these files and folders, such as `zae_limiter_cli/limits`."""
    path = os.pathsep.join(each for each in sys.path if each)
    process = subprocess.Popen(
        [sys.executable, "-m", "support.cli.killed", *rooms],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environ, "PYTHONPATH": path},
    )
    with process:
        yield Commands(process)
        assert process.stdin
        process.stdin.close()


def serve(rooms: Sequence[str]) -> None:
    """Read commands and where they die, run each in a fork, write what became of them, and so on."""
    for module in IMPORTED:
        importlib.import_module(module)
    while asked := sys.stdin.readline():
        commands, dies_at = json.loads(asked)
        begun = [_begin(args, Watcher(tuple(rooms), dies_at and Line(*dies_at))) for args in commands]
        print(json.dumps([_end(*each) for each in begun]), flush=True)


def _begin(args: list[str], watcher: Watcher) -> tuple[int, int]:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _perform(args, watcher, tell)
    os.close(tell)
    return child, told


def _end(child: int, told: int) -> Ended:
    with os.fdopen(told) as pipe:
        error, lines = json.loads(pipe.read() or '["", []]')
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), error, lines)


def _perform(args: list[str], watcher: Watcher, tell: int) -> None:
    from zae_limiter_cli.main import main

    sys.stdin, sys.stdout, sys.stderr = StringIO(), StringIO(), (error := StringIO())
    code: Any = 1
    threading.settrace(watcher.on_call)  # of those that it starts
    sys.settrace(watcher.on_call)
    try:
        main(args)
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.settrace(None)
        with os.fdopen(tell, "w") as pipe:
            json.dump([error.getvalue(), [*watcher.seen]], pipe)
        os._exit(code)


def _file_of(frame: FrameType) -> str:
    _, mark, below = frame.f_code.co_filename.rpartition("/zae_limiter")
    return f"{mark[1:]}{below}"


if __name__ == "__main__":
    serve(sys.argv[1:])
