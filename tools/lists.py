"""Write the list of the docs that follows from the code: the commands at the top.

`just lists` writes it, a test of this folder compares it. What a row says stands at the command, and nowhere else.
"""

import re
from pathlib import Path
from typing import Final

import click

from website.commands import page_of
from zae_limiter_cli.main import main as program

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
BLOCK: Final = re.compile(r"(<!-- overview -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with its list as the code has it."""
    return BLOCK.sub(lambda found: f"{found[1]}{overview()}\n{found[2]}", page)


def overview() -> str:
    """Return a row for each command and group at the top: its name, which links to its reference, and its help."""
    context = click.Context(program)
    found = ((name, program.get_command(context, name)) for name in program.list_commands(context))
    rows = [f"| [`{name}`]({_reference(name)}) | {each.get_short_help_str(200)} |" for name, each in found if each]
    return "\n".join(["| command | |", "|---|---|", *rows])


def _reference(name: str) -> str:
    return f"reference/{page_of(f'zae-limiter {name}')}.md#zae-limiter-{name}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
