"""Usage is counted exactly once, however the stream is delivered."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.core.snapshots import usage_item
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.steps import Flow, Sleep, play
from zae_limiter.maintenance import Consumption, Use, count_usage
from zae_limiter.operations.errors import ConditionFailed, OutcomeUnknown, StoreError, Throttled
from zae_limiter.operations.sizes import item_size
from zae_limiter.operations.values import Get, Key, Operation, Update
from zae_limiter.schema.usage import SnapshotId, counted_attribute, read_usage, stream_mark
from zae_limiter.values import Refuser

LABEL = "2024-01-01T00:00:00.000"
PLACE = SnapshotId("ns", "key-abc", "gpt-4", "hourly", datetime(2024, 1, 1, 14, tzinfo=UTC))
KEY = Key(PLACE.pk, PLACE.sk)


def use(number: int, tokens: int = 0, *, events: int = 1, label: str = LABEL) -> Use:
    return Use(
        stream_mark(label, str(number)),
        Consumption({"tpm": tokens} if tokens else {}, {"ev": events} if events else {}),
    )


def counting(uses: Sequence[Use], shard: int = 0) -> Flow[bool]:
    return count_usage(PLACE, shard, uses, expires_at=1_800_000_000)


def total(table: MemoryTable) -> tuple[int, int]:
    item = table.execute(Get(KEY))
    if item is None:
        return 0, 0
    snapshot = read_usage(item)
    return snapshot.consumed.get("tpm", 0), snapshot.total_events


class Counted:
    """A table that counts its requests."""

    def __init__(self) -> None:
        self.table = MemoryTable()
        self.requests = 0

    def perform(self, operation: Operation[Any]) -> Any:
        self.requests += 1
        return self.table.execute(operation)


def test_a_batch_is_one_write_however_many_records_it_has() -> None:
    counted = Counted()
    assert play(counting([use(n, 5) for n in range(100)]), counted.perform)
    assert (total(counted.table), counted.requests) == ((500, 100), 1)
    assert play(counting([use(n, 5) for n in range(100, 200)]), counted.perform)
    assert (total(counted.table), counted.requests) == ((1000, 200), 2)


def test_a_snapshot_has_all_that_a_reader_and_a_purge_look_for() -> None:
    table = MemoryTable()
    play(counting([use(7, 5)]), table.execute)
    assert table.execute(Get(KEY)) == {
        "PK": "ns/ENTITY#key-abc",
        "SK": "#USAGE#gpt-4#2024-01-01T14:00:00Z",
        "GSI2PK": "ns/RESOURCE#gpt-4",
        "GSI2SK": "USAGE#2024-01-01T14:00:00Z#key-abc",
        "GSI4PK": "ns",
        "GSI4SK": "USAGE#2024-01-01T14:00:00Z#gpt-4#key-abc",
        "entity_id": "key-abc",
        "resource": "gpt-4",
        "window": "hourly",
        "window_start": "2024-01-01T14:00:00Z",
        "l_tpm": 5,
        "total_events": 1,
        "_a00": 1,
        "_counted_0": f"{LABEL}#{7:040}",
        "ttl": 1_800_000_000,
    }


def test_a_batch_that_comes_again_changes_nothing() -> None:
    table = MemoryTable()
    uses = [use(n, 5) for n in range(3)]
    assert play(counting(uses), table.execute)
    assert not play(counting(uses), table.execute)
    assert not play(counting(uses[1:]), table.execute)
    assert total(table) == (15, 3)


def test_of_a_batch_that_overlaps_only_the_new_part_counts() -> None:
    counted = Counted()
    play(counting([use(n, 5) for n in range(3)]), counted.perform)
    assert play(counting([use(n, 5) for n in range(1, 5)]), counted.perform)
    assert (total(counted.table), counted.requests) == ((25, 5), 3)


def test_a_record_that_stands_twice_in_a_batch_counts_once() -> None:
    table = MemoryTable()
    play(counting([use(2, 5), use(1, 3), use(2, 5)]), table.execute)
    assert total(table) == (8, 2)


def test_give_backs_count_less() -> None:
    table = MemoryTable()
    play(counting([use(1, 5), use(2, -7, events=-1)]), table.execute)
    assert total(table) == (-2, 0)


def test_refused_and_shadowed_acquires_are_counted_once_too_and_only_where_there_are_some() -> None:
    table = MemoryTable()
    uses = [Use(stream_mark(LABEL, str(n)), Consumption({}, {"rj": n, "sj": 1})) for n in range(1, 4)]
    play(counting([use(0, 5)]), table.execute)
    before = table.execute(Get(KEY))
    assert before is not None
    assert not {"total_refused", "total_shadowed"} & before.keys()
    play(counting(uses[:2]), table.execute)
    play(counting(uses), table.execute)
    play(counting(uses), table.execute)
    item = table.execute(Get(KEY))
    assert item is not None
    snapshot = read_usage(item)
    assert (snapshot.total_events, snapshot.total_refused, snapshot.total_shadowed) == (1, 6, 3)


def test_refusals_by_ancestors_are_added_by_their_limits_beside_limits_of_such_names() -> None:
    table = MemoryTable()
    rpm, other = Refuser("org/7", "rpm"), Refuser("org", "refused_by_org")
    for n, refused_by in enumerate(({rpm: 1}, {rpm: 2, other: 3}), start=1):
        used = Consumption({"refused_by_org": n}, {"rj": 3}, refused_by=refused_by)
        play(counting([Use(stream_mark(LABEL, str(n)), used)]), table.execute)
    item = table.execute(Get(KEY))
    assert item is not None
    snapshot = read_usage(item)
    assert snapshot.refused_by == {rpm: 3, other: 3}
    assert (snapshot.consumed, snapshot.total_refused) == ({"refused_by_org": 3}, 6)
    assert read_usage(usage_item("ns", snapshot)) == snapshot


def test_shards_of_a_bucket_add_to_one_snapshot_each_with_its_own_mark() -> None:
    table = MemoryTable()
    play(counting([use(9, 5)], shard=0), table.execute)
    play(counting([use(1, 3)], shard=1), table.execute)
    assert not play(counting([use(1, 3)], shard=1), table.execute)
    assert total(table) == (8, 2)


def test_parts_of_a_token_that_shards_took_make_whole_ones() -> None:
    table = MemoryTable()
    for shard in range(4):
        part = Use(stream_mark(LABEL, "1"), Consumption({"tpm": 10}, {}, {"tpm": 750}))
        play(counting([part], shard=shard), table.execute)
    assert total(table) == (43, 0)


def test_sequence_numbers_are_compared_as_numbers() -> None:
    table = MemoryTable()
    for number in (9, 10, 99, 10**39):
        assert play(counting([use(number, 1)]), table.execute)
    assert not play(counting([use(11, 1)]), table.execute)
    assert total(table) == (4, 4)


def test_a_later_stream_begins_its_numbers_anew_and_an_earlier_one_counts_no_more() -> None:
    table = MemoryTable()
    play(counting([use(500, 1)]), table.execute)
    assert play(counting([use(1, 1, label="2024-06-01T00:00:00.000")]), table.execute)
    assert not play(counting([use(501, 1)]), table.execute)
    assert total(table) == (2, 2)


@pytest.mark.parametrize("wrong", ["", "x", "-1", "1.0", "1" * 41, "\u0663"])
def test_what_is_no_sequence_number_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no sequence number"):
        stream_mark(LABEL, wrong)


@pytest.mark.parametrize(
    ("error", "applied"),
    [(Throttled("slow down"), False), (OutcomeUnknown("no answer"), False), (OutcomeUnknown("no answer"), True)],
)
def test_a_write_whose_answer_was_lost_is_written_again_and_counts_once(error: StoreError, *, applied: bool) -> None:
    table, failures = MemoryTable(), [error]

    def perform(operation: Operation[Any] | Sleep) -> Any:
        if isinstance(operation, Sleep):
            return None
        if failures and not applied:
            raise failures.pop()
        answer = table.execute(operation)
        if failures:
            raise failures.pop()
        return answer

    play(counting([use(1, 5), use(2, 5)]), perform)
    assert total(table) == (10, 2)


def test_64_shards_fit_an_item_of_six_write_units() -> None:
    table = MemoryTable()
    for shard in range(64):
        play(counting([use(10**39, 5)], shard=shard), table.execute)
    item = table.execute(Get(KEY))
    assert len([name for name in item if name.startswith("_counted_")]) == 64
    assert item_size(item) < 6 * 1024


class Delivery:
    """An event source mapping that does its worst: batches are cut anywhere, come again, overlap; an invocation is
    given up at any point, and what it was about to write still arrives later."""

    def __init__(self, data: st.DataObject, uses: Sequence[Use]) -> None:
        self.table = MemoryTable()
        self._data = data
        self._uses = uses
        self._abandoned: list[Iterator[None]] = []

    def run(self) -> None:
        position = 0
        while position < len(self._uses):
            begin = self._draw(st.integers(max(0, position - 3), position))
            end = self._draw(st.integers(position + 1, len(self._uses)))
            invocation = self._invocation(self._uses[begin:end])
            if self._is_given_up(invocation):
                self._abandoned.append(invocation)
            else:
                position = end
        for invocation in self._abandoned:
            list(invocation)

    def _is_given_up(self, invocation: Iterator[None]) -> bool:
        for _ in invocation:
            if len(self._abandoned) < 4 and self._draw(st.booleans()):
                return True
            if self._abandoned and self._draw(st.booleans()):
                next(self._draw(st.sampled_from(self._abandoned)), None)
        return False

    def _invocation(self, uses: Sequence[Use]) -> Iterator[None]:
        """One write at a time; between any two of them, and before and after each, others get their turn."""
        flow = counting(uses)
        try:
            step = next(flow)
            while True:
                yield
                try:
                    answer: Any = self.table.execute(step)  # type: ignore[arg-type]
                except ConditionFailed as error:
                    yield
                    step = flow.throw(error)
                else:
                    yield
                    step = flow.send(answer)
        except StopIteration:
            return

    def _draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self._data.draw(strategy)


@settings(deadline=None)
@given(st.data(), st.lists(st.tuples(st.integers(-5, 5), st.integers(-1, 2)), min_size=1, max_size=12))
def test_every_delivery_ends_in_the_same_numbers(data: st.DataObject, amounts: list[tuple[int, int]]) -> None:
    delivery = Delivery(data, [use(n, tokens, events=events) for n, (tokens, events) in enumerate(amounts)])
    delivery.run()
    assert total(delivery.table) == (sum(tokens for tokens, _ in amounts), sum(events for _, events in amounts))


def test_the_mark_moves_in_the_write_that_adds() -> None:
    flow = counting([use(3, 1), use(4, 1)])
    write = next(flow)
    assert isinstance(write, Update)
    assert write.add == {"l_tpm": 2, "total_events": 2, "_a00": 2}
    assert write.set[counted_attribute(0)] == stream_mark(LABEL, "4")
    assert write.when.below == {counted_attribute(0): stream_mark(LABEL, "3")}
