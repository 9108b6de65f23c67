"""A command in a terminal of its own, which a test looks at and types into."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyte

SECONDS: Final = 60.0  # a machine that is busy is slow; nothing waits longer than it has to
PRIVATE: Final = 5  # bits by which pyte moves the numbers of private modes
ALTERNATE, MOUSE, PASTE = 1049, 1000, 2004
COMMAND: Final = (sys.executable, "-c", "from zae_limiter_cli.main import main; main()")


class Terminal:
    """An emulated terminal of so many columns and lines, and the process in it."""

    def __init__(self, words: Sequence[str], columns: int, lines: int, environment: Mapping[str, str | None]) -> None:
        self._ours, self._theirs = pty.openpty()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.sent = b""  # all that the process has written
        self.resize(columns, lines, told=False)
        self.cooked = termios.tcgetattr(self._theirs)
        given = {"TERM": "xterm-256color", "COLUMNS": None, "LINES": None, "NO_COLOR": None, **environment}
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={name: value for name, value in {**os.environ, **given}.items() if value is not None},
            start_new_session=True,
            preexec_fn=self._control,  # noqa: PLW1509 - no other thread runs
        )

    def _control(self) -> None:
        """Make the terminal that of the process, which then gets its signals."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, columns: int, lines: int, *, told: bool = True) -> None:
        """Have other numbers of columns and lines; the system tells the process."""
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if told:
            self._screen.resize(lines, columns)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._ours, keys.encode())

    def until(self, *texts: str, without: Sequence[str] = ()) -> list[str]:
        """Return the lines of the screen once they have all texts, and none of others. Raise ``AssertionError`` if
        that never comes.
        """
        return self._until(lambda: self._has(texts, without), f"{texts} without {without}")

    def ended(self) -> int:
        """Return the code of the process once it has ended, and all that it wrote was seen."""
        self._until(lambda: self.process.poll() is not None, "the end")
        while self._see(0):
            pass
        return self.process.returncode

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without the spaces at their ends."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def modes(self) -> set[int]:
        """The private modes that are set."""
        return {mode >> PRIVATE for mode in self._screen.mode}

    @property
    def cursor_hidden(self) -> bool:
        """Whether the cursor is hidden."""
        return bool(self._screen.cursor.hidden)

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: the first screen, the cursor, no mouse, lines with their echo."""
        left = not self.modes & {ALTERNATE, MOUSE, PASTE}
        return left and not self.cursor_hidden and termios.tcgetattr(self._theirs) == self.cooked

    def colours(self) -> set[str]:
        """Return the colours on the screen."""
        found: set[str] = set()
        for line in self._screen.buffer.values():
            found |= {colour for each in line.values() for colour in (each.fg, each.bg)}
        return found - {"default"}

    def _has(self, texts: Sequence[str], without: Sequence[str]) -> bool:
        shown = "\n".join(self.lines)
        return all(text in shown for text in texts) and not any(text in shown for text in without)

    def _until(self, holds: Callable[[], bool], what: str) -> list[str]:
        end = time.monotonic() + SECONDS
        while not holds():
            shown = "\n".join(self.lines)
            assert time.monotonic() < end, f"{what} never came:\n{shown}"
            gone = self.process.poll() is not None
            assert self._see(0.1) or not gone or holds(), f"{what} never came, it ended:\n{shown}"
        return self.lines

    def _see(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        written = os.read(self._ours, 65536)
        self.sent += written
        self._stream.feed(written)
        return True

    def close(self) -> None:
        """End the process, and forget the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def running(
    *words: str, columns: int = 80, lines: int = 24, environment: Mapping[str, str | None] | None = None
) -> Iterator[Terminal]:
    """Run `zae-limiter` with these words in a terminal; a variable that is ``None`` is not set."""
    terminal: Any = Terminal(words, columns, lines, environment or {})
    try:
        yield terminal
    finally:
        terminal.close()
