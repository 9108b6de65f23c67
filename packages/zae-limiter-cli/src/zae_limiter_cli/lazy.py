"""Define groups that import a command only when it runs."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from .completion import complete_names
from .errors import Commands
from .help_page import arrange


class Entry(NamedTuple):
    """The place of a command, as ``module:name`` within `commands`, and its short help, which is written only here."""

    where: str
    help: str


class LazyCommands(Commands):
    """A group whose own ``--help`` imports none of its commands; they are listed by ``sections``, in their order."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Entry]], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.sections = sections
        self.entries = {name: entry for entries in sections.values() for name, entry in entries.items()}

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
        _prepare(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  as above
        """Write the names with the help of their entries, section by section."""
        width = max(map(len, self.entries))
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])


class CommandsOfModules(Commands):
    """A group of the commands that ``modules`` define, in the order of these and of their lines. They are named as
    they are found from the group's own module.
    """

    def __init__(self, *args: Any, modules: Sequence[str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names, in that order."""
        return list(self._imported())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Return the command; ``None`` where no module defines one of that name."""
        return self._imported().get(cmd_name)

    def _imported(self) -> Mapping[str, click.Command]:
        if not self.commands:
            package = self.callback.__module__.rpartition(".")[0]
            for module in (import_module(f"{package}.{each}") for each in self.modules):
                for command in vars(module).values():
                    if isinstance(command, click.Command) and command.callback.__module__ == module.__name__:
                        _prepare(command)
                        self.add_command(command)
        return self.commands


def _prepare(command: click.Command) -> None:
    complete_names(command)
    if not isinstance(command, click.Group):
        arrange(command)
