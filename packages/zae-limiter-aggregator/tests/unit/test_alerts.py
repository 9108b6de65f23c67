"""Each threshold of a limit is told once in its window, whatever comes again, and nothing is told in vain."""

import json
from dataclasses import replace
from typing import Any

import pytest

from support.aggregator.lives import SETTINGS, Killed, Life, MortalStore
from zae_limiter import Limit
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.operations.errors import StoreError, Throttled
from zae_limiter.operations.values import BatchGet, Operation, Update
from zae_limiter.schema.items import BucketId
from zae_limiter_aggregator.alerts import MOST_UNTOLD, SOURCE, _entry

BUS = "arn:aws:events:us-east-1:123456789012:event-bus/default"
ALERTING = replace(SETTINGS, alert_bus=BUS)


def life_with(*limits: Limit) -> Life:
    life = Life(ALERTING)
    life.repository.set_system_defaults(list(limits))
    return life


def use(life: Life, amount: int, entity_id: str = "acme", limit: str = "usd") -> None:
    with life.limiter.acquire(entity_id, "gpt-4", {limit: amount}):
        pass


def told(life: Life) -> list[tuple[str, int]]:
    return [(each["entity"], each["threshold"]) for each in life.events]


USD = Limit.per_month("usd", 250, timezone="Europe/Berlin", alert=(80, 95))


def test_a_threshold_of_a_month_is_told_with_its_window_and_the_time_left() -> None:
    life = life_with(USD)
    use(life, 199)
    assert (life.drain().alerts, life.events) == (0, [])
    use(life, 1)
    assert life.drain().alerts == 1
    [event] = life.events
    assert event == {
        "id": event["id"],
        "namespace": "default",
        "namespace_id": life.repository.namespace_id,
        "entity": "acme",
        "resource": "gpt-4",
        "limit": "usd",
        "threshold": 80,
        "used": 200,
        "capacity": 250,
        "window_start": "2023-12-31T23:00:00Z",
        "window_end": "2024-01-31T23:00:00Z",
        "at": "2024-01-01T13:50:00Z",
        "seconds_left": 53_400 // 4,
    }


def test_each_threshold_is_told_once_in_a_window_however_often_the_stream_comes_again() -> None:
    life = life_with(USD)
    use(life, 240)
    for _ in range(3):
        life.drain()
    assert told(life) == [("acme", 80), ("acme", 95)], "both were crossed at once; each drain is a new environment"
    use(life, 10)
    life.drain()
    assert len(life.events) == 2
    life.clock.advance(31 * 24 * 3600)
    use(life, 230)
    life.drain()
    assert told(life)[2:] == [("acme", 80)], "a new month; the old one came again as well"


def test_tokens_that_are_given_back_and_taken_again_tell_nothing_twice() -> None:
    life = life_with(USD)
    aggregator = life.aggregator()
    for _ in range(3):
        seen = len(life.stream)
        with life.limiter.acquire("acme", "gpt-4", {"usd": 210}) as lease:
            aggregator.process(life.stream[seen:])
            lease.settle(usd=10)
        seen = len(life.stream)
        aggregator.process(life.stream[seen:])
        life.repository.reset_bucket("acme", "gpt-4")
        life.clock.advance(1)
    assert told(life) == [("acme", 80)]


def test_every_parent_tells_of_itself() -> None:
    life = life_with(Limit.per_day("usd", 1_000, window="calendar"))
    for parent in ("team", "project"):
        life.repository.create_entity(parent)
        life.repository.set_limits(parent, [Limit.per_day("usd", 100, window="calendar", alert=(50,))])
    life.repository.create_entity("key", parent_ids=["team", "project"], cascade=True)
    use(life, 60, "key")
    life.drain()
    assert sorted(told(life)) == [("project", 50), ("team", 50)]


