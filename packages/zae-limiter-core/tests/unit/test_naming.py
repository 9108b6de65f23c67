import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.worlds import World
from zae_limiter import HandledEvent, Limit, ProvisionerLock, ProvisionerState, StoredConfig, VersionRecord, naming
from zae_limiter.exceptions import InvalidIdentifierError, InvalidNameError, ValidationError
from zae_limiter.operations.values import Put
from zae_limiter.schema.usage import usage_item
from zae_limiter.usage import UsageSnapshot

SHARED = Path(__file__).parents[4] / "testdata" / "names.json"
CHECKS: dict[str, Callable[[str, object], str]] = {
    "namespace": naming.check_namespace,
    "resource": naming.check_resource,
    "resource_or_default": partial(naming.check_resource, allow_default=True),
    "entity": naming.check_identifier,
    "parent": naming.check_identifier,
    "limit": naming.check_limit_name,
}


def passes(kind: str, text: object) -> bool:
    try:
        return CHECKS[kind]("field", text) == text
    except ValidationError:
        return False


def shared_names() -> list[dict[str, Any]]:
    return json.loads(SHARED.read_text()) if SHARED.exists() else []


def test_core_and_manifest_agree_on_every_shared_name() -> None:
    wrong = [row for row in shared_names() if passes(row["kind"], row["text"]) is not row["ok"]]
    assert wrong == []


@pytest.mark.parametrize("kind", CHECKS)
@pytest.mark.parametrize(
    "value", ["", "a#b", "a\n", "\na", "é", "aé", "a\u0661", "_", "a b", None, 7, True, b"a", ["a"], {}]
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
    assert [passes("entity", value) for value in ("good", "good", "b#d", "b#d")] == [True, True, False, False]


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
def test_nothing_that_passes_holds_a_key_separator(text: str) -> None:
    for kind in CHECKS:
        if passes(kind, text):
            assert text.isascii()
            assert "#" not in text


async def test_no_limit_has_the_name_of_an_attribute_of_a_record(world: World) -> None:
    """Every kind of record is written, and what stands in the table is looked at."""
    limiter, _ = await world.process()
    repository, limit = limiter.repository, Limit.per_minute("a-limit", 5, burst=9)
    await limiter.set_system_defaults([limit], "allow")
    await repository.put_configs({("child", "r"): StoredConfig((limit,), None, "sha256:x")})
    await limiter.create_entity("parent")
    await limiter.create_entity("child", "a name", "parent", cascade=True, metadata={"team": "x"})
    async with limiter.acquire("child", "r", {"a-limit": 1}):
        pass
    await repository.credit_bucket("child", "r", {"a-limit": 1})
    managed = {"managed_resources": ("r",), "intended_resources": ("s",), "intended_system": True, "owner": "cli"}
    applied = {"last_applied": "2026-01-01T00:00:00Z", "applied_hash": "sha256:x"}
    lock, handled = ProvisionerLock("1", "cli", 1), (HandledEvent("1", ok=True),)
    state = ProvisionerState(**managed, **applied, lock=lock, handled=handled)  # type: ignore[arg-type]
    await repository.put_provisioner_state(state, expected_serial=0)
    await repository.set_version_record(VersionRecord(1, "0.1.0", "0.1.0"))
    seen = UsageSnapshot("child", "r", "daily", datetime(2026, 1, 1, tzinfo=UTC), {"a-limit": 1}, 1)
    world.table.execute(Put(usage_item(repository.namespace_id, seen)))
    await repository.register_namespace("other")
    await repository.purge_namespace((await repository.delete_namespace("other")).namespace_id)
    names = {name for item in world.table._items.values() for name in item}
    assert {"child_count", "fingerprint", "serial", "ttl", "deleted_at", "schema_version"} <= names
    assert {name for name in names if passes("limit", name) and not name.startswith(("b_", "l_"))} == {"a-limit"}
