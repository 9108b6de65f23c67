from typing import Any

import pytest

from support.core.plays import NOW, bucket_item, stage
from zae_limiter import Limit
from zae_limiter.flows.bucket.reading import balance
from zae_limiter.flows.bucket.telling import CLOCKS_MS, _by_entity, _by_namespace, _next_cv, _updates, tell
from zae_limiter.flows.index_rows import IndexRows
from zae_limiter.flows.process.namespace_state import bucket_key
from zae_limiter.flows.steps import Parallel, Sleep, play
from zae_limiter.operations.errors import ConditionFailed, Denied, Throttled
from zae_limiter.operations.values import BatchGet, Found, Item, Page, Query, Update
from zae_limiter.schema.items import BucketState, read_bucket

RPM = Limit.per_minute("rpm", 60)


def told(state: BucketState, now_ms: int) -> Item:
    [(_, update)] = _updates([state], now_ms, _next_cv([state], now_ms))
    added = {name: state.item.get(name, 0) + amount for name, amount in update.add.items()}
    return {**state.item, **added, **update.set}


def test_a_told_bucket_has_the_same_headroom_at_every_instant() -> None:
    state = read_bucket(bucket_item({RPM: 5000}, rf=NOW - 7_777))
    after = read_bucket(told(state, NOW))
    for at_ms in (NOW - 1, NOW, NOW + 1, NOW + 12_345, NOW + 3_600_000):
        assert balance(after, "rpm", at_ms) == balance(state, "rpm", at_ms)


def test_the_anchor_and_the_cv_grow_although_the_clock_stands_still() -> None:
    state = read_bucket(bucket_item({RPM: 5000}, rf=NOW, cv=NOW))
    first = read_bucket(told(state, NOW))
    second = read_bucket(told(first, NOW))
    assert first.anchor_ms < second.anchor_ms
    assert first.item["cv"] == NOW + CLOCKS_MS
    assert second.item["cv"] == first.item["cv"] + 2  # a read after the first tells at most one more


def test_all_shards_get_the_same_cv() -> None:
    old, new = (read_bucket(bucket_item({RPM: 5000}, cv=cv)) for cv in (NOW, NOW + 9_000))
    cv = _next_cv([old, new], NOW)
    assert [update.set["cv"] for _, update in _updates([old, new], NOW, cv)] == [NOW + 9_002, NOW + 9_002]


@pytest.mark.parametrize(("cv", "written"), [(NOW + CLOCKS_MS, 0), (NOW + CLOCKS_MS - 1, 1)])
def test_who_lost_a_race_leaves_a_shard_alone_that_was_told_meanwhile(cv: int, written: int) -> None:
    """Else those who tell one bucket at the same time make each other's writes fail, and its callers' writes, too."""
    seen = bucket_item({RPM: 5000}, rf=NOW - 1)
    lost, bucket = {**seen, "rf": NOW, "cv": cv}, read_bucket(seen).id
    stored, updates = seen, list[Update]()

    def perform(step: Any) -> Any:
        nonlocal stored
        if isinstance(step, BatchGet):
            return Found({bucket_key(bucket): stored})
        if isinstance(step, Sleep):
            return None
        updates.extend(step.steps)
        stored = lost if len(updates) == 1 else {**lost, **updates[-1].set}
        return [ConditionFailed(stored)] if len(updates) == 1 else [stored]

    assert play(tell(stage().namespace_state, [bucket]), perform).buckets == 1
    assert len(updates) == 1 + written


def test_who_may_not_read_the_index_of_the_namespace_asks_entity_by_entity() -> None:
    asked: list[Query] = []

    def perform(step: Any) -> Any:
        if isinstance(step, Parallel):
            return [perform(each) for each in step.steps]
        asked.append(step)
        if step.index == "GSI4":
            raise Denied("no query of GSI4")
        return Page([])

    entities = [f"e{number}" for number in range(20)]
    assert play(_by_namespace(stage().namespace_state, entities, IndexRows("n")), perform) == []
    assert [query.index for query in asked] == ["GSI4", *["GSI3"] * 20]


def test_a_query_that_fails_beside_others_is_sent_again() -> None:
    answers = [Throttled(), Page([]), Page([])]

    def perform(step: Any) -> Any:
        return [answers.pop(0) for _ in step.steps] if isinstance(step, Parallel) else answers.pop(0)

    assert play(_by_entity(["a", "b"], IndexRows("n")), perform) == []
    assert not answers
