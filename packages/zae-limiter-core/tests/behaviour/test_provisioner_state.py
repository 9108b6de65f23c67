"""A provisioner's state comes back whole or not at all, however large; in both variants."""

from dataclasses import replace
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import Process, World, outcomes
from zae_limiter import RateLimiterUnavailable, SyncRepository, ValidationError
from zae_limiter.exceptions import StaleStateError, StoreRefusedError
from zae_limiter.flows.steps import call
from zae_limiter.maintenance import (
    HandledEvent,
    ProvisionerLock,
    ProvisionerState,
    SyncMaintenance,
    note_progress,
    peek_state,
    request_stop,
    run,
)
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.sizes import item_size
from zae_limiter.operations.values import Delete, Get, Item, Key, Put, Query, Update
from zae_limiter.schema import keys
from zae_limiter.schema.provisioner import parse_part_sk, part_numbers, serial_of
from zae_limiter.values.provisioner import ApplyProgress

SMALL = ProvisionerState(
    managed_system=True,
    managed_resources=("gpt-4", "gpt-3.5"),
    managed_entities={"key-b": ("gpt-4", "_default_"), "key-a": ("gpt-4",)},
    last_applied="2026-01-01T00:00:00Z",
    applied_hash="sha256:abc",
    owner="cli",
    lock=ProvisionerLock("lock-1", "cli", 1_700_000_000_000),
    intended_system=True,
    intended_resources=("gpt-5",),
    intended_entities={"key-c": ("_default_",)},
    handled=(HandledEvent("event-1", ok=True), HandledEvent("event-2", ok=False)),
)


def large(entities: int = 50_000, **fields: Any) -> ProvisionerState:
    managed = {f"123e4567-e89b-12d3-a456-{number:012d}": ("_default_", "openai/gpt-4") for number in range(entities)}
    return ProvisionerState(managed_entities=managed, managed_resources=("gpt-4",), **fields)


def stored(world: World, process: Process) -> list[Item]:
    pk = keys.pk_system(process.repository.namespace_id)
    found: list[Item] = world.table.execute(Query(pk, begins_with=keys.PROVISIONER_PREFIX)).items
    return found


async def test_where_there_is_none_it_is_empty(world: World) -> None:
    process = await world.process()
    state = await maintenance_of(process.repository).get_provisioner_state()
    assert state == ProvisionerState()
    assert state.serial == 0


async def test_a_state_comes_back_under_the_next_serial(world: World) -> None:
    process = await world.process()
    put = await maintenance_of(process.repository).put_provisioner_state(SMALL, expected_serial=0)
    assert put == replace(SMALL, serial=1)
    assert await maintenance_of(process.repository).get_provisioner_state() == put
    freed = await maintenance_of(process.repository).put_provisioner_state(replace(put, lock=None), expected_serial=1)
    assert (freed.serial, freed.lock) == (2, None)
    assert await maintenance_of(process.repository).get_provisioner_state() == freed


async def test_a_small_state_is_one_item_with_the_attributes_of_the_schema(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).put_provisioner_state(SMALL, expected_serial=0)
    (item,) = stored(world, process)
    assert item["managed_system"] is True
    assert item["managed_resources"] == ["gpt-3.5", "gpt-4"]
    assert item["managed_entities"] == {"key-a": ["gpt-4"], "key-b": ["_default_", "gpt-4"]}
    assert (item["SK"], item["serial"], item["owner"]) == ("#PROVISIONER", 1, "cli")


async def test_that_nothing_was_to_do_is_one_write_and_leaves_the_serial(world: World) -> None:
    process = await world.process()
    put = await maintenance_of(process.repository).put_provisioner_state(large(4_000), expected_serial=0)
    process.wire.sent()
    at = await maintenance_of(process.repository).note_applied(expected_serial=1)
    assert process.wire.sent() == ["Update"]
    assert await maintenance_of(process.repository).get_provisioner_state() == replace(put, last_applied=at)
    with pytest.raises(StaleStateError):
        await maintenance_of(process.repository).note_applied(expected_serial=2)


async def test_the_last_twenty_events_are_remembered(world: World) -> None:
    events = [HandledEvent(f"event-{number}", ok=True) for number in range(25)]
    assert ProvisionerState(handled=events).handled == tuple(events[5:])


async def test_what_is_intended_may_be_large_too(world: World) -> None:
    process = await world.process()
    names = large(9_000).managed_entities
    put = await maintenance_of(process.repository).put_provisioner_state(
        ProvisionerState(intended_entities=names), expected_serial=0
    )
    assert len(stored(world, process)) > 2
    assert await maintenance_of(process.repository).get_provisioner_state() == put


async def test_namespaces_have_states_of_their_own(world: World) -> None:
    one, two = await world.process("one"), await world.process("two")
    await maintenance_of(one.repository).put_provisioner_state(SMALL, expected_serial=0)
    assert await maintenance_of(two.repository).get_provisioner_state() == ProvisionerState()


