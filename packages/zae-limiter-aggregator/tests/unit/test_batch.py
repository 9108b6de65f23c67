from support.aggregator.streams import record
from zae_limiter.schema.items import BucketId
from zae_limiter_aggregator.batch import by_bucket, read_batch


def bucket(shard: int, tc: int) -> dict[str, object]:
    return {"PK": f"ns/BUCKET#e#r#{shard}", "SK": "#STATE", "rf": 1, "shard_count": 2, "b_rpm_tc": tc}


def test_a_record_that_cannot_be_read_leaves_the_others_alone() -> None:
    broken = record(2, None, {"PK": "ns/BUCKET#e#r#0", "SK": "#STATE"})
    batch = read_batch([record(1, None, bucket(0, 1000)), broken, record(3, None, bucket(1, 1000))])
    assert batch.size == 3
    assert [change.position.sequence for change in batch.changes] == ["1", "3"]
    assert [failure.sequence for failure in batch.unreadable] == ["2"]
    assert "rf" in batch.unreadable[0].problem


def test_changes_are_told_apart_by_shard_and_stand_in_order() -> None:
    numbers = [(1, 0), (2, 1), (10, 0), (9, 0)]
    grouped = by_bucket(read_batch([record(n, None, bucket(shard, n)) for n, shard in numbers]).changes)
    assert {address: [change.position.sequence for change in changes] for address, changes in grouped.items()} == {
        BucketId("ns", "e", "r", 0): ["1", "9", "10"],
        BucketId("ns", "e", "r", 1): ["2"],
    }
