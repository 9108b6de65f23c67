"""Count habits of prose that this project leaves behind. Each has a ceiling in ``prose.toml``, which may only fall.

prose.py             prints the count of each, and what is above its ceiling; 1 where one is
prose.py --where     prints the lines that have one
prose.py --lower     writes the counts that fell into ``prose.toml``
"""

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from check_siblings import ROOT

CEILINGS: Final = Path(__file__).with_suffix(".toml")
HABITS: Final = {  # what to write in place of each: CONTRIBUTING.md
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "is no": r"(?<!there )\b(?:is|are|was)\s+no\s+(?!longer\b|more than\b)",
        "nobody": r"\bnobody\b",
        "whoever": r"\bwho(?:m)?ever\b",
        "ripe": r"\brip(?:e|er|ened?|ens)\b",
        "crumb": r"\bcrumbs?\b",
        "insist": r"\binsist(?:s|ed|ing)?\b",
        "rise": r"\b(?:rises?|rose|rising)\b",
        "meet": r"\b(?:meets?|met)\b",
        "tell": r"\b(?:tells?|told|telling)\b",
    }.items()
}
_NAME: Final = re.compile(r"`+[^`\n]+`+")
_CODE: Final = re.compile(r"^ *(```|~~~).*?^ *\1", re.DOTALL | re.MULTILINE)
_VALUE: Final = re.compile(r"\{[^{}]*\}")
_KINDS: Final = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def habits(text: str) -> dict[str, int]:
    """Return how often a text has each habit, outside of code."""
    plain = _NAME.sub("``", text)
    return {name: len(habit.findall(plain)) for name, habit in HABITS.items()}


def page_text(page: str) -> str:
    """Return a page without its blocks of code; the lines stay where they are."""
    return _CODE.sub(lambda block: "\n" * block[0].count("\n"), page)


def source_text(source: str) -> str:
    """Return the comments, docstrings and messages of a module; the lines stay where they are."""
    lines = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _KINDS:
            text = (
                _VALUE.sub("{}", token.string) if token.string.lower().startswith(("f", "rf", "fr")) else token.string
            )
            for number, line in enumerate(text.split("\n"), token.start[0] - 1):
                lines[number] += f" {line}"
    return "\n".join(lines)


def texts(root: Path) -> dict[str, dict[str, str]]:
    """Return what is counted as ``docs`` and as ``sources``, by the path of each file."""
    pages = [*sorted((root / "docs").rglob("*.md")), *(root / name for name in ("README.md", "CONTRIBUTING.md"))]
    return {
        "docs": {str(path.relative_to(root)): page_text(path.read_text(encoding="utf-8")) for path in pages},
        "sources": {
            str(path.relative_to(root)): source_text(path.read_text(encoding="utf-8"))
            for path in sorted(root.glob("packages/*/src/**/*.py"))
        },
    }


def counts(found: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Return the count of each habit in the docs and in the sources."""
    return {kind: habits("\n".join(files.values())) for kind, files in found.items()}


def departures(now: Mapping[str, Mapping[str, int]], ceilings: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each count above its ceiling."""
    return [
        f"{kind}: {count} times '{name}', of at most {ceilings[kind][name]}: write it as CONTRIBUTING.md says "
        f"(uv run python tools/prose.py --where) (prose)"
        for kind, each in now.items()
        for name, count in each.items()
        if count > ceilings[kind][name]
    ]


def fallen(now: Mapping[str, Mapping[str, int]], ceilings: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether a count is below its ceiling, which then has to be lowered."""
    return any(count < ceilings[kind][name] for kind, each in now.items() for name, count in each.items())


def lowered(now: Mapping[str, Mapping[str, int]], ceilings: Mapping[str, Mapping[str, int]]) -> str:
    """Return the file of the ceilings: each as it was, or the count where that is less."""
    lines = ["# Ceilings of tools/prose.py, which may only fall: uv run python tools/prose.py --lower"]
    for kind, each in now.items():
        lines += [f"\n[{kind}]", *(f'"{name}" = {min(count, ceilings[kind][name])}' for name, count in each.items())]
    return "\n".join(lines) + "\n"


def read_ceilings() -> dict[str, dict[str, int]]:
    """Return the ceilings by kind and habit."""
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8"))


def places(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield each line that has a habit."""
    for files in found.values():
        for place, text in files.items():
            for number, line in enumerate(text.split("\n"), 1):
                if names := [name for name, count in habits(line).items() if count]:
                    yield f"{place}:{number}: {', '.join(names)}: {line.strip()}"


def main(arguments: Sequence[str]) -> int:
    """Print the counts, the lines, or lower the ceilings."""
    found = texts(ROOT)
    if "--where" in arguments:
        print(*places(found), sep="\n")
        return 0
    now, ceilings = counts(found), read_ceilings()
    if "--lower" in arguments:
        CEILINGS.write_text(lowered(now, ceilings), encoding="utf-8")
        return 0
    for kind, each in now.items():
        print(f"{kind}:", ", ".join(f"{name} {count}/{ceilings[kind][name]}" for name, count in each.items()))
    lines = departures(now, ceilings)
    print(*lines, sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
