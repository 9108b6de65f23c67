"""Metadata hold any JSON value, within bounds; in both variants."""

import json
import math
from typing import Any

import pytest

from support.core.worlds import World
from zae_limiter import ValidationError
from zae_limiter.operations.values import Get, Key
from zae_limiter.schema import keys
from zae_limiter.schema.audit import read_audit_event
from zae_limiter.schema.entities import read_metadata

VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**63 - 1,
    1.5,
    1e300,
    5e-324,
    "",
    "é\u0001\n",
    [],
    {},
    ["a", [1, {"": None}]],
    {"plan": {"seats": 3, "price": 9.99, "tags": ["a", "b"], "trial": False}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_any_json_value_comes_back_as_it_was(world: World, value: Any) -> None:
    limiter, _ = await world.process()
    made = await limiter.create_entity("e", metadata={"key": value, "text": "t"})
    found = await limiter.get_entity("e")
    assert found == made
    assert found is not None
    assert json.dumps(found.metadata, sort_keys=True) == json.dumps({"key": value, "text": "t"}, sort_keys=True)
    (event,) = (await limiter.repository.get_audit_events("e")).events
    assert event.after is not None
    assert event.after["metadata"] == made.metadata


async def test_children_and_updates_have_them_too(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", metadata={"tier": "1"})
    updated = await limiter.repository.update_entity("e", metadata={"tier": 1, "path": ("a", "b")})
    assert updated.metadata == {"tier": 1, "path": ["a", "b"]}
    assert await limiter.get_children("p") == [updated]
    wire.sent()
    assert (
        await limiter.repository.update_entity("e", metadata={"tier": 1, "path": ["a", "b"]})
    ).version == updated.version
    assert wire.sent() == ["BatchGet"]


async def test_values_that_python_takes_for_equal_are_told_apart(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("e", metadata={"n": 1})
    for version, value in enumerate((True, 1.0, 1), start=2):
        assert (await limiter.repository.update_entity("e", metadata={"n": value})).version == version
        found = await limiter.get_entity("e")
        assert found is not None
        assert type(found.metadata["n"]) is type(value)
    same_in_other_order = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    assert [(await limiter.repository.update_entity("e", metadata=each)).version for each in same_in_other_order] == [
        5,
        5,
    ]


async def test_strings_alone_are_stored_as_a_map_as_ever(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("e", metadata={"team": "blue"})
    pk = keys.pk_entity(limiter.repository.namespace_id, "e")
    assert world.table.execute(Get(Key(pk, keys.sk_meta())))["metadata"] == {"team": "blue"}


@pytest.mark.parametrize("text", ["no json", "[]", "7", "[" * 100_000], ids=lambda text: text[:7])
def test_a_text_that_is_no_map_in_json_is_unreadable_but_an_event_that_has_it_is_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"metadata|Expecting"):
        read_metadata(text)
    event = {"event_id": "1", "entity_id": "e", "action": "entity_created", "at": "now", "after": {"metadata": text}}
    assert read_audit_event(event).after == {"metadata": text}


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"x", r"metadata\['key'\] b'x': must be a JSON value"),
        ({1, 2}, "must be a JSON value"),
        (object(), "must be a JSON value"),
        (math.nan, "must be a finite number"),
        (math.inf, "must be a finite number"),
        (2**63, "must be a finite number, as an integer from -9223372036854775808 to 9223372036854775807"),
        (-(2**63) - 1, "must be a finite number"),
        ({1: "a"}, "a key of a map must be a string"),
        ({"deep": ["\ud800"]}, r"metadata\['key'\]\['deep'\]\[0\] .* must be characters that UTF-8 has"),
        (["v" * 1025], "has 1025 characters: at most 1024"),
        (nested(16), "lists and maps may be 16 deep"),
        (CIRCLE, "lists and maps may be 16 deep"),
        ([["v" * 1000] * 5] * 4, "bytes of metadata 20072: at most 16384"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_is_no_json_or_too_large_is_refused_and_nothing_is_written(
    world: World, value: Any, why: str
) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError, match=why):
        await limiter.create_entity("e", metadata={"key": value})
    assert wire.sent() == []


async def test_the_deepest_value_is_kept(world: World) -> None:
    limiter, _ = await world.process()
    assert (await limiter.create_entity("e", metadata={"key": nested(15)})).metadata == {"key": nested(15)}
