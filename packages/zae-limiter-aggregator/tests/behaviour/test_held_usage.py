"""What lives here: usage that waits in the state of Lambda's tumbling window, however the mapping delivers it, and what
it costs. What never does: what is counted (test_aggregation).
"""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from support.aggregator.damage import WITH_QUEUE, used
from support.aggregator.ledger import RESOURCES, Ledger, live
from support.aggregator.lives import START_MS, Killed, Life, MortalStore
from support.aggregator.streams import LABEL, Record, record
from support.aggregator.windows import Event, WindowedMapping
from zae_limiter.engines.meter import Meter
from zae_limiter.flows.records.registry import id_key
from zae_limiter.maintenance import Consumption, Use, stream_mark
from zae_limiter.operations.errors import Invalid, Throttled
from zae_limiter.operations.values import BatchGet, Key, Operation, Update
from zae_limiter.schema.attributes import PURGING
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import AuditEvent
from zae_limiter_aggregator.aggregation import HeldUsageError
from zae_limiter_aggregator.held import MOST_BYTES, PendingUse, TumblingWindow, pack, unpack

USAGE_WINDOW: Final = 30  # seconds, of the stack's mapping
AT: Final = "2024-01-01T10:00:00.000Z"
EVENT: Final = AuditEvent(f"{AT}-1", "e", "limits_set", None, AT, None, None, None)

TROUBLES = ("", "", "", "killed", "given up", "lost", "refused", "unknown")


