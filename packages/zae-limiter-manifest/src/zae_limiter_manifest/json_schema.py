"""The JSON Schema of a manifest, for editors, generated from the models.

It is never stricter than `load`, and cannot express rules between two fields.
"""

from collections.abc import Iterator
from typing import Any, Final

from . import schema_patterns
from .limit_text import EXAMPLES
from .manifest import MANIFEST
from .merging import SHARED
from .metadata import MOST_KEYS
from .naming import NameKind, name_pattern, reserved_names
from .schedule_text import EXAMPLES as ENTRIES
from .schedule_text import MAX_ENTRIES
from .shapes import (
    Cascading,
    Choice,
    Choices,
    Entries,
    Flag,
    Integer,
    JsonMap,
    Member,
    Name,
    NamedMap,
    Names,
    Number,
    Percent,
    Percents,
    Record,
    Seconds,
    Shape,
    Text,
    Window,
    Zone,
)
from .windows import WINDOWS

_SHORT: Final = {
    "type": "string",
    "pattern": schema_patterns.LIMIT,
    "description": schema_patterns.LIMIT_TEXT,
    "markdownDescription": schema_patterns.LIMIT_TEXT,
    "examples": EXAMPLES,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest, as plain values."""
    definitions = {record.title: _object(record) for record in _records(MANIFEST) if record is not MANIFEST}
    whole = {"title": "zae-limiter manifest", **_object(MANIFEST), "patternProperties": {f"^{SHARED}": {}}}
    tiers_alone = {"required": ["tiers"], "propertyNames": {"pattern": f"^(tiers$|{SHARED})"}}
    whole["anyOf"] = [{"required": whole.pop("required")}, tiers_alone]
    return {"$schema": DIALECT, **whole, "$defs": definitions}


def _records(shape: Shape) -> Iterator[Record]:
    if isinstance(shape, NamedMap):
        yield from _records(shape.entry)
    elif isinstance(shape, Record):
        yield shape
        for member in shape.members.values():
            yield from _records(member.shape)


def _object(record: Record) -> dict[str, Any]:
    whole = _map(record)
    return whole if record.short is None else {"description": record.text, "anyOf": [_SHORT, whole]}


def _map(record: Record) -> dict[str, Any]:
    return {
        "type": "object",
        "description": record.text,
        "properties": {key: _member(member) for key, member in record.members.items()},
        "required": [key for key, member in record.members.items() if member.required and not member.unless],
        "additionalProperties": False,
        **_alternatives(record),
    }


def _alternatives(record: Record) -> dict[str, Any]:
    """Return that one of several keys has to be there."""
    found = [(key, *member.unless) for key, member in record.members.items() if member.required and member.unless]
    return {"anyOf": [{"required": [key]} for key in found[0]]} if found else {}


def _member(member: Member) -> dict[str, Any]:
    default = {} if member.default is None else {"default": member.default}
    return {**_schema(member.shape), "description": member.text, "markdownDescription": member.text, **default}


def _schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Integer():
            return {"type": "integer", "minimum": shape.least, "maximum": shape.highest}
        case Seconds() | Number():
            return {"type": "number", "minimum": 0, "maximum": shape.highest}
        case Flag():
            return {"type": "boolean"}
        case Cascading():
            return {"enum": ["on", "off", "inherit", True, False]}
        case Choice():
            return {"enum": list(shape.words)}
        case Choices():
            return {"type": "array", "items": {"enum": list(shape.words)}, "uniqueItems": True}
        case Name():
            return {"type": "string", **_name(shape.kind)}
        case Names() | Text() | Window() | Zone() | Entries() | Percents() | Percent() | JsonMap():
            return _said(shape)
        case NamedMap():
            least = {"minProperties": shape.least} if shape.least else {}
            most = {"maxProperties": shape.most} if shape.most else {}
            entries = {"propertyNames": _name(shape.kind), "additionalProperties": _schema(shape.entry)}
            table = {"type": "object", **least, **most, **entries}
            return {"anyOf": [{"const": shape.word}, table]} if shape.word else table
        case Record():
            return {"$ref": f"#/$defs/{shape.title}"}
        case _:
            raise TypeError(f"no manifest contains {shape!r}")


def _said(shape: Names | Text | Window | Zone | Entries | Percents | Percent | JsonMap) -> dict[str, Any]:
    match shape:
        case Window():
            return {"type": "string", "pattern": schema_patterns.WINDOW, "examples": [*WINDOWS, "0 6 * * MON"]}
        case Zone():
            return {"type": "string", "pattern": schema_patterns.ZONE, "examples": ["UTC", "Europe/Berlin"]}
        case Entries():
            entry = {"type": "string", "pattern": schema_patterns.ENTRY, "examples": ENTRIES}
            return {"type": "array", "items": entry, "maxItems": MAX_ENTRIES}
        case Percent():
            return {"type": "string", "pattern": schema_patterns.PERCENT, "examples": ["80%"]}
        case Percents():
            percent = {"type": "integer", "minimum": 1, "maximum": 100}
            return {"type": "array", "items": percent, "minItems": 1, "maxItems": shape.most, "uniqueItems": True}
        case Names():
            names = {"type": "string", **_name(shape.kind)}
            return {
                "type": "array",
                "items": names,
                "minItems": shape.least,
                "maxItems": shape.most,
                "uniqueItems": True,
            }
        case Text():
            return {"type": "string", "maxLength": shape.longest}
    return {"type": "object", "maxProperties": MOST_KEYS}


def _name(kind: NameKind) -> dict[str, Any]:
    reserved = reserved_names(kind)
    return {"pattern": f"^(?:{name_pattern(kind)})$", **({"not": {"enum": list(reserved)}} if reserved else {})}