@pytest.mark.slow
@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_another_serial_than_expected_stores_nothing(world: World, expected: int) -> None:
    process = await world.process()
    for serial in range(2):
        await maintenance_of(process.repository).put_provisioner_state(SMALL, expected_serial=serial)
    before = stored(world, process)
    with pytest.raises(StaleStateError) as caught:
        await maintenance_of(process.repository).put_provisioner_state(large(7_000), expected_serial=expected)
    assert (caught.value.expected_serial, caught.value.serial) == (expected, 2)
    assert stored(world, process) == before


async def test_of_eight_that_store_at_once_one_wins(world: World) -> None:
    process = await world.process()
    states = [replace(SMALL, owner=f"owner-{number}") for number in range(8)]
    put = maintenance_of(process.repository).put_provisioner_state
    found = await outcomes(*(put(state, expected_serial=0) for state in states))
    (won,) = [each for each in found if isinstance(each, ProvisionerState)]
    assert [type(each) for each in found].count(StaleStateError) == 7
    assert await maintenance_of(process.repository).get_provisioner_state() == won


@pytest.mark.long
@pytest.mark.slow
async def test_fifty_thousand_entities_come_back_in_parts_that_fit_into_items(world: World) -> None:
    process = await world.process()
    put = await maintenance_of(process.repository).put_provisioner_state(large(), expected_serial=0)
    items = stored(world, process)
    assert len(items) > 10
    assert max(item_size(item) for item in items) < 400 * 1024
    assert all(item["GSI4PK"] == process.repository.namespace_id for item in items)
    assert await maintenance_of(process.repository).get_provisioner_state() == put == replace(large(), serial=1)


async def test_parts_that_are_needed_no_more_are_removed(world: World) -> None:
    process = await world.process()
    put = maintenance_of(process.repository).put_provisioner_state
    await put(large(7_000), expected_serial=0)
    first = {item["SK"] for item in stored(world, process)}
    await put(large(7_000), expected_serial=1)
    second = {item["SK"] for item in stored(world, process)}
    assert first & second == {"#PROVISIONER"}
    await put(SMALL, expected_serial=2)
    assert [item["SK"] for item in stored(world, process)] == ["#PROVISIONER"]


