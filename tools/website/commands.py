"""Write the pages of the command line: each command's own help, as click has it."""

from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Final

import click

_OF_ALL: Final = ("--debug", "-h, --help", "--help")  # said once, at the top


_PAGES: Final[Mapping[str, tuple[str, str]]] = {  # title, and the commands, with all below them
    "commands-limits": ("limits", "limits"),
    "commands-applies": (
        "limits: applies",
        "limits status, limits stop, limits unlock, limits rollback, limits shares",
    ),
    "commands-levels": ("system, resource, tier", "system, resource, tier"),
    "commands-entities": ("entity", "entity"),
    "commands-namespaces": ("namespace, delegation", "namespace, delegation"),
    "commands-operate": ("why, top, disable, lift", "why, top, console, disable, enable, lift, switch"),
    "commands-usage": ("usage", "usage"),
    "commands-buckets": ("bucket, audit", "bucket, audit"),
    "commands-local": ("local, demo, copy, doctor", "local, demo, copy, doctor"),
    "commands-deploy": ("deploy", "deploy"),
    "commands-stack": ("the stack", "status, list, upgrade, delete, cfn-template, lambda-export"),
}
_PAGE_OF: Final = {f"zae-limiter {name}": page for page, (_, names) in _PAGES.items() for name in names.split(", ")}


def commands_pages() -> dict[str, str]:
    """Return the pages of every command of ``zae-limiter``, with its arguments and options, by path below ``docs``."""
    from zae_limiter_cli.main import main

    parts: dict[str, list[str]] = {page: [f"# Commands: {title}"] for page, (title, _) in _PAGES.items()}
    links = [f"- [{title}]({page}.md)" for page, (title, _) in _PAGES.items()]
    about = "What `zae-limiter COMMAND --help` says. [The command line](../cli.md) explains what they share."
    parts["commands"] = ["# Commands", about, "\n".join(links)]
    for path, command in _walk("zae-limiter", main):
        parts[page_of(path)] += _section(path, command)
    return {f"reference/{page}.md": "\n\n".join(each) + "\n" for page, each in parts.items()}


def page_of(path: str) -> str:
    """Return the page of a command; ``path`` begins with ``zae-limiter``."""
    words = path.split()
    paths = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((_PAGE_OF[each] for each in paths if each in _PAGE_OF), "commands")


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
