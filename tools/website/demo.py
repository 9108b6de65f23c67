"""Draw the last screen of `zae-limiter demo`, in light and in dark, for the README.

python -m website.demo   (with tools on PYTHONPATH; `just demo-picture` calls it)
"""

import os
import pty
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).parents[2] / "docs" / "assets"
COLUMNS: Final = 88
WIDE, HIGH, MARGIN = 8.4, 19, 16
THEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "light": {
        "back": "#ffffff",
        "": "#1f2328",
        "2": "#59636e",
        "31": "#cf222e",
        "32": "#1a7f37",
        "33": "#9a6700",
        "36": "#1b7c83",
    },
    "dark": {
        "back": "#0d1117",
        "": "#e6edf3",
        "2": "#9198a1",
        "31": "#ff7b72",
        "32": "#3fb950",
        "33": "#d29922",
        "36": "#39c5cf",
    },
}
_CONTROL: Final = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|(\r)|(\n)")


class Piece(NamedTuple):
    """A run of text of one colour, and the column that it begins in."""

    column: int
    words: str
    code: str


def recorded() -> str:
    """Return what the demo writes to a terminal. Raise ``CalledProcessError`` if it fails."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm", "PYTHONUTF8": "1"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(["zae-limiter", "demo"], stdout=theirs, env=environment) as process:
        os.close(theirs)
        written = b"".join(_read(ours))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "zae-limiter demo")
    return written.decode()


def _read(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # Linux says so at the end
            return
        if not part:
            return
        yield part


def screen(written: str) -> list[list[Piece]]:
    """Return the lines that a terminal shows in the end. It knows the controls that the CLI uses."""
    lines: list[list[Piece]] = [[]]
    row, code, start = 0, "", 0
    for control in _CONTROL.finditer(written):
        _put(lines[row], written[start : control.start()], code)
        start = control.end()
        amount, kind, _, newline = control.groups()
        if newline:
            row += 1
            if row == len(lines):
                lines.append([])
        elif kind == "A":
            row -= int(amount)
        elif kind == "K":
            lines[row].clear()
        elif kind == "m":
            code = "" if amount == "0" else amount
    return lines


def _put(pieces: list[Piece], words: str, code: str) -> None:
    if words:
        pieces.append(Piece(sum(len(piece.words) for piece in pieces), words, code))


def drawn(lines: list[list[Piece]], theme: str) -> str:
    """Return the lines as an SVG."""
    width, height = COLUMNS * WIDE + 2 * MARGIN, len(lines) * HIGH + 2 * MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        "<title>zae-limiter demo: which of many concurrent calls are admitted, wait or are refused</title>",
        f"<style>{_style(THEMES[theme])}</style>",
        f'<rect class="back" width="{width:g}" height="{height:g}" rx="10"/>',
    ]
    texts = [
        _text(piece, MARGIN + HIGH * (number + 0.75))
        for number, line in enumerate(lines)
        for piece in line
        if piece.words.strip()
    ]
    return "\n".join([*head, *texts, "</svg>", ""])


def _style(colours: Mapping[str, str]) -> str:
    rules = [f".c{code} {{ fill: {colour} }}" for code, colour in colours.items() if code not in {"", "back"}]
    text = f"text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {colours['']} }}"
    back = f".back {{ fill: {colours['back']}; stroke: {colours['2']}; stroke-opacity: 0.4 }}"
    return " ".join([text, back, ".c1 { font-weight: 700 }", *rules])


def _text(piece: Piece, y: float) -> str:
    words = piece.words.rstrip()
    indent = len(words) - len(words.lstrip())
    x, width = MARGIN + (piece.column + indent) * WIDE, (len(words) - indent) * WIDE
    inner = escape(words.lstrip()).replace("  ", "\u00a0\u00a0")
    return f'<text class="c{piece.code}" x="{x:g}" y="{y:g}" textLength="{width:g}">{inner}</text>'


if __name__ == "__main__":
    shown = screen(recorded())
    while shown and not shown[-1]:
        shown.pop()
    for name in THEMES:
        (FOLDER / f"demo-{name}.svg").write_text(drawn(shown, name), encoding="utf-8")