@pytest.mark.long(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize("writes", range(6))
async def test_a_write_that_is_killed_anywhere_leaves_the_state_before_whole(world: World, writes: int) -> None:
    process, dying = await world.process(), await world.process()
    before = await maintenance_of(process.repository).put_provisioner_state(
        large(4_000, owner="before"), expected_serial=0
    )
    wanted = large(7_000, owner="after")
    seen = 0

    def dies(operation: object) -> bool:
        nonlocal seen
        seen += isinstance(operation, Put)
        return seen > writes

    kill(dying, dies)
    try:
        after = await maintenance_of(dying.repository).put_provisioner_state(wanted, expected_serial=1)
    except RateLimiterUnavailable:
        after = before
    assert await maintenance_of(process.repository).get_provisioner_state() == after
    again = await maintenance_of(process.repository).put_provisioner_state(wanted, expected_serial=after.serial)
    assert await maintenance_of(process.repository).get_provisioner_state() == again
    assert {serial_of(parse_part_sk(item["SK"])) for item in stored(world, process)} == {0, again.serial}


def kill(process: Process, dies: Any) -> None:
    """From the operation on for which it says so, nothing reaches the table any more."""
    answer = process.wire.answer

    def mortal(operation: Any) -> Any:
        if dies(operation):
            raise Unreachable("killed")
        return answer(operation)

    process.wire.answer = mortal  # type: ignore[method-assign]


async def test_two_writers_of_large_states_do_not_mix(world: World) -> None:
    process = await world.process()
    states = [large(4_000, owner=f"owner-{number}") for number in range(3)]
    found = await outcomes(
        *(maintenance_of(process.repository).put_provisioner_state(state, expected_serial=0) for state in states)
    )
    (won,) = [each for each in found if isinstance(each, ProvisionerState)]
    assert await maintenance_of(process.repository).get_provisioner_state() == won


async def test_a_reader_that_a_write_overtakes_reads_the_new_state(world: World) -> None:
    process, other = await world.process(), await world.process()
    put = maintenance_of(process.repository).put_provisioner_state
    await put(large(4_000), expected_serial=0)
    head = next(item for item in stored(world, process) if item["SK"] == "#PROVISIONER")
    new = await put(large(5_000), expected_serial=1)
    answer, old = other.wire.answer, [head]
    other.wire.answer = lambda operation: old.pop() if isinstance(operation, Get) and old else answer(operation)  # type: ignore[method-assign]
    assert await maintenance_of(other.repository).get_provisioner_state() == new


async def test_a_state_whose_parts_are_gone_or_of_another_write_is_never_read(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).put_provisioner_state(large(4_000), expected_serial=0)
    part = next(item for item in stored(world, process) if item["SK"] != "#PROVISIONER")
    for damage in (
        Put(part | {"tag": part["tag"] + 1}),
        Put(part | {"serial": 9}),
        Delete(Key(part["PK"], part["SK"])),
    ):
        world.table.execute(damage)
        with pytest.raises(RateLimiterUnavailable, match="the provisioner's state is damaged"):
            await maintenance_of(process.repository).get_provisioner_state()


async def test_a_write_whose_answer_was_lost_is_found_to_be_stored(world: World) -> None:
    process = await world.process()
    process.wire.break_once(OutcomeUnknown("slow"), on=Put, applied=True)
    put = await maintenance_of(process.repository).put_provisioner_state(SMALL, expected_serial=0)
    assert await maintenance_of(process.repository).get_provisioner_state() == put


async def test_what_is_no_state_is_refused_before_any_request(world: World) -> None:
    process = await world.process()
    put: Any = maintenance_of(process.repository).put_provisioner_state
    for state, serial in (({}, 0), (SMALL, -1), (SMALL, True), (SMALL, "1"), (SMALL, None)):
        with pytest.raises(ValidationError):
            await put(state, expected_serial=serial)
    assert process.wire.sent() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"managed_system": 1},
        {"managed_resources": "gpt-4"},
        {"managed_resources": ["a b"]},
        {"managed_resources": 7},
        {"managed_entities": ["a"]},
        {"handled": 7},
        {"managed_resources": ["_default_"]},
        {"managed_entities": {"a b": ["gpt-4"]}},
        {"managed_entities": {"a": []}},
        {"managed_entities": {"a": "gpt-4"}},
        {"last_applied": 3},
        {"applied_hash": ""},
        {"owner": "x" * 2049},
        {"serial": -1},
        {"lock": {"id": "x"}},
        {"intended_system": 1},
        {"intended_entities": {"a": []}},
        {"handled": ["event"]},
    ],
    ids=str,
)
def test_a_state_is_valid_by_construction(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProvisionerState(**fields)


@pytest.mark.parametrize("fields", [("", "cli", 1), ("id", "", 1), ("id", "cli", -1), ("id", "cli", 1.5)])
def test_a_lock_is_valid_by_construction(fields: Any) -> None:
    with pytest.raises(ValidationError):
        ProvisionerLock(*fields)


def test_parts_of_two_writes_never_share_a_number() -> None:
    numbers = [*part_numbers(7, 1, 99), *part_numbers(7, 2, 99), *part_numbers(8, 1, 99)]
    assert len(set(numbers)) == 297
    assert [serial_of(number) for number in numbers[::99]] == [7, 7, 8]
    assert parse_part_sk(keys.sk_provisioner(numbers[0])) == numbers[0]
    assert parse_part_sk(keys.sk_provisioner()) == 0
    for other in (keys.sk_version(), keys.sk_config(), "#PROVISIONERS"):
        with pytest.raises(ValueError, match="not of a provisioner's state"):
            parse_part_sk(other)


PROGRESS = ApplyProgress(200, 5_001, 1_000, 3_000)


def test_progress_and_a_stop_are_of_the_apply_that_holds_the_lock_and_gone_with_it() -> None:
    repository = SyncRepository.in_memory()
    state = repository.namespace_state
    SyncMaintenance(repository).put_provisioner_state(SMALL, expected_serial=0)
    assert run(repository, note_progress(state, PROGRESS, expected_serial=1)) is None
    run(repository, request_stop(state, "bob", expected_serial=1))
    assert run(repository, note_progress(state, PROGRESS, expected_serial=1)) == "bob"
    held = SyncMaintenance(repository).get_provisioner_state()
    assert held == replace(SMALL, serial=1, progress=PROGRESS, stop="bob")
    assert run(repository, peek_state(state)) == held
    stored = SyncMaintenance(repository).put_provisioner_state(replace(held, lock=None), expected_serial=1)
    assert stored == SyncMaintenance(repository).get_provisioner_state() == replace(SMALL, serial=2, lock=None)


def test_progress_of_a_lock_that_is_gone_is_refused() -> None:
    repository = SyncRepository.in_memory()
    state = repository.namespace_state
    for flow in (note_progress(state, PROGRESS, expected_serial=1), request_stop(state, "bob", expected_serial=1)):
        with pytest.raises(StaleStateError):
            run(repository, flow)
    assert SyncMaintenance(repository).get_provisioner_state() == ProvisionerState()


def test_a_peek_reads_one_item_however_large_the_state() -> None:
    repository = SyncRepository.in_memory()
    assert run(repository, peek_state(repository.namespace_state)) == ProvisionerState()
    SyncMaintenance(repository).put_provisioner_state(large(20_000, owner="cli"), expected_serial=0)
    peeked = run(repository, peek_state(repository.namespace_state))
    assert (peeked.owner, peeked.serial, peeked.managed_entities) == ("cli", 1, {})


@pytest.mark.parametrize("stored", [7, {}, {"done": -1, "total": 1, "began_at": 0, "at": 0}], ids=str)
def test_progress_that_is_none_is_unreadable(stored: object) -> None:
    repository = SyncRepository.in_memory()
    SyncMaintenance(repository).put_provisioner_state(SMALL, expected_serial=0)
    key = Key(keys.pk_system(repository.namespace_id), keys.sk_provisioner())
    run(repository, call(Update(key, set={"progress": stored})))
    with pytest.raises(StoreRefusedError, match="PROVISIONER"):
        SyncMaintenance(repository).get_provisioner_state()
