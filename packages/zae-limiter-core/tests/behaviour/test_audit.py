"""Every change of limits and entities is told, by whom, from what to what, in the transaction of the change."""

from typing import Any

import pytest

from support.core.wires import SyncWireStore, WireStore
from support.core.worlds import World, take
from zae_limiter import EntityNotFoundError, Limit, RateLimiter, ValidationError
from zae_limiter.exceptions import ContentionError, EntityExistsError, StoreRefusedError
from zae_limiter.operations.errors import ConditionFailed, OutcomeUnknown, Reason, TransactionCancelled
from zae_limiter.operations.values import Query, Transact
from zae_limiter.schema import keys
from zae_limiter.values.audit import AuditEvent

RPM, TPM = Limit.per_minute("rpm", 60), Limit.custom("tpm", 100, refill_amount=10, refill_period=2, burst=300)
RPM_PLAIN = {"capacity": 60, "burst": 60, "refill_amount": 60, "refill_period": 60}
TPM_PLAIN = {"capacity": 100, "burst": 300, "refill_amount": 10, "refill_period": 2}


async def told(limiter: RateLimiter, entity_id: str) -> tuple[AuditEvent, ...]:
    return (await limiter.repository.get_audit_events(entity_id)).events


def summary(event: AuditEvent) -> tuple[Any, ...]:
    return event.action, event.principal, event.resource, event.before, event.after


@pytest.mark.parametrize(
    ("audited_as", "resource"), [("$SYSTEM", None), ("$RESOURCE:openai/gpt-4", "openai/gpt-4"), ("e", "r")]
)
async def test_a_change_of_limits_tells_what_was_and_what_is(
    world: World, audited_as: str, resource: str | None
) -> None:
    limiter, _ = await world.process()
    setters: dict[str, Any] = {
        "$SYSTEM": lambda limits, who: limiter.set_system_defaults(limits, principal=who),
        "$RESOURCE:openai/gpt-4": lambda limits, who: limiter.set_resource_defaults(
            "openai/gpt-4", limits, principal=who
        ),
        "e": lambda limits, who: limiter.set_limits("e", limits, "r", principal=who),
    }
    deleters: dict[str, Any] = {
        "$SYSTEM": lambda who: limiter.delete_system_defaults(principal=who),
        "$RESOURCE:openai/gpt-4": lambda who: limiter.delete_resource_defaults("openai/gpt-4", principal=who),
        "e": lambda who: limiter.delete_limits("e", "r", principal=who),
    }
    await setters[audited_as]([RPM], "ann")
    await setters[audited_as]([RPM, TPM], None)
    await deleters[audited_as]("bob@example.org")
    first = {"limits": {"rpm": RPM_PLAIN}, "config_version": 1}
    second = {"limits": {"rpm": RPM_PLAIN, "tpm": TPM_PLAIN}, "config_version": 2}
    events = await told(limiter, audited_as)
    assert [summary(event) for event in events] == [
        ("limits_deleted", "bob@example.org", resource, second, None),
        ("limits_set", None, resource, first, second),
        ("limits_set", "ann", resource, None, first),
    ]
    assert {event.entity_id for event in events} == {audited_as}
    assert {event.at for event in events} == {"2023-11-14T22:13:20.000Z"}


