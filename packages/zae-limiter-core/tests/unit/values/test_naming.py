import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.snapshots import usage_item
from support.core.worlds import World
from zae_limiter import Limit
from zae_limiter.exceptions import InvalidIdentifierError, InvalidNameError, ValidationError
from zae_limiter.schema.usage import read_usage
from zae_limiter.values import naming
from zae_limiter.values.usage import UsageSnapshot

SHARED = Path(__file__).parents[5] / "testdata" / "names.json"
CHECKS: dict[str, Callable[[str, object], str]] = {
    "namespace": naming.check_namespace,
    "tier": naming.check_tier,
    "resource": naming.check_resource,
    "resource_or_default": partial(naming.check_resource, allow_default=True),
    "resource_or_pattern": partial(naming.check_resource, allow_pattern=True),
    "entity": naming.check_identifier,
    "parent": naming.check_identifier,
    "limit": naming.check_limit_name,
}


def passes(kind: str, text: object) -> bool:
    try:
        return CHECKS[kind]("field", text) == (normalize("NFC", text) if isinstance(text, str) else text)
    except ValidationError:
        return False


def shared_names() -> list[dict[str, Any]]:
    return json.loads(SHARED.read_text()) if SHARED.exists() else []


def test_core_and_manifest_agree_on_every_shared_name() -> None:
    wrong = [row for row in shared_names() if passes(row["kind"], row["text"]) is not row["ok"]]
    assert wrong == []


@pytest.mark.parametrize("kind", CHECKS)
@pytest.mark.parametrize(
    "value", ["", "a\n", "\na", "\ud800", "a\u200b", "a\u00a0", " ", "a b", None, 7, True, b"a", ["a"], {}]
)
def test_no_kind_of_name_takes_these(kind: str, value: object) -> None:
    assert not passes(kind, value)


@pytest.mark.parametrize(
    ("kind", "longest"), [("entity", "1" * 256), ("resource", "r" * 128), ("limit", "l" * 64), ("namespace", "n" * 64)]
)
def test_names_have_a_longest(kind: str, longest: str) -> None:
    assert passes(kind, longest)
    assert not passes(kind, longest + "x")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("entity", "1:user@example.com"),
        ("resource", "openai/gpt-4"),
        ("resource", "anthropic.claude-v2:1"),
        ("limit", "t_p-m.1"),
    ],
)
def test_names_may_hold_these(kind: str, name: str) -> None:
    assert passes(kind, name)


def test_a_check_repeated_gives_the_same_answer() -> None:
    assert [passes("entity", value) for value in ("good", "good", "b d", "b d")] == [True, True, False, False]


@pytest.mark.parametrize("name", naming.RESERVED_LIMIT_NAMES)
def test_a_limit_is_not_named_like_an_attribute(name: str) -> None:
    with pytest.raises(InvalidNameError, match="reserved"):
        naming.check_limit_name("limit", name)


def test_the_default_resource_passes_only_where_it_may() -> None:
    assert naming.check_resource("resource", "_default_", allow_default=True) == "_default_"
    with pytest.raises(InvalidIdentifierError, match="reserved"):
        naming.check_resource("resource", "_default_")


def test_a_refusal_names_field_value_and_type() -> None:
    with pytest.raises(InvalidIdentifierError, match="must be a string, not int") as caught:
        naming.check_identifier("entity_id", 5)
    assert (caught.value.field, caught.value.value) == ("entity_id", 5)


@given(st.text())
def test_what_passes_holds_neither_white_space_nor_what_no_one_sees(text: str) -> None:
    for kind in CHECKS:
        if passes(kind, text):
            assert text.isprintable()
            assert not any(map(str.isspace, text))


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=300))
def test_names_are_measured_as_they_are_written_in_a_url(text: str) -> None:
    name = normalize("NFC", text)
    size = len(quote(name, safe=":@"))
    assert passes("entity", text) is (len(name) <= 256 and size <= 512)
    assert passes("resource", text) is (len(name) <= 128 and size <= 384 and not name.endswith("*"))


@pytest.mark.parametrize(
    ("text", "name"), [("e\u0301", "é"), ("\u212b", "Å"), ("\u212a", "K"), ("\u1112\u1161\u11ab", "한")]
)
def test_all_spellings_of_a_name_are_one(text: str, name: str) -> None:
    assert naming.check_identifier("entity_id", text) == naming.check_identifier("entity_id", name) == name
    assert (
        naming.check_resource("resource", text, allow_default=True) == naming.check_resource("resource", name) == name
    )


def test_a_spelling_may_be_longer_than_the_name() -> None:
    assert naming.check_identifier("entity_id", "a" * 200 + "e\u0301" * 50) == "a" * 200 + "é" * 50
    with pytest.raises(InvalidIdentifierError, match="at most 512 bytes"):
        naming.check_identifier("entity_id", "e\u0301" * 100_000)


class Model(str, Enum):  # noqa: UP042  this is what programs have
    """What many programs have for their resources; its format is not its value everywhere."""

    GPT = "gpt-4"


def test_a_name_is_a_plain_string_whatever_class_it_came_in() -> None:
    assert type(naming.check_resource("resource", Model.GPT)) is str
    assert f"{naming.check_identifier('entity_id', Model.GPT)}" == "gpt-4"


@pytest.mark.parametrize("subject", ["$SYSTEM", "$RESOURCE:r", "$RESOURCE:"])
def test_no_entity_has_the_subject_of_a_level(subject: str) -> None:
    with pytest.raises(InvalidIdentifierError, match="reserved"):
        naming.check_identifier("entity_id", subject)


async def test_a_limit_may_have_the_name_of_any_attribute(world: World) -> None:
    limiter, _ = await world.process()
    repository, names = limiter.repository, ["entity_id", "PK", "rf", "ttl", "window", "metadata", "cascade"]
    await repository.set_limits("e", [Limit.per_minute(name, 5) for name in names], "r")
    async with limiter.acquire("e", "r", dict.fromkeys(names, 1)):
        pass
    assert await limiter.available("e", "r") == dict.fromkeys(names, 4)
    seen = UsageSnapshot("e", "r", "daily", datetime(2026, 1, 1, tzinfo=UTC), dict.fromkeys(sorted(names), 1), 1)
    assert read_usage(usage_item(repository.namespace_id, seen)) == seen
