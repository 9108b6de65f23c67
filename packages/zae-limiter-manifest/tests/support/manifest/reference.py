"""The generated pieces of docs/manifest.md, from the rules of names.
Never the page: `python reference.py PAGE` writes the pieces into it."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from zae_limiter_manifest import RESERVED_LIMIT_NAMES
from zae_limiter_manifest.naming import NameKind, find_name_problem

PIECE = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def with_pieces(page: str) -> str:
    """The page, its generated pieces as they are now."""
    pieces: Mapping[str, str] = {"names": _names(), "reserved": _reserved()}
    return PIECE.sub(lambda found: f"{found[1]}{pieces[found[2]]}{found[4]}", page)


def _names() -> str:
    kinds = (NameKind.NAMESPACE, NameKind.LIMIT, NameKind.RESOURCE_OR_PATTERN, NameKind.ENTITY)
    words = {NameKind.RESOURCE_OR_PATTERN: "resource, or a pattern of `resources`"}
    rows = "".join(
        f"| {words.get(kind, kind.value)} | {(find_name_problem(kind, '') or '').removeprefix('must be ')} |\n"
        for kind in kinds
    )
    return f"| a name of | is |\n|---|---|\n{rows}"


def _reserved() -> str:
    return ", ".join(f"`{name}`" for name in RESERVED_LIMIT_NAMES) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(with_pieces(target.read_text("utf-8")), "utf-8")
