"""Define groups that import a command only when it runs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from .completion import complete_names
from .errors import Commands


class Entry(NamedTuple):
    """The place of a command, as ``module:name`` within `commands`, and its short help, which is written only here."""

    where: str
    help: str


class LazyCommands(Commands):
    """A group whose own ``--help`` imports none of its commands; they are listed in the order of ``entries``."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names, in the order of the entries."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Return the command, imported now; ``None`` where there is no such entry."""
        if cmd_name not in self.entries:
            return None
        module, name = self.entries[cmd_name].where.split(":")
        command: click.Command = getattr(import_module(f".commands.{module}", __package__), name)
        command.short_help = self.entries[cmd_name].help
        complete_names(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  as above
        """Write the names with the help of their entries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])