def test_a_token_bucket_tells_of_its_usage_of_the_hour() -> None:
    life = life_with(Limit.per_minute("rpm", 10, alert=(80,)))
    for _ in range(8):  # eight minutes of the last ten of this hour: 80 of 600
        use(life, 10, limit="rpm")
        life.clock.advance(60)
    life.drain()
    assert life.events == []
    life.clock.advance(3 * 60)  # 14:01
    for _ in range(48):
        use(life, 10, limit="rpm")
        life.clock.advance(60)
    life.drain()
    [event] = life.events
    assert (event["used"], event["capacity"]) == (480, 600)
    assert (event["window_start"], event["window_end"]) == ("2024-01-01T14:00:00Z", "2024-01-01T15:00:00Z")


def test_a_limit_of_a_longer_period_tells_of_its_usage_of_the_day() -> None:
    life = life_with(Limit.per_day("rpd", 100, alert=(50,)))
    use(life, 50, limit="rpd")
    life.drain()
    [event] = life.events
    assert (event["capacity"], event["window_end"]) == (100, "2024-01-02T00:00:00Z")


def test_a_total_tells_again_after_a_credit() -> None:
    life = life_with(Limit.total("credits", 100, burst=1_000, alert=(90,)))
    use(life, 90, limit="credits")
    life.drain()
    use(life, 5, limit="credits")
    life.drain()
    assert len(life.events) == 1
    life.repository.credit_bucket("acme", "gpt-4", {"credits": 95})
    use(life, 95, limit="credits")
    life.drain()
    assert [(each["used"], each["window_end"], each["seconds_left"]) for each in life.events] == [
        (90, None, None),
        (95, None, None),
    ]
    assert len({each["id"] for each in life.events}) == 2


def test_a_window_of_the_first_use_is_told_by_its_begin() -> None:
    life = life_with(Limit.quota("q", 10, window=3600, alert=(50,)))
    for expected in (1, 2):
        use(life, 5, limit="q")
        life.drain()
        assert len(life.events) == expected
        life.clock.advance(3600)
    assert life.events[0]["window_start"] == "2024-01-01T13:50:00Z"


def test_shards_are_added_up_before_anything_is_told() -> None:
    life = life_with(Limit.per_day("usd", 1_000, window="calendar", alert=(80,)))
    use(life, 1)
    bucket = BucketId(life.repository.namespace_id, "acme", "gpt-4")
    for shard in (0, 0, 1):
        life.clock.advance(1)
        life.repository.driver.run(split_shard(life.repository.namespace_state, bucket.other(shard)))
    for _ in range(79):
        use(life, 10)
    assert len({each["dynamodb"]["Keys"]["PK"]["S"] for each in life.stream if "#STATE" in str(each)}) > 1
    life.drain()
    assert life.events == []
    use(life, 9)
    life.take(life.stream[-1:])
    assert [each["used"] for each in life.events] == [800], "one record, of one shard: the others are read"


def test_no_threshold_costs_nothing() -> None:
    life = life_with(Limit.per_month("usd", 250))
    use(life, 250)
    store = MortalStore(life.table)
    life.take(list(life.stream), store)
    plain = len(store.asked)
    life = life_with(Limit.per_month("usd", 250, alert=(80,)))
    use(life, 199)
    store = MortalStore(life.table)
    life.take(list(life.stream), store)
    assert len(store.asked) == plain, "below the threshold of a window of its own nothing is read or written"


def test_a_known_crossing_asks_for_nothing_more() -> None:
    life = life_with(USD)
    use(life, 210)
    store = MortalStore(life.table)
    aggregator = life.aggregator(store)
    aggregator.process(list(life.stream))
    seen, asked = len(life.stream), len(store.asked)
    use(life, 1)
    aggregator.process(life.stream[seen:])
    assert [type(each) for each in store.asked[asked:]] == [BatchGet, Update, Update], "as without thresholds"


