"""Write the page of the manifest's fields, from its JSON Schema."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Schema = Mapping[str, Any]
_REFERENCE: Final = "#/$defs/"
_BOUNDS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most",
    "maxProperties": "entries at most",
}


def manifest_page() -> str:
    """Return the reference of every field of a manifest: its type, its bounds, whether it has to be there."""
    from zae_limiter_manifest import json_schema

    schema = json_schema()
    parts = [
        "# The manifest, field by field",
        "Generated from what `zae-limiter limits schema` prints. [The manifest](../manifest.md) explains it.",
        *_section("manifest", schema),
    ]
    for name, definition in schema.get("$defs", {}).items():
        parts += _section(name, definition)
    return "\n\n".join(parts) + "\n"


def _section(name: str, found: Schema) -> Iterator[str]:
    *short, found = [found] if "properties" in found else found.get("anyOf", [found])
    fields = found.get("properties")
    if not fields:
        return
    yield f"## {name}"
    if text := found.get("description"):
        yield str(text)
    if examples := [example for each in short for example in each["examples"]]:
        yield f"Or [one text](../manifest.md#a-limit-as-one-text): {', '.join(f'`{each}`' for each in examples)}"
    required = found.get("required", ())
    rows = [_row(field, part, required) for field, part in fields.items()]
    yield "\n".join(["| field | type | | what it is |", "|---|---|---|---|", *rows])


def _row(field: str, part: Schema, required: Sequence[str]) -> str:
    needed = "required" if field in required else ""
    return f"| `{field}` | {_type(part)} | {needed} | {_cell(part.get('description', ''))} |"


def _type(part: Schema) -> str:
    if reference := part.get("$ref"):
        name = str(reference).removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in part:
            return " or ".join(dict.fromkeys(_type(each) for each in part[key]))
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    kind = part.get("type", "any")
    kinds = " or ".join(kind) if isinstance(kind, list) else str(kind)
    values = part.get("additionalProperties")
    if isinstance(values, Mapping):
        kinds += f" of {_type(values)}"
    elif isinstance(items := part.get("items"), Mapping):
        kinds += f" of {_type(items)}"
    bounds = [
        f"{words} {part[key]}" if words.startswith("at ") else f"{part[key]} {words}"
        for key, words in _BOUNDS.items()
        if key in part
    ]
    return ", ".join([kinds, *bounds])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
