"""The changes of a whole namespace since an instant, newest first; in both variants."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from support.core.worlds import World, take
from zae_limiter import Limit, ValidationError
from zae_limiter.operations.values import BatchGet, Put, Scan

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)


def ago(world: World, **of: float) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) - timedelta(**of)


def said(page: Any) -> list[tuple[str, str, str | None]]:
    return [(event.action, event.entity_id, event.principal) for event in page.events]


async def changed(world: World) -> Any:
    """A repository whose namespace was changed two hours ago, and five times within the last minutes."""
    limiter, _ = await world.process()
    repository = limiter.repository
    await repository.set_system_defaults([RPM], principal="old")
    world.clock.advance(seconds=7200)
    await repository.create_entity("e", principal="ann")
    world.clock.advance(seconds=60)
    await repository.set_resource_defaults("r", [RPM], principal="bob")
    world.clock.advance(seconds=60)
    await repository.set_limits("e", [TPM], "r", override_until=ago(world, hours=-1), principal="ann")
    world.clock.advance(seconds=60)
    await take(limiter, "f", "r", rpm=1)
    await repository.reset_bucket("f", "r")
    world.clock.advance(seconds=60)
    await repository.set_limits("e", [TPM], "r", principal="bob")
    return repository


async def test_changes_of_all_subjects_come_newest_first(world: World) -> None:
    repository = await changed(world)
    page = await repository.get_namespace_audit_events(ago(world, hours=1))
    assert said(page) == [
        ("limits_set", "e", "bob"),
        ("bucket_reset", "f", None),
        ("override_set", "e", "ann"),
        ("limits_set", "$RESOURCE:r", "bob"),
        ("entity_created", "e", "ann"),
    ]
    assert page.next is None
    older = await repository.get_namespace_audit_events(ago(world, hours=3))
    assert said(older)[-1] == ("limits_set", "$SYSTEM", "old")
    assert older.events[:5] == page.events


async def test_the_instant_itself_is_included(world: World) -> None:
    repository = await changed(world)
    assert len((await repository.get_namespace_audit_events(ago(world, seconds=0))).events) == 1
    assert not (await repository.get_namespace_audit_events(ago(world, seconds=-1))).events


async def test_one_author_and_one_kind_are_found(world: World) -> None:
    repository, since = await changed(world), ago(world, hours=1)
    by_ann = await repository.get_namespace_audit_events(since, principal="ann")
    assert said(by_ann) == [("override_set", "e", "ann"), ("entity_created", "e", "ann")]
    limits = await repository.get_namespace_audit_events(since, kind="limits")
    assert said(limits) == [("limits_set", "e", "bob"), ("limits_set", "$RESOURCE:r", "bob")]
    assert not (await repository.get_namespace_audit_events(since, principal="ann", kind="bucket")).events


def as_before(world: World, repository: Any, number: int) -> None:
    """Have the first events as they were written before GSI4 had their time."""
    events = [item for item in world.table.execute(Scan(limit=1000)).items if item["SK"].startswith("#AUDIT#")]
    for item in sorted(events, key=lambda each: each["SK"])[:number]:
        world.table.execute(Put({**item, "GSI4SK": item["PK"]}))


@pytest.mark.parametrize("number", [0, 3, 6])
@pytest.mark.parametrize("wanted", [{}, {"principal": "bob"}])
async def test_pages_have_each_change_once(world: World, wanted: dict[str, Any], number: int) -> None:
    repository, since = await changed(world), ago(world, hours=3)
    whole = await repository.get_namespace_audit_events(since, **wanted)
    as_before(world, repository, number)
    assert await repository.get_namespace_audit_events(since, **wanted) == whole
    found: list[Any] = []
    start: str | None = None
    while True:
        page = await repository.get_namespace_audit_events(since, limit=1, start=start, **wanted)
        found += page.events
        start = page.next
        if start is None:
            break
    assert tuple(found) == whole.events


@pytest.mark.parametrize("wanted", [{}, {"principal": "bob"}, {"kind": "entity"}])
async def test_pages_have_each_change_once_though_memory_holds_few_keys(
    world: World, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, since = await changed(world), ago(world, hours=1)
    whole = await repository.get_namespace_audit_events(since, **wanted)
    assert whole.events
    as_before(world, repository, 5)
    monkeypatch.setattr("zae_limiter.flows.records.audit.MOST_ROWS", 2)
    found: list[Any] = []
    page = await repository.get_namespace_audit_events(since, **wanted)
    while True:
        assert len(page.events) <= 3  # of which one is by time
        found += page.events
        if page.next is None:
            break
        page = await repository.get_namespace_audit_events(since, start=page.next, **wanted)
    assert tuple(found) == whole.events


async def test_only_late_events_are_read(world: World) -> None:
    limiter, wire = await world.process()
    for _ in range(150):
        await limiter.repository.set_limits("e", [RPM], "r")
    world.clock.advance(seconds=100)
    await limiter.repository.set_limits("e", [TPM], "r")
    wire.sent()
    await limiter.repository.get_namespace_audit_events(ago(world, seconds=50))
    assert wire.sent() == ["Query", "Query", "BatchGet"]


async def test_a_page_reads_its_own_events_alone(world: World) -> None:
    limiter, _ = await world.process()
    for _ in range(150):
        await limiter.repository.set_limits("e", [RPM], "r")
    read: list[int] = []
    answer = world.table.execute

    def counted(operation: Any) -> Any:
        read.append(len(operation.keys) if isinstance(operation, BatchGet) else 0)
        return answer(operation)

    with patch.object(world.table, "execute", counted):
        page = await limiter.repository.get_namespace_audit_events(ago(world, hours=1), limit=3)
        assert (len(page.events), sum(read)) == (3, 4)
        await limiter.repository.get_namespace_audit_events(ago(world, hours=1), limit=3, start=page.next)
    assert sum(read) < 10


async def test_other_namespaces_have_their_own(world: World) -> None:
    repository = await changed(world)
    other, _ = await world.process("other")
    await other.repository.set_system_defaults([RPM], principal="eve")
    assert said(await other.repository.get_namespace_audit_events(ago(world, hours=1))) == [
        ("limits_set", "$SYSTEM", "eve")
    ]
    assert len((await repository.get_namespace_audit_events(ago(world, hours=1))).events) == 5


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("since", {"since": datetime(2026, 1, 1)}),  # noqa: DTZ001
        ("since", {"since": "1h"}),
        ("principal", {"principal": ""}),
        ("kind", {"kind": "limit"}),
        ("limit", {"limit": 0}),
        ("start", {"start": ""}),
    ],
)
async def test_bad_input_is_refused(world: World, field: str, given: dict[str, Any]) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError, match=field):
        await limiter.repository.get_namespace_audit_events(**{"since": ago(world, hours=1), **given})
    assert wire.sent() == []
