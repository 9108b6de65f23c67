"""Records that can never be processed: they go to the dead-letter queue at once, and everybody else's are counted."""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.aggregator.damage import WITH_QUEUE, among_sound_ones, damaged_records, image, used
from support.aggregator.lives import SETTINGS, START_MS, Killed, Life, MortalStore
from support.aggregator.streams import ARN, LABEL, Record, record
from zae_limiter.flows.records.registry import id_key
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.errors import Denied, Invalid, NotApplied, StoreError, TableMissing, Unreachable
from zae_limiter.operations.values import BatchGet, Get, Key, Operation, Put, Update
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import AuditEvent


def counted(life: Life, entity: str = "good") -> list[tuple[dict[str, int], int]]:
    return [(dict(each.consumed), each.total_events) for each in life.usage(entity)]


@pytest.mark.parametrize(
    "damage",
    [
        {"shard_count": 10**12},
        {"b_tpm_tc": "many"},
        {"rf": None},
        {"ev": "x"},
        {"rj": "x"},
        {"sj": []},
        {"rj_org/rpm": "x"},
    ],
    ids=str,
)
def test_a_record_that_can_never_be_read_goes_to_the_queue_and_the_rest_is_counted(damage: dict[str, Any]) -> None:
    life = Life(WITH_QUEUE)
    bad = used(life, 2, "bad", **damage)
    result = life.take([used(life, 1), bad, used(life, 3, uses=2)])
    assert (result.failures, [each.sequence for each in result.dead_letters]) == ((), ["2"])
    assert counted(life) == [({"tpm": 2}, 2)]
    (letter,) = life.letters
    pk = f"{life.repository.namespace_id}/BUCKET#bad#gpt-4#0"
    assert (letter["sequenceNumber"], letter["key"]) == ("2", {"PK": pk, "SK": "#STATE"})
    assert (letter["streamArn"], letter["stack"], letter["condition"]) == (ARN + LABEL, "demo", "UnreadableRecord")
    (name,) = damage
    assert ("a count of refusals" if "/" in name else name) in letter["problem"]


@pytest.mark.parametrize(
    "pk", ["x", "ns/BUCKET#bad#gpt-4", "ns/BUCKET#bad#gpt-4#one", "ns/BUCKET#bad#a#b#0", "/#STATE"]
)
def test_a_letter_says_in_words_what_is_wrong_with_a_key(pk: str) -> None:
    """A bucket that another program wrote: Python's own words for it would say "not enough values to unpack"."""
    life = Life(WITH_QUEUE)
    item = {**image(life, "bad", 1), "PK": pk}
    life.take([used(life, 1), record(2, None, item)])
    (letter,) = life.letters
    assert letter["key"] == {"PK": pk, "SK": "#STATE"}
    expected = (
        "the partition key is not that of a bucket, which is NAMESPACE/BUCKET#ENTITY#RESOURCE#SHARD, percent-encoded"
    )
    assert letter["problem"] == expected


def test_an_audit_event_that_was_overwritten_raises_the_alarm_of_dead_letters() -> None:
    life = Life(WITH_QUEUE)
    at = "2024-01-01T10:00:00.000Z"
    before = audit_item("ns", AuditEvent(f"{at}-1", "e", "limits_set", "alice", at, None, None, None), expires_at=1)
    result = life.take([used(life, 1), record(2, before, {**before, "principal": "mallory"}), used(life, 3, uses=2)])
    assert (result.failures, counted(life)) == ((), [({"tpm": 2}, 2)])
    (letter,) = life.letters
    assert letter["key"] == {"PK": "ns/AUDIT#e", "SK": f"#AUDIT#{at}-1"}
    assert letter["problem"].startswith("an audit event was overwritten")


AT = "2024-01-01T10:00:00.000Z"


def erased(number: int, namespace_id: str) -> Record:
    """The record of an audit event that somebody deleted."""
    event = AuditEvent(f"{AT}-{number}", "e", "limits_set", "mallory", AT, None, None, None)
    return record(number, audit_item(namespace_id, event, expires_at=1), None)


def test_an_audit_event_that_somebody_deletes_raises_the_alarm_of_dead_letters() -> None:
    life = Life(WITH_QUEUE)
    namespace_id = life.repository.namespace_id
    result = life.take([used(life, 1), erased(2, namespace_id), used(life, 3, uses=2), erased(4, "nobodys")])
    assert (result.failures, counted(life)) == ((), [({"tpm": 2}, 2)])
    assert [letter["key"]["PK"] for letter in life.letters] == [f"{namespace_id}/AUDIT#e", "nobodys/AUDIT#e"]
    assert {letter["problem"] for letter in life.letters} == {
        "an audit event was deleted, neither by TTL nor by a purge: the stream has it in OldImage"
    }


