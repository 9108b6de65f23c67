"""Records that can never be processed: they go to the dead-letter queue at once, and everybody else's are counted."""

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.aggregator.lives import SETTINGS, START_MS, Life, MortalStore
from support.aggregator.streams import ARN, LABEL, Record, record
from zae_limiter.audit import AuditEvent
from zae_limiter.operations.errors import Denied, NotApplied, StoreError, TableMissing, Unreachable
from zae_limiter.operations.values import Get, Key, Operation, Put, Update
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.items import BucketId

WITH_QUEUE = replace(SETTINGS, dead_letters_url="https://sqs.eu-west-1.amazonaws.com/123456789012/dead")


def image(life: Life, entity: str, uses: int, **more: Any) -> dict[str, Any]:
    """A bucket after so many uses of one token."""
    place = BucketId(life.repository.namespace_id, entity, "gpt-4")
    counts = {"b_tpm_tc": 1000 * uses, "b_wcu_tc": 1000 * uses, "b_tpm_tk": 0, "ev": uses}
    return {**place.attributes(), "rf": START_MS, "shard_count": 1, **counts, **more}


def used(life: Life, number: int, entity: str = "good", uses: int = 1, **more: Any) -> Record:
    """The record of use number ``uses`` of a bucket."""
    before = image(life, entity, uses - 1) if uses > 1 else None
    return record(number, before, image(life, entity, uses, **more), at_ms=START_MS)


def counted(life: Life, entity: str = "good") -> list[tuple[dict[str, int], int]]:
    return [(dict(each.consumed), each.total_events) for each in life.usage(entity)]


@pytest.mark.parametrize("damage", [{"shard_count": 10**12}, {"b_tpm_tc": "many"}, {"rf": None}, {"ev": "x"}], ids=str)
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
    assert next(iter(damage)) in letter["problem"]


def test_an_audit_event_that_was_overwritten_raises_the_alarm_of_dead_letters() -> None:
    life = Life(WITH_QUEUE)
    at = "2024-01-01T10:00:00.000Z"
    before = audit_item("ns", AuditEvent(f"{at}-1", "e", "limits_set", "alice", at, None, None, None), expires_at=1)
    result = life.take([used(life, 1), record(2, before, {**before, "principal": "mallory"}), used(life, 3, uses=2)])
    assert (result.failures, counted(life)) == ((), [({"tpm": 2}, 2)])
    (letter,) = life.letters
    assert letter["key"] == {"PK": "ns/AUDIT#e", "SK": f"#AUDIT#{at}-1"}
    assert letter["problem"].startswith("an audit event was overwritten")


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
    result = life.take(batch, failing(life, NotApplied("ValidationException: an operand has an incorrect type")))
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


class Deep(dict[str, Any]):
    """A value that is nested so deep that no report of a failure could show it."""

    def __init__(self, levels: int) -> None:
        value: Any = {"S": "end"}
        for _ in range(levels):
            value = {"M": {"a": value}}
        super().__init__(value)
        self.levels = levels

    def __repr__(self) -> str:
        return f"Deep({self.levels})"


NUMBERS = ["1.5", "NaN", "Infinity", "-1", "0", "1E+125", "9" * 38, "9" * 5000, "1_0", str(10**12), "", "\u0661", "64"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from([10**400, "x" * 3000])
)
JUNK = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["N", "S", "M", "L", "NULL", "BOOL"]), SCALARS, max_size=2),
    st.builds(lambda text: {"N": text}, st.sampled_from(NUMBERS)),
    st.builds(
        lambda text: {"S": text}, st.sampled_from(["#STATE", "#AUDIT#x", "ns/BUCKET#e#r#0", "a/b", "/", "x" * 3000])
    ),
    st.builds(Deep, st.sampled_from([3, 300, 400, 3000])),
)


def paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a record that may be damaged."""
    for name, part in value.items():
        if name not in {"SequenceNumber", "dynamodb"}:
            yield (*way, name)
        if isinstance(part, dict):
            yield from paths(part, (*way, name))


@st.composite
def damaged_records(draw: st.DrawFn) -> Record:
    """A record of a bucket or of an audit event with one to three places damaged, or missing."""
    life = Life()
    at = "2024-01-01T10:00:00.000Z"
    event = AuditEvent(f"{at}-1", "e", "limits_set", None, at, None, None, None)
    sound = draw(st.sampled_from([used(life, 1, uses=2), record(1, audit_item("ns", event, expires_at=1), None)]))
    damaged: Record = copy.deepcopy(sound) | {"userIdentity": {"principalId": "dynamodb.amazonaws.com"}}
    for path in draw(st.lists(st.sampled_from(list(paths(damaged))), min_size=1, max_size=3, unique=True)):
        holder: Any = damaged
        for name in path[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            if draw(st.booleans()):
                holder.pop(path[-1], None)
            else:
                holder[path[-1]] = draw(JUNK)
    return damaged


@settings(max_examples=300, deadline=None)
@given(st.lists(damaged_records(), min_size=1, max_size=4))
def test_whatever_a_record_holds_the_others_are_counted_and_it_is_told_at_most_once(bad: list[Record]) -> None:
    life = Life(WITH_QUEUE)
    records = [used(life, 10, uses=1)]
    for number, each in enumerate(bad, 2):
        renamed = copy.copy(each) | {"dynamodb": each["dynamodb"] | {"SequenceNumber": str(10 * number)}}
        records += [renamed, used(life, 10 * number + 1, uses=number)]
    for each in records[1::2]:
        pk = each["dynamodb"].get("Keys")
        if isinstance(pk, dict) and pk.get("PK") == records[0]["dynamodb"]["Keys"]["PK"]:
            each["dynamodb"]["Keys"] = pk | {"PK": {"S": f"{life.repository.namespace_id}/BUCKET#bad#gpt-4#0"}}
    begun = time.monotonic()
    result = life.take(records)
    assert time.monotonic() - begun < 5
    assert result.failures == ()
    told = [letter["sequenceNumber"] for letter in life.letters]
    assert len(told) == len(set(told))
    assert set(told) <= {each["dynamodb"]["SequenceNumber"] for each in records[1::2]}
    good = len(bad) + 1
    assert counted(life) == [({"tpm": good}, good)]