def test_what_the_bus_does_not_take_is_counted_and_told_with_the_next_batch() -> None:
    life = life_with(USD)
    life.bus_fails = lambda event: event["threshold"] == 95
    aggregator = life.aggregator()
    use(life, 240)
    result = aggregator.process(list(life.stream))
    assert (result.alerts, result.alerts_failed, result.failures, result.snapshots) == (1, 1, (), 2)
    life.bus_fails = lambda _: False
    result = aggregator.process([])
    assert (result.alerts, told(life)) == (1, [("acme", 80), ("acme", 95)])
    life.drain()
    assert len(life.events) == 2


def test_a_bus_that_does_not_answer_loses_no_usage_and_holds_nothing_up() -> None:
    life = life_with(USD)

    def dead(_: dict[str, Any]) -> bool:
        raise OSError("no answer")

    life.bus_fails = dead
    use(life, 240)
    result = life.drain()
    assert (result.failures, result.alerts_failed) == ((), 2)
    assert [each.consumed for each in life.usage("acme")] == [{"usd": 240}]
    life.bus_fails = lambda _: False
    use(life, 1)
    life.take(life.stream[-1:])
    assert told(life) == [("acme", 80), ("acme", 95)], "the next use finds them, in another environment"


def test_a_table_that_does_not_answer_is_counted_too() -> None:
    life = life_with(USD)
    use(life, 240)
    store = MortalStore(life.table)

    def failing(operation: Operation[Any]) -> StoreError | None:
        is_mark = isinstance(operation, Update) and operation.key.sk.startswith("#ALERT#")
        return Throttled() if is_mark else None

    store.failing = failing
    result = life.take(list(life.stream), store)
    assert (result.alerts, result.alerts_failed, result.failures) == (2, 2, ())
    first = [each["id"] for each in life.events]
    life.drain()
    assert [each["id"] for each in life.events[2:]] == first, "at least once, with the same ids"


@pytest.mark.parametrize("applied", [False, True])
def test_killed_at_any_request_a_crossing_is_told_at_least_once_and_remembered(*, applied: bool) -> None:
    for at in range(12):
        life = life_with(USD)
        use(life, 240)
        try:
            life.take(list(life.stream), MortalStore(life.table, at, applied=applied))
        except Killed:
            life.drain()
        assert {each["threshold"] for each in life.events} == {80, 95}
        count = len(life.events)
        life.drain()
        assert (len(life.events), len({each["id"] for each in life.events})) == (count, 2)


@pytest.mark.parametrize("text", ["x", "", "0", "80,80", "1,2,3,4,5,6", "9" * 5000, "80,٣"])
def test_a_damaged_threshold_is_counted_and_holds_nothing_up(text: str) -> None:
    life = life_with(USD)
    use(life, 240)
    damaged = [json.loads(json.dumps(each).replace('"80,95"', json.dumps(text))) for each in life.stream]
    result = life.take(damaged)
    assert (result.failures, result.dead_letters, result.snapshots, result.alerts_failed) == ((), (), 2, 1)


def test_without_a_bus_nothing_is_told() -> None:
    life = Life()
    life.repository.set_system_defaults([USD])
    use(life, 250)
    assert (life.drain().alerts, life.events) == (0, [])


def test_an_entry_names_its_source_and_its_bus() -> None:
    life = life_with(USD)
    use(life, 240)
    life.bus_fails = lambda _: True
    aggregator = life.aggregator()
    aggregator.process(list(life.stream))
    [first, _] = aggregator._alerts._untold.values()  # type: ignore[union-attr]
    entry = _entry(first, BUS)
    assert (entry["Source"], entry["EventBusName"], MOST_UNTOLD) == (SOURCE, BUS, 1000)


def test_a_threshold_of_money_is_told_as_money() -> None:
    life = life_with(Limit.money("usd", 250, per="month", alert=(80,)))
    use(life, 200_000_000)
    life.drain()
    [event] = life.events
    assert (event["used"], event["unit"], event["money"]) == (
        200_000_000,
        "usd",
        {"used": "$200", "capacity": "$250"},
    )