def test_audit_events_that_a_purge_deletes_raise_no_alarm() -> None:
    life = Life(WITH_QUEUE)
    prod = life.repository.register_namespace("prod")
    life.repository.delete_namespace("prod")
    batch = [erased(1, prod.namespace_id), used(life, 2), erased(3, prod.namespace_id)]
    assert len(life.take(batch[:1]).dead_letters) == 1  # it was deleted softly: its events stay
    life.letters.clear()
    SyncMaintenance(life.repository).purge_namespace(prod.namespace_id)
    result = life.take(batch)
    assert (result.failures, life.letters, counted(life)) == ((), [], [({"tpm": 1}, 1)])


def test_what_was_deleted_comes_again_where_the_table_does_not_tell_what_is_purged() -> None:
    life = Life(WITH_QUEUE)
    store = MortalStore(life.table)
    store.failing = lambda operation: Unreachable("away") if isinstance(operation, BatchGet) else None
    batch = [used(life, 1, "bad", rf="now"), erased(2, "ns"), erased(3, "ns")]
    result = life.take(batch, store)
    assert [each.sequence for each in result.failures] == ["2"]
    assert [letter["sequenceNumber"] for letter in life.letters] == ["1"]
    assert len(life.take(batch[1:]).dead_letters) == 2


def test_a_letter_that_the_queue_does_not_take_makes_its_record_come_again() -> None:
    life = Life(WITH_QUEUE)
    life.refuses = lambda letter: letter["sequenceNumber"] == "2"
    batch = [used(life, number, f"bad-{number}", rf="now") for number in (1, 2)]
    result = life.take(batch)
    assert [each.sequence for each in result.failures] == ["2"]
    assert [each.sequence for each in result.dead_letters] == ["1"]
    assert "the queue does not answer" in (result.failures[0].problem or "")


def test_without_a_queue_such_a_record_comes_again() -> None:
    life = Life(SETTINGS)
    result = life.take([used(life, 1, "bad", rf="now"), used(life, 2)])
    assert ([each.sequence for each in result.failures], result.dead_letters) == (["1"], ())
    assert counted(life) == [({"tpm": 1}, 1)]


def failing(life: Life, error: StoreError, entity: str = "bad") -> MortalStore:
    """A table that refuses to count one entity."""
    store = MortalStore(life.table)

    def fault(operation: Operation[Any]) -> StoreError | None:
        return error if isinstance(operation, Update) and f"ENTITY#{entity}" in operation.key.pk else None

    store.failing = fault
    return store


def test_records_that_the_table_calls_invalid_go_to_the_queue_once_each() -> None:
    life = Life(WITH_QUEUE)
    batch = [used(life, 1), used(life, 2, "bad"), used(life, 3, "bad", uses=2), used(life, 4, uses=2)]
    result = life.take(batch, failing(life, Invalid("an operand has an incorrect type")))
    assert (result.failures, [each.sequence for each in result.dead_letters]) == ((), ["2", "3"])
    assert [letter["sequenceNumber"] for letter in life.letters] == ["2", "3"]
    assert counted(life) == [({"tpm": 2}, 2)]


@pytest.mark.parametrize("error", [Unreachable("away"), Denied("no"), TableMissing("none"), NotApplied("KMS: off")])
def test_records_that_may_be_counted_later_come_again(error: StoreError) -> None:
    life = Life(WITH_QUEUE)
    result = life.take([used(life, 1), used(life, 2, "bad")], failing(life, error))
    assert ({each.sequence for each in result.failures}, result.dead_letters) == ({"2"}, ())
    assert life.letters == []


def test_a_record_behind_one_that_comes_again_is_sent_when_it_comes_again_itself() -> None:
    life = Life(WITH_QUEUE)
    batch = [used(life, 1, "early", rf="now"), used(life, 2, "bad"), used(life, 3, "late", rf="now")]
    result = life.take(batch, failing(life, Unreachable("away")))
    assert ({each.sequence for each in result.failures}, [letter["key"]["PK"] for letter in life.letters]) == (
        {"2"},
        [f"{life.repository.namespace_id}/BUCKET#early#gpt-4#0"],
    )
    assert life.take(batch[1:]).failures == ()
    assert [letter["sequenceNumber"] for letter in life.letters] == ["1", "3"]


def test_a_snapshot_that_somebody_has_damaged_stops_its_own_records_alone() -> None:
    life = Life(WITH_QUEUE)
    life.take([used(life, 1, "bad")])
    pk = f"{life.repository.namespace_id}/ENTITY#bad"
    snapshot = life.table.execute(Get(Key(pk, "#USAGE#gpt-4#2024-01-01T13:00:00Z")))
    life.table.execute(Put({**snapshot, "_counted_0": 5}))
    result = life.take([used(life, 2, "bad", uses=2), used(life, 3)])
    assert (result.failures, [each.sequence for each in result.dead_letters]) == ((), ["2"])
    assert counted(life) == [({"tpm": 1}, 1)]


