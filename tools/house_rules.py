"""The rules of CONTRIBUTING.md that no linter has, checked in every package's source, and in the pages.

house_rules.py     prints each departure; 1 where there is one
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import prose
from check_siblings import ROOT

MAX_LINES: Final = 600  # a concept lies in one file
CHEAP: Final = {  # modules of core that have what costs a start little, by the module of the standard library
    "dataclasses": ("zae_limiter/runtime/dataclass.py", {"dataclass", "field", "fields", "replace"}),
    "typing": ("zae_limiter/runtime/named_tuple.py", {"NamedTuple"}),
}

Lines = Iterator[str]


def long_file(place: str, text: str) -> Lines:
    """Yield a line where a file is longer than it may be."""
    if (lines := text.count("\n")) > MAX_LINES:
        yield f"{place}: {lines} lines, of at most {MAX_LINES}: split it by what its parts are for"


def relative_imports(place: str, text: str) -> Lines:
    """Yield a line for each import of a package's own modules by the package's name."""
    package = place.partition("/")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _absolute(node):
                if name.partition(".")[0] == package:
                    yield f"{place}:{node.lineno}: imports {name} by its full name: write it relative to this module"


def _absolute(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []


def cheap_classes(place: str, text: str) -> Lines:
    """Yield a line for each import of core whose classes are compiled while a program starts."""
    if not place.startswith("zae_limiter/"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in CHEAP:
            home, names = CHEAP[node.module]
            for name in sorted({alias.name for alias in node.names} & names) if place != home else ():
                yield f"{place}:{node.lineno}: imports {name} of {node.module}: {home} has one that starts fast"


RULES: Final[Mapping[str, Callable[[str, str], Lines]]] = {
    "long-file": long_file,
    "relative-imports": relative_imports,
    "cheap-classes": cheap_classes,
}


def departures(sources: Mapping[str, str]) -> list[str]:
    """Return a line for each departure in files by their place, such as ``zae_limiter/limits.py``."""
    return [
        f"{line} ({name})"
        for place, text in sources.items()
        for name, rule in RULES.items()
        for line in rule(place, text)
    ]


def sources(root: Path) -> dict[str, str]:
    """Return the source of every package by its place below ``src``."""
    paths = sorted(root.glob("packages/*/src/**/*.py"))
    return {path.as_posix().partition("/src/")[2]: path.read_text(encoding="utf-8") for path in paths}


def main() -> int:
    """Print each departure; 1 where there is one, or no source."""
    here = sources(ROOT)
    if not here:
        print("no package is here")
        return 1
    now, ceilings = prose.counts(prose.texts(ROOT)), prose.read_ceilings()
    lines = departures(here) + prose.departures(now, ceilings)
    print(*lines or [f"{len(here)} files keep the house rules"], sep="\n")
    if prose.fallen(now, ceilings):
        print("a count of prose fell: uv run python tools/prose.py --lower")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
