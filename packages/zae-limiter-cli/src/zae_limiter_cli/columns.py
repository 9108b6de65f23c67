"""Print rows as aligned columns, and values as JSON."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any, Final

import click

GAP = "  "
WIDTH = 1000
LEAST_ROOM = 16
GOES_ON = " \\"
SCHEMA_VERSION: Final = 1
_NOTED: Final = "zae_limiter_cli.columns.noted"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 item`, `2,000 items`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def say_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print rows, each column as wide as its widest cell; do not pad the last one. Of more than two columns, the first
    row is the head.

    On a terminal that is too narrow, cells break between words; where even their words are too wide, each row becomes a
    list of its cells. Without a terminal a row is one line, for grep.

    A cell may be stored text that anybody wrote: it begins no line of its own, and no terminal obeys it.
    """
    from zae_limiter_manifest.problems import printable

    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    room = room_of_stdout()
    if room is not None and len(indent) + sum(widths) + len(GAP) * (len(widths) - 1) > room:
        from .narrow import say_narrow

        say_narrow(shown, width=room, indent=len(indent))
        return
    for row in shown:
        cells = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]
        click.echo(f"{indent}{GAP.join(cells)}".rstrip())


def say_tree(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as ``say_columns`` does, whose first cells draw a tree. On a terminal that is too narrow, cells follow
    each other without columns, and the terminal breaks lines: broken cells would break the drawing.
    """
    from zae_limiter_manifest.problems import printable

    room, shown = room_of_stdout(), [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    if room is None or sum(widths) + len(GAP) * (len(widths) - 1) <= room:
        say_columns(rows)
        return
    for row in shown:
        click.echo(GAP.join(row))


def say_wrapped(rows: Sequence[Sequence[str]], *, width: int, indent: str = "", most: int | None = None) -> None:
    """Print rows as ``say_columns`` does, and break the last column by words where a line would be longer than
    ``width``; its rest is below itself, or below the row if there is little room beside the others. A cell has at most
    ``most`` lines. Where the other columns alone are wider, all cells break.
    """
    from textwrap import wrap

    from zae_limiter_manifest.problems import printable

    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    begin = len(indent) + sum(each + len(GAP) for each in widths)
    if len(shown[0]) > 1 and begin - len(GAP) > width:
        from .narrow import say_narrow

        say_narrow(shown, width=width, indent=len(indent))
        return
    inset = begin if width - begin >= LEAST_ROOM else len(indent) + len(GAP)
    for *cells, last in shown:
        head = indent + "".join(cell.ljust(size) + GAP for cell, size in zip(cells, widths, strict=True))
        room = max(LEAST_ROOM, width - inset)
        lines = wrap(last, room, break_long_words=False, break_on_hyphens=False, max_lines=most, placeholder=" ...")
        if lines and inset != begin and len(head) + len(lines[0]) > width:
            lines.insert(0, "")
        click.echo((head + (lines[0] if lines else "")).rstrip())
        for line in lines[1:]:
            click.echo(" " * inset + line)


def say_sentence(text: str, *, err: bool = False) -> None:
    """Print a sentence, in lines of whole words on a terminal that is narrower."""
    from textwrap import fill

    room = room_of_stdout()
    click.echo(text if room is None else fill(text, room, break_long_words=False, break_on_hyphens=False), err=err)


def hanging(text: str, begin: int) -> str:
    """Return a text that begins in a column; on a terminal that is narrower, its further lines begin there, too."""
    from textwrap import wrap

    room = room_of_stdout()
    if room is None:
        return text
    return f"\n{' ' * begin}".join(wrap(text, max(LEAST_ROOM, room - begin), break_on_hyphens=False))


def say_command(command: str, *, indent: str = "", err: bool = False) -> None:
    """Print a command to paste. On a terminal that is too narrow, it goes on in further lines, which a shell joins.

    An invisible character in it is an escape, which bash, ksh and zsh read.
    """
    room = room_of_stdout()
    parts = [] if command.isascii() else _parts_of(command)
    shown = " ".join(parts) if any("$'" in part for part in parts) else command
    if room is None or len(indent) + len(shown) <= room:
        click.echo(indent + shown, err=err)
        return
    first, *rest = parts or _parts_of(command)
    lines = [indent + first]
    for part in rest:
        if len(lines[-1]) + 1 + len(part) + len(GOES_ON) <= room:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{' ' * 4}{part}")
    click.echo(f"{GOES_ON}\n".join(lines), err=err)


def _parts_of(command: str) -> list[str]:
    """Return the words of a command, quoted; an option and its value are one part."""
    parts: list[str] = []
    for word in shlex.split(command):
        if parts and parts[-1].startswith("-") and " " not in parts[-1] and parts[-1] != "--" and word[:1] != "-":
            parts[-1] += f" {_quoted(word)}"
        else:
            parts.append(_quoted(word))
    return parts


def _quoted(word: str) -> str:
    """Return a word for a shell; an invisible character is an escape in `$'...'`."""
    from zae_limiter_manifest.problems import INVISIBLE

    if word.isprintable() and not INVISIBLE.search(word):
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    from zae_limiter_manifest.problems import INVISIBLE

    if character in "\\'":
        return f"\\{character}"
    if character.isprintable() and not INVISIBLE.search(character):
        return character
    return f"\\U{ord(character):08x}"


def room_of_stdout() -> int | None:
    """Return the columns of the terminal that shows standard output; ``None`` if there is none."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def say_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print the document of a command, for programs: its ``schema_version`` and ``kind``, then the keys of ``value`` in
    their order, or its ``items``; then what was noted, and the records that cannot be read, if there are some.
    """
    from .skipped import document

    content = value if isinstance(value, Mapping) else {"items": value}
    noted = click.get_current_context().find_root().meta.get(_NOTED, {})
    click.echo(json.dumps({**envelope(), **content, **noted, **document()}, indent=2))


def note(line: str, keys: Mapping[str, Any]) -> None:
    """Have the command print a warning on standard error at its end, and its JSON document have these keys, too."""
    root = click.get_current_context().find_root()
    root.meta[_NOTED] = {**root.meta.get(_NOTED, {}), **keys}
    root.call_on_close(lambda: click.echo(f"Warning: {line}", err=True))


def envelope() -> dict[str, Any]:
    """Return what each document begins with; its kind are the words of the command, such as ``entity show``."""
    context = click.get_current_context()
    words: list[str] = []
    while context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    return {"schema_version": SCHEMA_VERSION, "kind": " ".join(words)}


def say_compact_json(value: Any) -> None:
    """Print compact JSON, one line per value where it fits: CloudFormation takes a template of 51,200 bytes at most."""
    click.echo(_compact(value))


def _compact(value: Any, *, head: str = "") -> str:
    """Return the value as text behind ``head``, without indentation, which takes two per cent of a template."""
    flat = head + json.dumps(value, separators=(",", ":"))
    if len(flat) < WIDTH or not isinstance(value, (dict, list)):
        return flat
    if isinstance(value, dict):
        named, ends = [(f"{json.dumps(name)}:", part) for name, part in value.items()], "{}"
    else:
        named, ends = [("", part) for part in value], "[]"
    parts = [_compact(part, head=name) for name, part in named]
    return "\n".join((f"{head}{ends[0]}", ",\n".join(parts), ends[1]))
