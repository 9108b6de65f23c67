"""Guess which command is meant by a name that there is none of."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

import click

MOST: Final = 3
GUESSED: Final[Mapping[str, str]] = {  # words that people try, and the command line that does it
    "set-parent": "entity update ID --parent PARENT",
    "top-up": "bucket credit ID --resource NAME --tokens LIMIT:AMOUNT",
    "help": "--help",
}
SYNONYMS: Final[Mapping[str, str]] = {"ls": "list", "rm": "delete", "remove": "delete"}


def meant(context: click.Context, word: str) -> str | None:
    """Return the commands that a mistyped word may mean, for an error; ``None`` if nothing comes near.

    A word that people try in any group has its command line; of a synonym, the command of this group. Else first the
    commands that have this very name in another group, such as `limits plan` for `plan`; then those of this
    group whose names are close; then those of other groups.
    """
    group = context.command
    assert isinstance(group, click.Group)
    program, *own = context.command_path.split()
    if word == "help":
        return f"`{context.command_path} {GUESSED[word]}`"
    if word in GUESSED:
        return f"`{program} {GUESSED[word]}`"
    if own and SYNONYMS.get(word) in group.list_commands(context):
        return f"`{context.command_path} {SYNONYMS[word]}`"
    word = SYNONYMS.get(word, word)
    paths = [path for path in _paths(context.find_root().command, context.find_root()) if path != own]
    same = [path for path in paths if path[-1] == word]
    close = [[*own, name] for name in get_close_matches(word, group.list_commands(context), n=MOST)]
    elsewhere = get_close_matches(word, sorted({path[-1] for path in paths}), n=1, cutoff=0.8)
    found = same or close or [path for path in paths if path[-1] in elsewhere]
    told = [f"`{' '.join([program, *path])}`" for path in found[:MOST]]
    return " or ".join(told) or None


def _paths(command: click.Command, context: click.Context, *path: str) -> Iterator[list[str]]:
    if path:
        yield [*path]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _paths(child, context, *path, name)
