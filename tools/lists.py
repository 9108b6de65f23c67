"""Write the lists of the docs that follow from the code: the commands, with their options or without, and the methods.

`just lists` writes them, a test of this folder compares them. What a row says stands at the command or in the first
sentence of the method's docstring, and nowhere else.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from zae_limiter_cli.main import main as program

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
BLOCK: Final = re.compile(r"(<!-- (overview|commands|methods): ([\w, ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
OF_ALL: Final = ("name", "region", "profile", "endpoint_url", "store", "timeout", "namespace", "output")
TOLD_ONCE: Final = {*OF_ALL, "principal", "yes", "debug", "help"}


def written(page: str) -> str:
    """Return the page with its lists as the code has them."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]](found[3].split(', '))}\n{found[4]}", page)


def commands(names: Sequence[str]) -> str:
    """Return a row for each of these commands, or for each command of these groups: how it is called, and its help."""
    context = click.Context(program)
    rows = [row for name in names for row in _rows(program.get_command(context, name))]
    return _table("command", rows)


def overview(names: Sequence[str]) -> str:
    """Return a row for each command of these groups: its name, and its help."""
    context = click.Context(program)
    rows = [(" ".join(words), told) for name in names for words, told in _named(program.get_command(context, name))]
    return _table("command", rows)


def methods(modules: Sequence[str]) -> str:
    """Return a row for each public method of the classes of these modules of `aio`: the first sentence about it."""
    found = (import_module(f"zae_limiter.aio.{each}") for each in modules)
    classes = (each for module in found for each in vars(module).values() if _defined_in(each, module.__name__))
    rows = [
        (name, _first_sentence(method))
        for each in classes
        for name, method in vars(each).items()
        if inspect.isfunction(method) and not name.startswith("_")
    ]
    return _table("method", rows)


TABLES: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "overview": overview,
    "commands": commands,
    "methods": methods,
}


def _table(what: str, rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join([f"| {what} | |", "|---|---|", *(f"| `{name}` | {told} |" for name, told in rows)])


def _rows(command: click.Command | None, *group: str) -> Iterator[tuple[str, str]]:
    assert command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _rows(command.get_command(context, name), str(command.name))
    else:
        yield " ".join((*group, *_words(command))), command.get_short_help_str(200)


def _named(command: click.Command | None) -> Iterator[tuple[tuple[str, ...], str]]:
    assert isinstance(command, click.Group)
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found
        yield (str(command.name), name), found.get_short_help_str(200)


def _words(command: click.Command) -> Iterator[str]:
    yield str(command.name)
    context = click.Context(command)
    for each in command.params:
        if isinstance(each, click.Argument):
            yield each.make_metavar(context)
        elif each.name not in TOLD_ONCE:
            yield _option(each, context).replace("|", "\\|")


def _option(option: click.Parameter, context: click.Context) -> str:
    name = "/".join([min(option.opts, key=len), *option.secondary_opts])
    flag = isinstance(option, click.Option) and option.is_flag
    word = name if flag else f"{name} {option.make_metavar(context)}"
    return word if option.required else f"[{word}]"


def _defined_in(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and not value.__name__.startswith("_")


def _first_sentence(method: object) -> str:
    paragraph = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    for path in (DOCS / "cli.md", DOCS / "core.md"):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
