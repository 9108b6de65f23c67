"""The group `zae-limiter local`."""

import sys

import click

from ...errors import CommandError, debug_option
from ...lazy import CommandsOfModules


@click.group(cls=CommandsOfModules, modules=("up", "running"))
@debug_option
def local() -> None:
    """Run an AWS with a stack on this machine: table, stream and the Lambdas, which really run.

    It needs no Docker and no account.
    """
    if sys.platform == "win32":
        raise CommandError("`local` runs on Linux and macOS; on Windows use it in WSL")
