from support.core.kinds import of_every_kind
from zae_limiter import Limit
from zae_limiter.schema import gsi2_pk_resource, gsi4_pk, index_suffix
from zae_limiter.schema.attributes import COUNTERS
from zae_limiter.schema.changes import consumption
from zae_limiter.schema.items import WRITES, BucketId, LimitBalance, bucket_item
from zae_limiter.schema.moving import moved, namespace_in

RPM = Limit.per_minute("rpm", 60)
BUCKET = BucketId("before", "key-1", "gpt-4", 3)
USED = {
    **bucket_item(
        BUCKET,
        {"parent_id": "p"},
        [LimitBalance(RPM, -7_001, 5_500)],
        shard_count=4,
        anchor_ms=9,
        config_as_of_ms=8,
        spread=False,
    ),
    **dict.fromkeys(COUNTERS, 5),
    "rj_org/7/tpm": 1,
    "w3": 7,
    WRITES: 9_000,
    "ttl": 77,
}


def test_an_item_of_every_kind_has_the_keys_of_the_other_namespace_and_may_come_back() -> None:
    for item in of_every_kind("before", 9):
        there = moved(item, "before", "after")
        assert namespace_in(there) == "after"
        assert "before" not in str([value for name, value in there.items() if name.endswith(("PK", "SK"))])
        assert {name: value for name, value in there.items() if not name.endswith(("PK", "SK"))} == {
            name: value for name, value in item.items() if not name.endswith(("PK", "SK"))
        }
        assert moved(there, "after", "before") == item


def test_index_rows_have_the_suffixes_of_the_target_whatever_they_had() -> None:
    for item in of_every_kind("before", 9):
        spread = moved(item, "before", "after", spread=True)
        of_entity = item["SK"] == "#STATE" or item["SK"].startswith("#USAGE#")
        suffix = index_suffix(item["entity_id"]) if of_entity else None
        assert spread["GSI4PK"] == gsi4_pk("after", suffix)
        assert spread.get("GSI2PK") == (gsi2_pk_resource("after", item["resource"], suffix) if of_entity else None)
        assert moved(spread, "after", "before") == moved(item, "before", "before")


def test_a_value_that_only_looks_like_the_key_of_the_namespace_stays() -> None:
    item = {
        "PK": "before/ENTITY#e",
        "SK": "#META",
        "GSI4PK": "before",
        "GSI4SK": "CONFIG#before/x#e",
        "name": "before/",
    }
    assert moved(item, "before", "after") == {**item, "PK": "after/ENTITY#e", "GSI4PK": "after"}


def test_a_bucket_keeps_its_balances_and_begins_to_count() -> None:
    begun = moved(USED, "before", "after")
    expected = bucket_item(
        BucketId("after", "key-1", "gpt-4", 3),
        {"parent_id": "p"},
        [LimitBalance(RPM, -7_001)],
        shard_count=4,
        anchor_ms=9,
        config_as_of_ms=8,
        spread=False,
        expires_at=77,
    )
    assert begun == expected
    assert not consumption(None, begun)
    assert consumption(begun, {**begun, "rj": 1, WRITES: 2_000}).acquires == {"rj": 1}


def test_the_marks_of_a_stream_and_the_lock_of_an_apply_stay_behind() -> None:
    snapshot = {"PK": "before/ENTITY#e", "SK": "#USAGE#gpt-4#2024-01-01", "rpm": 1, "_rest_rpm": 5, "_counted_12": "x"}
    assert moved(snapshot, "before", "after") == {
        "PK": "after/ENTITY#e",
        "SK": "#USAGE#gpt-4#2024-01-01",
        "rpm": 1,
        "_rest_rpm": 5,
    }
    head = {"PK": "before/SYSTEM#", "SK": "#PROVISIONER", "lock": {"id": "1"}, "serial": 4}
    assert moved(head, "before", "after") == {"PK": "after/SYSTEM#", "SK": "#PROVISIONER", "serial": 4}
