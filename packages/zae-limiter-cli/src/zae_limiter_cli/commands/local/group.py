"""The group `zae-limiter local`, and the list of its commands."""

import sys
from collections.abc import Mapping
from typing import Final

import click

from ...errors import CommandError, debug_option
from ...lazy import Entry, LazyCommands

ENTRIES: Final[Mapping[str, Entry]] = {
    "up": Entry("local.up:up", "Start a local stack."),
    "down": Entry("local.running:down", "Stop a local stack."),
    "status": Entry("local.running:status", "Show the status of a local stack."),
    "logs": Entry("local.running:logs", "Show the logs of the Lambdas."),
    "env": Entry("local.running:env", "Print the variables for a shell to export."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@debug_option
def local() -> None:
    """Run an AWS with a stack on this machine: table, stream and the Lambdas, which really run.

    It needs no Docker and no account.
    """
    if sys.platform == "win32":
        raise CommandError("`local` runs on Linux and macOS; on Windows use it in WSL")
