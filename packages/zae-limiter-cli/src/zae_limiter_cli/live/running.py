"""The commands of `zae-limiter` that the live views run, each in a process of its own.

So what an operator learns there works in a script, what a command refuses is refused there, and each change is audited
as that of the command is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from .rows import Place, Row

SECONDS: Final = 60
_PROGRAM: Final = "import json, sys; from zae_limiter_cli.main import main; main(json.load(sys.stdin))"
CHANGES: Final[frozenset[str]] = frozenset(("lift", "disable", "enable"))


class _Words(NamedTuple):
    """The words of a command, and the options behind the place."""

    words: Sequence[str]
    options: Sequence[str] = ()


COMMANDS: Final[Mapping[str, _Words]] = {
    "why": _Words(["why"]),
    "usage": _Words(["usage", "list"], ["--total", "--since", "24h"]),
    "changes": _Words(["audit", "list"], ["--since", "24h"]),
    "lift": _Words(["lift"], ["--by", "2", "--for", "1h"]),
    "disable": _Words(["disable"], ["--yes"]),
    "enable": _Words(["enable"]),
}


def command_of(what: str, place: Place, options: Sequence[str]) -> list[str]:
    """Return the words behind `zae-limiter` that do something with an entity on a resource; ``options`` name the
    stack.
    """
    words, more = COMMANDS[what]
    if what == "changes":
        return [*words, *more, *options, "--entity", place.entity_id]
    if what == "usage":
        return [*words, *more, *options, "--entity", place.entity_id, "-r", place.resource]
    return [*words, "-r", place.resource, *more, *options, "--", place.entity_id]


def change_of(what: str, row: Row, options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what to know before a change of a row, in sentences, and the words of the command."""
    words, told = command_of(what, row.place, options), list[str]()
    if what != "lift":
        return told, words
    if row.blocked_by:
        told.append(f"Most refusals of {row.place.entity_id} come from {row.blocked_by}, which this does not change.")
    return told, words


def run(words: Sequence[str], width: int, seconds: int = SECONDS) -> str:
    """Return what a command prints, errors too."""
    # -P: without click.py of the current folder. Words on stdin: every user sees the arguments of a process
    program = [sys.executable, "-P", "-c", _PROGRAM]
    environment = {**os.environ, "COLUMNS": str(width), "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            program,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            check=False,
            input=json.dumps(words),
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds} s"
    return (done.stdout + done.stderr).rstrip()
