"""Write the page of the command line: each command's own help, as click has it."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Final

import click

_OF_ALL: Final = ("--debug", "-h, --help", "--help")  # said once, at the top


def commands_page() -> str:
    """Return the reference of every command of ``zae-limiter``, with its arguments and options."""
    from zae_limiter_cli.main import main

    parts = [
        "# Commands",
        "What `zae-limiter COMMAND --help` says. [The command line](../cli.md) explains what they share.",
    ]
    parts += [part for path, command in _walk("zae-limiter", main) for part in _section(path, command)]
    return "\n\n".join(parts) + "\n"


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _walk(f"{path} {name}", found)


def _section(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"{'#' * min(1 + len(path.split()), 4)} {path}"
    if command.help:
        yield cleandoc(command.help).replace("\b\n", "")
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    from zae_limiter_cli.help_page import in_order

    parameters = [each for part in in_order(command, context) for each in part]
    found = [row for parameter in parameters if (row := parameter.get_help_record(context))]
    rows = [row for row in found if path == "zae-limiter" or row[0] not in _OF_ALL]
    if rows:
        yield "\n".join(["| option | what it does |", "|---|---|", *(_row(names, text) for names, text in rows)])


def _row(names: str, text: str) -> str:
    return f"| <code>{_cell(names)}</code> | {_cell(text)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