def test_an_audit_event_that_has_no_object_goes_to_the_queue() -> None:
    life = Life(WITH_QUEUE)
    at = "2024-01-01T10:00:00.000Z"
    event = AuditEvent(f"{at}-1", "e" * 1500, "limits_set", None, at, None, None, None)
    result = life.take([record(1, audit_item("ns", event, expires_at=1), None, by_ttl=True)])
    assert (result.failures, [each.sequence for each in result.dead_letters], life.kept) == ((), ["1"], {})


def test_a_shard_count_that_goes_up_and_down_asks_for_few_splits() -> None:
    life = Life(WITH_QUEUE)
    store = MortalStore(life.table)
    images = [image(life, "bad", 1, shard_count=count) for count in (32, 64) * 100]
    life.take([record(number, *pair, at_ms=START_MS) for number, pair in enumerate(pairwise(images), 1)], store)
    assert len(store.asked) < 50


@settings(max_examples=300, deadline=None)
@given(st.lists(damaged_records(), min_size=1, max_size=4))
def test_whatever_a_record_holds_the_others_are_counted_and_it_is_told_at_most_once(bad: list[Record]) -> None:
    life = Life(WITH_QUEUE)
    records = among_sound_ones(life, bad)
    begun = time.process_time()  # not the wall's time: a busy machine makes no batch slow
    result = life.take(records)
    assert time.process_time() - begun < 5
    assert result.failures == ()
    told = [letter["sequenceNumber"] for letter in life.letters]
    assert len(told) == len(set(told))
    assert set(told) <= {each["dynamodb"]["SequenceNumber"] for each in records[1::2]}
    good = len(bad) + 1
    assert counted(life) == [({"tpm": good}, good)]


def test_a_damaged_record_of_a_namespace_holds_nobody_up() -> None:
    """Else every batch with its records, and with those of all others, would come again until the stream drops it."""
    life = Life(WITH_QUEUE)
    other = life.repository.register_namespace("other")
    key = id_key(life.repository.namespace_id)
    life.table.execute(Put({**life.table.execute(Get(key)), "created_at": 5}))
    theirs = image(life, "theirs", 1, **BucketId(other.namespace_id, "theirs", "gpt-4").attributes())
    result = life.take([used(life, 1), record(2, None, theirs, at_ms=START_MS), used(life, 3, uses=2)])
    assert (result.failures, result.snapshots, counted(life)) == ((), 4, [({"tpm": 2}, 2)])


class Unforeseen(MortalStore):
    """A table that meets an error which no step foresaw where a batch has records of this namespace."""

    poisoned = ""

    def _answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, BatchGet) and id_key(self.poisoned) in operation.keys:
            raise AttributeError("'NoneType' object has no attribute 'poison'")
        return super()._answer(operation)


def test_contents_that_no_step_foresaw_go_to_the_queue_once_they_are_alone() -> None:
    """The mapping never gives up: it halves a batch that fails, until the one record is alone."""
    life = Life(WITH_QUEUE)
    store = Unforeseen(life.table)
    store.poisoned = life.repository.register_namespace("poison").namespace_id
    bad = image(life, "bad", 1, **BucketId(store.poisoned, "bad", "gpt-4").attributes())
    calls: list[int] = []

    def sent(batch: Sequence[Record]) -> None:
        calls.append(len(batch))
        try:
            assert life.take(batch, store).failures == ()
        except AttributeError:
            middle = len(batch) // 2
            sent(batch[:middle])
            sent(batch[middle:])

    sent([used(life, 1), used(life, 2, uses=2), record(3, None, bad, at_ms=START_MS), used(life, 4, uses=3)])
    assert calls == [4, 2, 2, 1, 1]
    assert [(letter["sequenceNumber"], letter["problem"]) for letter in life.letters] == [("3", "AttributeError")]
    assert counted(life) == [({"tpm": 3}, 3)]


def test_what_may_end_by_itself_comes_again_even_if_it_is_alone() -> None:
    life = Life(WITH_QUEUE)
    life.refuses = lambda _: True
    store = Unforeseen(life.table)
    store.poisoned = life.repository.namespace_id
    assert [each.sequence for each in life.take([used(life, 1)], store).failures] == ["1"]  # the queue is away
    with pytest.raises(Killed):
        life.take([used(life, 1)], MortalStore(life.table, 0))
    assert (life.take([used(life, 1)]).failures, counted(life)) == ((), [({"tpm": 1}, 1)])
