"""Put each sentence of the pages on a line of its own, so that a change of one shows as one.

sentences.py [PAGE …]             writes these pages anew, or all of docs and CONTRIBUTING.md
sentences.py --check [PAGE …]     names what it would write anew; 1 where there is any
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from check_siblings import ROOT

_FENCE: Final = re.compile(r"\s*(```+|~~~+)")
_ITEM: Final = re.compile(r"(\s*(?:[-*+]|\d+\.)\s+)\S")
_CONTAINER: Final = re.compile(r"\s*(?:!!!|\?\?\?\+?|===)\s")
_OTHER: Final = re.compile(r"\s*(?:[|#>]|<(?!https?:)|!!!|\?\?\?|===|:::|\[[^\]]+\]:|-{3,}\s*$|\*{3,}\s*$)")
_MARKER: Final = re.compile(r"<!-- (?!end -->)\S.*-->$")
_WHOLE: Final = re.compile(r"`+[^`]+`+|!?\[(?:[^\[\]`]|`[^`]*`)*\](?:\([^)]*\)|\[[^\]]*\])?|<[^>]+>")
_END: Final = re.compile(r"[.!?][)\"'*_]*\s+(?=[\"'(\[*_`A-Z0-9])")
_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|ca|No|St|Dr|Mr|Ms|p|pp|[A-Z])\.$")
_BLOCK: Final = re.compile(r"(?:[-*+#>|]|\d+\.)\s|[-*_]{3}|```|~~~|!!!|\?\?\?|===|<")


def reflow(page: str) -> str:
    """Return the page with a line for each sentence of its paragraphs; what it renders to is the same."""
    return "\n".join(line for text, part in _parts(page.split("\n")) for line in (_lines(part) if text else part))


def departures(page: str) -> list[int]:
    """Return the numbers of the lines where a paragraph begins that has a line of more or less than a sentence."""
    numbers, at = [], 1
    for text, part in _parts(page.split("\n")):
        if text and list(_lines(part)) != part:
            numbers.append(at)
        at += len(part)
    return numbers


def _parts(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield the lines of each paragraph or item together, any other line alone, and whether they are text."""
    fence, generated, raw, containers, part = "", False, False, [-1], list[str]()
    for line in lines:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        opening = _FENCE.match(line)
        if fence or opening:
            text = False
            if not fence and opening:
                fence = opening[1]
            elif stripped == fence:
                fence = ""
        elif generated or raw or not stripped:
            text = False
            generated, raw = generated and stripped != "<!-- end -->", raw and bool(stripped)
        else:
            while indent <= containers[-1]:
                containers.pop()
            code = not part and indent >= 4 and containers[-1] < 0
            text = not code and not _OTHER.match(line)
            generated = bool(_MARKER.match(stripped))
            raw = not text and not code and stripped.startswith("<") and not stripped.startswith("<!--")
        item = text and bool(_ITEM.match(line))
        if part and (not text or item):
            yield True, part
            part = []
        if text:
            part.append(line)
        else:
            yield False, [line]
        if item or (not fence and _CONTAINER.match(line)):
            containers.append(indent)
    if part:
        yield True, part


def _lines(part: Sequence[str]) -> Iterator[str]:
    if any(line.endswith(("  ", "\\", "<br>")) for line in part):  # lines that are meant to end there
        yield from part
        return
    first, item = part[0], _ITEM.match(part[0])
    lead = item[1] if item else first[: len(first) - len(first.lstrip())]
    text = " ".join([first[len(lead) :], *(line.strip() for line in part[1:])]).rstrip()
    for sentence in _sentences(text):
        yield lead + sentence
        lead = " " * len(lead)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences; none ends inside code or a link, and none begins as a list or a heading would."""
    whole = [match.span() for match in _WHOLE.finditer(text)]
    begin = 0
    for end in _END.finditer(text):
        inside = any(start < end.start() and end.end() < stop for start, stop in whole)
        if inside or _ABBREVIATION.search(text[: end.start() + 1]) or _BLOCK.match(text, end.end()):
            continue
        yield text[begin : end.end()].rstrip()
        begin = end.end()
    yield text[begin:]


def pages(names: Sequence[str]) -> list[Path]:
    """Return the pages of these names, or all."""
    return [Path(name) for name in names] or [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]


def main(arguments: Sequence[str]) -> int:
    """Write each page anew, or say where it would be written otherwise; 1 where one would."""
    found = 0
    for path in pages([name for name in arguments if name != "--check"]):
        text = path.read_text(encoding="utf-8")
        if "--check" not in arguments:
            path.write_text(reflow(text), encoding="utf-8")
            continue
        for number in departures(text):
            found += 1
            print(f"{path}:{number}: one sentence a line: uv run python tools/sentences.py {path}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
