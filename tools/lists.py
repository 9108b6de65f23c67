"""Write the lists of the docs that follow from the code: the commands at the top, and the methods.

`just lists` writes them, a test of this folder compares them. What a row says stands at the command or in the first
sentence of the method's docstring, and nowhere else.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from zae_limiter_cli.main import main as program

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
BLOCK: Final = re.compile(r"(<!-- (overview|methods): ([\w, -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with its lists as the code has them."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]](found[3].split(', '))}\n{found[4]}", page)


def overview(_: Sequence[str]) -> str:
    """Return a row for each command and group at the top: its name, and its help."""
    context = click.Context(program)
    found = ((name, program.get_command(context, name)) for name in program.list_commands(context))
    return _table("command", [(name, each.get_short_help_str(200)) for name, each in found if each])


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
    "methods": methods,
}


def _table(what: str, rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join([f"| {what} | |", "|---|---|", *(f"| `{name}` | {told} |" for name, told in rows)])


def _defined_in(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and not value.__name__.startswith("_")


def _first_sentence(method: object) -> str:
    paragraph = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    for path in (DOCS / "cli.md", DOCS / "core.md"):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
