"""Attribute names are constants of ``schema``: no other module of core names an attribute by a string."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import zae_limiter
from zae_limiter.schema import attributes

CORE = Path(zae_limiter.__file__).parent
CONSTANTS = {name: value for name, value in vars(attributes).items() if name.isupper() and name[0] != "_"}
ATTRIBUTES = {value for name, value in CONSTANTS.items() if isinstance(value, str) and name != "WCU"}

# These names are not words of a public value: they are raw wherever they stand.
UNMISTAKABLE = {attributes.ANCHOR, attributes.CONFIG_AS_OF, attributes.ACQUIRES, attributes.TTL} | {
    name for name in ATTRIBUTES if name.isupper()
}
LOOKUPS = {"get", "pop", "setdefault"}
HANDLES_ITEMS = ("engines", "flows", "operations", "maintenance")


def raw_names(source: str, *, handles_items: bool) -> list[str]:
    """Attribute names that a source spells out: as a key, and the unmistakable ones anywhere but in a docstring."""
    tree = ast.parse(source)
    raw = [(line, text) for line, text in strings(ast.walk(tree)) if text in UNMISTAKABLE]
    if handles_items:
        raw += [(line, text) for line, text in strings(keys_of_items(tree)) if text in ATTRIBUTES]
    named = [word for node in ast.walk(tree) for word in keywords(node)]
    return sorted({f"{line}: {text}" for line, text in raw} | {f"{word.lineno}: {word.arg}" for word in named})


def strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Those among the nodes, each with its line."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def keys_of_items(tree: ast.AST) -> Iterator[ast.AST]:
    """What looks something up in an item, or makes an entry of one."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Subscript(value=ast.Name(id="given" | "Literal")) | ast.Compare(comparators=[ast.Name(id="given")])
            ):
                pass  # the fields of an entity that a caller passes, by their Python names
            case ast.Subscript(slice=ast.IfExp(body=one, orelse=other)):
                yield from (one, other)
            case ast.Subscript(slice=key) | ast.Compare(left=key, ops=[ast.In() | ast.NotIn()]):
                yield key
            case ast.Dict(keys=found):
                yield from (key for key in found if key is not None)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="given"))):
                pass
            case ast.Call(func=ast.Attribute(attr=name), args=[key, *_]) if name in LOOKUPS:
                yield key
            case ast.keyword(arg="absent" | "exists", value=ast.Tuple(elts=names)):
                yield from names


def keywords(node: ast.AST) -> Iterable[ast.keyword]:
    """Keywords that become entries of an item: ``draft.set.update(rf=...)``, ``dict(rf=...)``."""
    match node:
        case ast.Call(func=ast.Attribute(attr="update") | ast.Name(id="dict"), keywords=words):
            return [word for word in words if word.arg in ATTRIBUTES]
    return []


def modules() -> list[Path]:
    found = [path.relative_to(CORE) for path in CORE.rglob("*.py")]
    beside = {"schema"}
    return sorted(path for path in found if path.parts[0] not in beside and path.name != "naming.py")


def test_no_module_outside_of_the_schema_names_an_attribute_by_a_string() -> None:
    raw = {
        module: raw_names(
            (CORE / module).read_text(),
            handles_items=module.parts[0] in HANDLES_ITEMS and "aws" not in module.parts,
        )
        for module in modules()
    }
    assert {module: names for module, names in raw.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('item["rf"]', ["1: rf"]),
        ('item["parent_id"] = 1', ["1: parent_id"]),
        ('item["GSI2SK" if one else "SK"]', ["1: GSI2SK", "1: SK"]),
        ('x = {"shard_count": 1, **item}', ["1: shard_count"]),
        ('item.get("cascade", False)', ["1: cascade"]),
        ('"version" not in item', ["1: version"]),
        ('Conditions(absent=("PK", "parent_id"))', ["1: PK", "1: parent_id"]),
        ("draft.set.update(rf=1, shard_count=2)", ["1: rf", "1: shard_count"]),
        ('values = ["ttl"]', ["1: ttl"]),
        ('given.get("parent_id")', []),
        ('"metadata" in given', []),
        ('check("parent_id", parent_id)', []),
        ('kind: Literal["resource", "system"]', []),
        ("item[ANCHOR]", []),
        ("Bucket(shard_count=1)", []),
    ],
)
def test_a_raw_name_is_found_wherever_an_item_is_read_or_made(source: str, found: list[str]) -> None:
    assert raw_names(source, handles_items=True) == found