async def test_the_policy_of_the_system_is_told_too(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([RPM], "allow")
    await limiter.set_system_defaults([TPM])
    after = [event.after or {} for event in await told(limiter, "$SYSTEM")]
    assert [each["on_unavailable"] for each in after] == ["allow", "allow"]


async def test_removing_what_is_not_there_changes_nothing_and_is_not_told(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.delete_system_defaults()
    await limiter.delete_limits("e", "r")
    assert wire.sent() == ["Get", "Get", "BatchGet"]  # the last one looks for a bucket to tell
    assert [await told(limiter, audited_as) for audited_as in ("$SYSTEM", "e")] == [(), ()]


async def test_what_happens_to_an_entity_is_told(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("e", "A key", metadata={"team": "blue"}, principal="ann")
    await limiter.repository.update_entity("e", parent_id="p", cascade=True, principal="bob")
    await limiter.set_limits("e", [RPM], "r")
    await limiter.delete_entity("e", principal="eve")
    made = {"name": "A key", "parent_id": None, "cascade": False, "metadata": {"team": "blue"}, "version": 1}
    moved = {**made, "parent_id": "p", "cascade": True, "version": 2}
    gone = {**moved, "configs": {"r": {"limits": {"rpm": RPM_PLAIN}, "config_version": 1}}}
    deleted, _, updated, created = [summary(event) for event in await told(limiter, "e")]
    assert created == ("entity_created", "ann", None, None, made)
    assert updated == ("entity_updated", "bob", None, made, moved)
    assert deleted == ("entity_deleted", "eve", None, gone, None)


async def test_a_change_that_was_refused_is_not_told(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("e")
    with pytest.raises(EntityExistsError):
        await limiter.create_entity("e")
    with pytest.raises(EntityNotFoundError):
        await limiter.create_entity("c", parent_id="nobody")
    assert len(await told(limiter, "e")) == 1
    assert await told(limiter, "c") == ()


async def test_events_come_newest_first_and_page_by_page(world: World) -> None:
    limiter, _ = await world.process()
    for capacity in range(1, 8):
        await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", capacity)])
        if capacity % 3 == 0:
            world.clock.advance(seconds=1)
    pages, start = [], None
    while True:
        page = await limiter.repository.get_audit_events("$RESOURCE:r", limit=3, start=start)
        pages.append([(event.after or {})["config_version"] for event in page.events])
        if (start := page.next) is None:
            break
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]


async def test_events_of_one_are_not_those_of_another(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [RPM])
    other = await limiter.repository.namespace("other")
    assert (await other.get_audit_events("e")).events == ()
    assert await told(limiter, "e-2") == ()
    assert (await limiter.repository.get_audit_events()).events == ()


@pytest.mark.parametrize(("days", "expires_at"), [(90, 90 * 86_400), (1, 86_400), (0, None)])
async def test_events_expire_after_the_days_that_were_chosen(world: World, days: int, expires_at: int | None) -> None:
    limiter, _ = await world.process(audit_retention_days=days)
    await limiter.set_limits("e", [RPM])
    [item] = world.table.execute(Query(keys.pk_audit(limiter.repository.namespace_id, "e"))).items
    assert item.get("ttl") == (None if expires_at is None else world.clock.now_ms() // 1000 + expires_at)
    world.clock.advance(seconds=90 * 86_400 + 1)
    world.expire()
    assert len(await told(limiter, "e")) == (days == 0)


async def test_a_change_whose_answer_was_lost_is_repeated_and_told_once(world: World) -> None:
    limiter, wire = await world.process()
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    await limiter.set_limits("e", [RPM], "r")
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    await limiter.create_entity("e")
    assert [event.action for event in await told(limiter, "e")] == ["entity_created", "limits_set"]
    assert [(event.after or {}).get("config_version") for event in await told(limiter, "e")] == [None, 1]


async def test_a_change_that_lost_a_race_tells_what_was_there_then(world: World) -> None:
    here, wire = await world.process()
    there, _ = await world.process()
    await here.set_limits("e", [RPM])
    lost = TransactionCancelled((Reason("ConditionalCheckFailed"), Reason(None)))
    wire.break_once(lost, on=Transact)
    await there.set_limits("e", [TPM])
    await here.set_limits("e", [RPM])
    newest = (await told(here, "e"))[0]
    assert newest.before == {"limits": {"tpm": TPM_PLAIN}, "config_version": 2}
    wire.break_down(lost, on=Transact)
    with pytest.raises(ContentionError, match="others changed the item"):
        await here.set_limits("e", [RPM])
    wire.break_down(ConditionFailed(), on=Query)
    with pytest.raises(StoreRefusedError):
        await here.repository.get_audit_events("e")


@pytest.mark.parametrize("principal", ["", "a" * 257, "line\nbreak", 7])
async def test_a_principal_has_1_to_256_printable_characters(world: World, principal: Any) -> None:
    limiter, wire = await world.process()
    for change in (
        lambda: limiter.set_system_defaults([RPM], principal=principal),
        lambda: limiter.delete_limits("e", principal=principal),
        lambda: limiter.create_entity("e", principal=principal),
        lambda: limiter.delete_entity("e", principal=principal),
        lambda: limiter.repository.set_many_limits({("e", "r"): [RPM]}, principal=principal),
    ):
        with pytest.raises(ValidationError, match="principal"):
            await change()
    assert wire.sent() == []
    await limiter.set_limits("e", [RPM], principal="Zoë / CI job #7")
    assert [event.principal for event in await told(limiter, "e")] == ["Zoë / CI job #7"]


@pytest.mark.parametrize(
    "asked",
    [
        {"entity_id": "$RESOURCE:a b"},
        {"entity_id": "$RESOURCE:"},
        {"entity_id": "a b"},
        {"entity_id": None},
        {"limit": 0},
        {"limit": 1001},
        {"limit": True},
        {"start": ""},
        {"start": 7},
    ],
)
async def test_bad_questions_are_refused_before_any_request(world: World, asked: dict[str, Any]) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError):
        await limiter.repository.get_audit_events(**asked)
    assert wire.sent() == []


async def test_the_store_knows_the_author_of_a_change_that_names_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def caller(_: object) -> str:
        asked.append("asked")
        return "arn:aws:iam::123456789012:user/ann"

    async def caller_async(store: object) -> str:
        return caller(store)

    monkeypatch.setattr(WireStore, "caller", caller_async)
    monkeypatch.setattr(SyncWireStore, "caller", caller)
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    assert asked == []
    await limiter.set_limits("e", [RPM], "r")
    await limiter.set_limits("e", [RPM], "r", principal="bob")
    assert [event.principal for event in await told(limiter, "e")] == ["bob", "arn:aws:iam::123456789012:user/ann"]
    assert asked == ["asked"]
