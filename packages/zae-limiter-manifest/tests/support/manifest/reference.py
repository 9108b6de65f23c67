"""The generated pieces of docs/manifest.md, from the models and the rules of names.
Never the page: `python reference.py PAGE` writes the pieces into it."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from zae_limiter_manifest import RESERVED_LIMIT_NAMES, StackProperties, load, render_template
from zae_limiter_manifest.manifest import MANIFEST
from zae_limiter_manifest.naming import NameKind, find_name_problem
from zae_limiter_manifest.shapes import (
    Cascading,
    Choice,
    Entries,
    Flag,
    Integer,
    Member,
    Name,
    NamedMap,
    Names,
    Number,
    Percents,
    Record,
    Seconds,
    Text,
    Window,
    Zone,
)

PIECE = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
EXAMPLE = Path(__file__).parents[5] / "examples" / "tenant-alpha.limits.yaml"


def with_pieces(page: str) -> str:
    """The page, its generated pieces as they are now."""
    pieces: Mapping[str, str] = {"keys": _keys(), "names": _names(), "reserved": _reserved(), "template": _template()}
    return PIECE.sub(lambda found: f"{found[1]}{pieces[found[2]]}{found[4]}", page)


def _keys() -> str:
    rows = "".join(f"| {row} |\n" for row in _rows(MANIFEST, ""))
    return f"| key | value | meaning |\n|---|---|---|\n{rows}"


def _rows(record: Record, path: str) -> Iterator[str]:
    for key, member in record.members.items():
        yield f"`{path}{key}` | {_value(member)} | {member.text}"
        match member.shape:
            case Record():
                yield from _rows(member.shape, f"{path}{key}.")
            case NamedMap(entry=Record() as entry, kind=kind) if _is_first(path, entry):
                yield from _rows(entry, f"{path}{key}.<{_word(kind)}>.")


def _is_first(path: str, entry: Record) -> bool:
    """Limits are the same at each level: they are told where they come first."""
    return entry.title != "LimitDecl" or path == "system."


def _value(member: Member) -> str:
    said = _shape(member)
    if member.default is not None:
        said += f", default {json.dumps(member.default)}"
    return f"{said}, **required**" if member.required else said


TEXTS = {Window: "a window", Entries: "a list of texts", Zone: "a time zone, default `UTC`"}


def _shape(member: Member) -> str:
    match member.shape:
        case Integer(highest=highest):
            return f"1 to {highest:,}"
        case Seconds(highest=highest) | Number(highest=highest):
            return f"0 to {highest:,}"
        case Flag() | Cascading():
            return "`true` or `false`" if isinstance(member.shape, Flag) else "`on`, `off` or `inherit`"
        case Choice() as choice:
            return choice.alternatives
        case Name():
            return "a name"
        case Window() | Entries() | Zone() as text:
            return TEXTS[type(text)]
        case Percents(most=most):
            return f"a list of 1 to {most} whole numbers, ascending"
        case Names():
            return "a list of 1 to 4 names"
        case Text(longest=longest):
            return f"at most {longest} characters"
        case _:
            return "a map"


def _word(kind: NameKind) -> str:
    return kind.value.partition("_")[0]


def _names() -> str:
    kinds = (NameKind.NAMESPACE, NameKind.LIMIT, NameKind.RESOURCE, NameKind.ENTITY)
    rows = "".join(
        f"| {kind.value} | {(find_name_problem(kind, '') or '').removeprefix('must be ')} |\n" for kind in kinds
    )
    return f"| a name of | is |\n|---|---|\n{rows}"


def _reserved() -> str:
    return ", ".join(f"`{name}`" for name in RESERVED_LIMIT_NAMES) + "\n"


def _template() -> str:
    return f"```yaml template\n{render_template(StackProperties(load(EXAMPLE.read_bytes())), 'my-app')}```\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(with_pieces(target.read_text("utf-8")), "utf-8")
