"""A stream of text, and its abilities: redrawn lines, colours, symbols."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TextIO

import click

Colour = Literal["", "bold", "dim", "red", "green", "yellow", "cyan"]
Part = tuple[str, Colour]

_CODES: Final[dict[str, str]] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_REST_INDENT: Final = 4


@dataclass(frozen=True, slots=True)
class Terminal:
    """A stream of text: ``live`` if lines can be drawn again, ``symbols`` if it shows more than ASCII."""

    stream: TextIO
    live: bool
    colour: bool
    symbols: bool

    @classmethod
    def of_stdout(cls) -> "Terminal":
        """Return standard output: colours only on a terminal and without ``NO_COLOR``."""
        return cls.of(sys.stdout)

    @classmethod
    def of_stderr(cls) -> "Terminal":
        """Return standard error, for progress: colours only on a terminal and without ``NO_COLOR``."""
        return cls.of(sys.stderr)

    @classmethod
    def of(cls, stream: TextIO) -> "Terminal":
        """Return a stream: colours only on a terminal and without ``NO_COLOR``."""
        live = stream.isatty() and os.environ.get("TERM", "") != "dumb"
        symbols = (stream.encoding or "").lower().replace("-", "") == "utf8"
        return cls(stream, live, live and not os.environ.get("NO_COLOR"), symbols)

    def say(self, text: str = "") -> None:
        """Print one line."""
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def paint(self, text: str, colour: Colour) -> str:
        """Return the text in a colour, if there are colours."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and colour and text else text

    def line(self, parts: Sequence[Part]) -> str:
        """Return coloured parts as one line, cut where a terminal would break it."""
        room = shutil.get_terminal_size().columns - 1 if self.live else sys.maxsize
        line = ""
        for text, colour in parts:
            line += self.paint(text[: max(0, room)], colour)
            room -= len(text)
        return line

    def fitted(self, text: str) -> str:
        """Return text whose lines break between words where a terminal would break them anywhere, each rest further in.
        A word that is longer than the terminal stays whole.
        """
        if not self.live:
            return text
        room = shutil.get_terminal_size().columns
        return "".join(_broken(line, room) for line in text.splitlines(keepends=True))

    def redraw(self, lines: Sequence[str], *, over: int) -> None:
        """Print lines in place of the last ``over`` ones."""
        up = f"\x1b[{over}A" if over else ""
        self.stream.write(up + "".join(f"\r\x1b[2K{line}\n" for line in lines))
        self.stream.flush()

    def erase(self, lines: int) -> None:
        """Take back the last ``lines`` lines."""
        self.stream.write("\x1b[1A\r\x1b[2K" * lines)
        self.stream.flush()

    def show_cursor(self, *, shown: bool) -> None:
        """Hide the cursor while lines are drawn again, show it afterwards."""
        if self.live:
            self.stream.write("\x1b[?25h" if shown else "\x1b[?25l")
            self.stream.flush()


def _broken(line: str, room: int) -> str:
    plain = click.unstyle(line)
    if len(plain.rstrip("\n")) <= room:
        return line
    margin = " " * (len(plain) - len(plain.lstrip()) + _REST_INDENT)
    lines = [""]
    for number, word in enumerate(line.split(" ")):
        begun, length = lines[-1], len(click.unstyle(word).rstrip("\n"))
        if begun.strip() and len(click.unstyle(begun)) + 1 + length > room >= len(margin) + length:
            lines.append(margin + word)
        else:
            lines[-1] = f"{begun} {word}" if number else word
    return "\n".join(lines)
