"""The group `zae-limiter local`, and the list of its commands."""

import sys
from collections.abc import Mapping
from typing import Final

import click

from ...errors import CommandError, debug_option
from ...lazy import Entry, LazyCommands

ENTRIES: Final[Mapping[str, Entry]] = {
    "up": Entry("local.up:up", "Bring a local stack up."),
    "down": Entry("local.running:down", "End a local stack."),
    "status": Entry("local.running:status", "What a local stack is doing."),
    "logs": Entry("local.running:logs", "What the Lambdas have logged."),
    "env": Entry("local.running:env", "Print what a shell has to export."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@debug_option
def local() -> None:
    """An AWS on this machine with a stack in it: table, stream and both Lambdas, which really run.

    It needs no Docker and no account.
    """
    if sys.platform == "win32":
        raise CommandError("`local` runs on Linux and macOS; on Windows use it in WSL")