@pytest.mark.long(keep=5)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_usage_is_exact_however_the_windows_are_delivered(seed: int) -> None:
    """Repeats, cuts, a lost or an older state, windows that end early, invocations that were given up and write later,
    answers that were lost, a table that refuses, and a former aggregator that began without a window.
    """
    chance, life, ledger = Random(seed), Life(), Ledger()
    life.repository.create_entity("parent")
    life.repository.create_entity("child", parent_id="parent", cascade=True)
    for _ in range(chance.randint(1, 4)):
        live(life, ledger, [deed(chance) for _ in range(chance.randint(1, 6))])
        life.clock.advance(chance.choice((0, 1, 300, 3700)))
        if chance.random() < 0.2:
            life.table.expire(life.clock.now_ms() // 1000)
    records = [each for each in life.stream if each["dynamodb"]["Keys"]["SK"]["S"] == "#STATE"]
    mapping = WindowedMapping(life, records)
    mapping.position = mapping.checkpoint = chance.choice((0, 0, chance.randint(0, len(records))))
    life.take(records[: mapping.position])  # as a release without windows
    deliver(mapping, chance)
    ledger.agree_with(life)


def deed(chance: Random) -> tuple[Any, ...]:
    """Whose call on which resource, of how much, corrected by how much after how long, and whether it fails."""
    entity, resource = chance.choice(("child", "other", "parent")), chance.choice(RESOURCES)
    seconds = chance.choice((0, 0, 1, 700))
    return entity, resource, chance.randint(1, 9), chance.randint(-1, 9), seconds, chance.random() < 0.3


def deliver(mapping: WindowedMapping, chance: Random) -> None:
    given_up: list[Event] = []
    while not mapping.is_done:
        event, end = drawn_event(mapping, chance)
        trouble = chance.choice(TROUBLES)
        if trouble == "given up":
            given_up.append(event)
        elif trouble == "lost":
            mapping.lose()
        else:
            if given_up and chance.random() < 0.3:
                mapping.invoke(given_up.pop())
            attempt(mapping, event, end, trouble, chance)
    for event in given_up:
        mapping.invoke(event)


def drawn_event(mapping: WindowedMapping, chance: Random) -> tuple[Event, int]:
    rest = len(mapping.records) - mapping.position
    end = mapping.position + min(rest, chance.randint(0, 8))
    ends = chance.random() < (0.2 if rest else 1)
    early = ends and chance.random() < 0.2
    return mapping.event(end, busy=chance.random() < 0.8, ends=ends and not early, early=early), end


def attempt(mapping: WindowedMapping, event: Event, end: int, trouble: str, chance: Random) -> None:
    store = MortalStore(mapping.life.table)
    if trouble == "killed":
        store = MortalStore(mapping.life.table, chance.randint(0, 6), applied=chance.random() < 0.5)
    elif trouble:
        store.failing = refusing(chance.choice(("child", "parent", "other")), trouble)
    try:
        answer = mapping.invoke(event, store)
    except (Killed, HeldUsageError):
        return
    older = bool(answer["failures"]) and chance.random() < 0.5
    mapping.accept(event, answer, end=end, state=event["state"] if older else None)


def refusing(entity_id: str, trouble: str) -> Callable[[Operation[Any]], Throttled | None]:
    """What fails: the usage of an entity, or the read of the namespaces."""

    def failing(operation: Operation[Any]) -> Throttled | None:
        is_usage = isinstance(operation, Update) and operation.set.get("entity_id") == entity_id
        is_look_up = isinstance(operation, BatchGet)
        return Throttled("slow") if (is_look_up if trouble == "unknown" else is_usage) else None

    return failing


# what waits, what does not, and what it costs

SECOND = 100  # changes in each second of a stream, each of another bucket


def busy_second(life: Life, second: int) -> list[Record]:
    first = 1 + SECOND * second
    return [used(life, first + number, f"key-{number:03}", uses=second + 1) for number in range(SECOND)]


@pytest.mark.long
def test_usage_of_a_busy_stream_costs_less_than_a_tenth_of_the_admissions() -> None:
    """10,000 calls a second over 10,000 buckets, a hundredth of them: each bucket is used once a second in any part.

    The second window is counted, after the first one has put the snapshots of the hour and of the day.
    """
    life, meter = Life(), Meter()
    mapping = WindowedMapping(life, [each for second in range(60) for each in busy_second(life, second)])
    life.table.meter = meter
    for second in range(60):
        if second == USAGE_WINDOW:
            meter.reset()
        end = SECOND * (second + 1)
        event = mapping.event(end, ends=(second + 1) % USAGE_WINDOW == 0)
        mapping.accept(event, mapping.invoke(event), end=end)
    assert (meter.write_units + meter.index_units) / (USAGE_WINDOW * SECOND) == 2 / USAGE_WINDOW < 0.1
    assert meter.requests["UpdateItem"] == 2 * SECOND
    assert {(each.entity_id, each.total_events) for each in life.usage("key-007")} == {("key-007", 60)}


def test_the_usage_of_a_quiet_stream_and_of_few_buckets_is_written_at_once() -> None:
    life = Life()
    few = [used(life, number, uses=number) for number in range(1, 101)]
    mapping = WindowedMapping(life, [*busy_second(life, 0)[:99], *few])
    for end in (99, 199):
        event = mapping.event(end)
        mapping.accept(event, mapping.invoke(event), end=end)
        assert mapping.state == {}
    assert [each.total_events for each in life.usage("key-007")] == [1]
    assert [each.total_events for each in life.usage("good")] == [100]


def test_nothing_but_usage_waits_for_the_end_of_a_window() -> None:
    life = Life()
    for seconds in (7200, 0):
        with life.limiter.acquire("hot", "gpt-4", {"tpm": 500}):
            pass
        life.clock.advance(seconds)
    key = Key(BucketId(life.repository.namespace_id, "hot", "gpt-4").pk, "#STATE")
    life.table.execute(Update(key, add={"b_wcu_tc": 900_000}))
    removed = record(9, audit_item("ns", EVENT, expires_at=1_700_000_000), None, by_ttl=True)
    result = life.take([*busy_second(life, 0), *life.stream, removed], window=TumblingWindow())
    assert (result.snapshots, result.refills, result.splits, result.archived) == (0, 1, 1, 1)
    assert (result.admitted, result.failures, len(result.window.held())) == (SECOND + 2, (), SECOND + 2)


def test_a_busy_batch_with_a_record_that_comes_again_is_written_whole() -> None:
    """Whether Lambda goes on with the state of before or of after, what comes before the record is counted."""
    life = Life()
    broken = used(life, 999)
    del broken["dynamodb"]["NewImage"]["rf"]
    result = life.take([*busy_second(life, 0), broken], window=TumblingWindow())
    assert ([each.sequence for each in result.failures], result.window.state) == (["999"], {})
    assert result.snapshots == 2 * SECOND


def test_a_state_has_room_for_what_a_stream_shard_writes_in_a_window() -> None:
    """1,000 changes a second for 30 seconds, each of a random bucket and amount."""
    chance, uses, number = Random(7), [], 10**23
    for _ in range(1_000):
        number += chance.randint(1, 2_000)
        bucket = BucketId("k3J9xQ2mZp1", f"customer-{chance.randrange(1_000) * 7919:08}", "gpt-4o-mini")
        consumed = Consumption({"rpm": 1_000, "tpm": chance.randint(50, 3_000)}, {"ev": 1})
        use = Use(stream_mark(LABEL, str(number)), consumed, START_MS, chance.randint(1, 10**6))
        uses.append(PendingUse(bucket, use, str(number)))
    assert sorted(unpack(pack(uses)), key=lambda each: each.use.mark) == uses
    assert MOST_BYTES / len(pack(uses)) * len(uses) > 35_000 > USAGE_WINDOW * 1_000


def test_a_state_that_is_nearly_full_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_aggregator.held.MOST_BYTES", 3_000)
    life, result, second = Life(), None, 0
    while result is None or not result.snapshots:
        result = life.take(busy_second(life, second), window=result.window if result else TumblingWindow())
        assert len(json.dumps(result.window.state)) <= 3_000
        second += 1
    assert (second > 1, result.snapshots, result.window.state) == (True, 2 * SECOND, {})
    assert {each.total_events for each in life.usage("key-007")} == {second}


def test_a_window_holds_nothing_of_a_namespace_whose_purge_has_begun() -> None:
    life = Life()
    held = life.take(busy_second(life, 0), window=TumblingWindow()).window
    life.table.execute(Update(id_key(life.repository.namespace_id), set={PURGING: AT}))
    result = life.take([], window=replace(held, ends=True))
    assert (result.snapshots, result.window.state, life.usage("key-007")) == (0, {}, [])


def test_a_window_whose_usage_cannot_be_written_ends_again_and_says_why() -> None:
    life = Life()
    held = life.take(busy_second(life, 0), window=TumblingWindow()).window
    store = MortalStore(life.table)
    store.failing = refusing("key-007", "refused")
    with pytest.raises(HeldUsageError, match=r"could not be written: Throttled: slow$"):
        life.take([], store, window=replace(held, ends=True))
    result = life.take([], window=replace(held, ends=True))
    assert (result.snapshots, result.window.state) == (2, {}), "the others were counted, and count once"
    assert {each.total_events for each in life.usage("key-007")} == {1}


def test_a_use_that_can_never_be_counted_goes_to_the_queue_and_the_others_are() -> None:
    life = Life(WITH_QUEUE)
    held = life.take(busy_second(life, 0), window=TumblingWindow()).window
    store = MortalStore(life.table)
    store.failing = lambda asked: Invalid("no") if getattr(asked, "set", {}).get("entity_id") == "key-007" else None
    result = life.take([], store, window=replace(held, ends=True))
    assert (result.snapshots, result.failures) == (2 * (SECOND - 1), ())
    (letter,) = life.letters
    assert (letter["sequenceNumber"], letter["key"]["SK"]) == ("8", "#STATE")


def test_the_state_of_another_release_is_left_alone() -> None:
    with pytest.raises(ValueError, match="not one that this release writes"):
        TumblingWindow.of_event({"window": {}, "state": {"sums": {}}})
