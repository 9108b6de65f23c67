from typing import Any

import pytest

from support.aggregator.streams import ARN, LABEL, record
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.changes import Consumption
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import AuditEvent
from zae_limiter_aggregator.records import BucketChange, DeletedEvent, ExpiredEvent, UnreadableRecord, read_record

BUCKET = {"PK": "ns/BUCKET#key-abc#openai/gpt-4#1", "SK": "#STATE", "rf": 1_600_000_000_000, "shard_count": 2}
EVENT = AuditEvent(
    event_id="2024-01-01T10:00:00.000Z-0001",
    entity_id="$RESOURCE:openai/gpt-4",
    action="limits_set",
    principal="alice",
    at="2024-01-01T10:00:00.000Z",
    resource="openai/gpt-4",
    before=None,
    after={"limits": {"rpm": {"capacity": 5}}},
)
AUDIT = audit_item("ns", EVENT, expires_at=1_700_000_000)


def bucket(tc: int, **more: Any) -> dict[str, Any]:
    return {**BUCKET, "b_rpm_tc": tc, "ev": tc // 1000, **more}


def change(*args: Any, **more: Any) -> BucketChange:
    said = read_record(record(*args, **more))
    assert isinstance(said, BucketChange)
    return said


def test_a_change_of_a_bucket_tells_whose_when_and_what_was_consumed() -> None:
    said = change(7, bucket(5000), bucket(8000), at_ms=1_700_000_123_000)
    assert said.bucket == BucketId("ns", "key-abc", "openai/gpt-4", 1)
    assert said.at_ms == 1_700_000_123_000
    assert said.anchor_ms == 1_600_000_000_000
    assert said.consumption == Consumption({"rpm": 3}, {"ev": 3})
    assert said.position == (f"{LABEL}#{7:040}", "7")
    assert (said.before, said.after) == (bucket(5000), bucket(8000))


def test_of_a_new_bucket_all_was_consumed() -> None:
    assert change(7, None, bucket(8000)).consumption == Consumption({"rpm": 8}, {"ev": 8})


def test_a_bucket_that_is_removed_consumes_nothing() -> None:
    assert read_record(record(7, bucket(8000), None)) is None
    assert read_record(record(7, bucket(8000), None, by_ttl=True)) is None


def test_an_audit_event_that_ttl_removed_is_told() -> None:
    said = read_record(record(7, AUDIT, None, by_ttl=True))
    assert isinstance(said, ExpiredEvent)
    assert (said.address, said.event) == (("ns", "$RESOURCE:openai/gpt-4"), EVENT)


def test_dynamodb_local_spells_a_removal_by_ttl_in_another_way() -> None:
    spelt = {**record(7, AUDIT, None), "eventName": "UNKNOWN_TO_SDK_VERSION"}
    assert isinstance(read_record(spelt), ExpiredEvent)
    gone = {**record(7, bucket(8000), None), "eventName": "UNKNOWN_TO_SDK_VERSION"}
    assert read_record(gone) is None


def audit(namespace: str = "ns", entity: str = "e", at: str = EVENT.at, serial: str = "-1") -> dict[str, Any]:
    event = AuditEvent(at + serial, entity, "limits_set", None, at, None, None, None)
    return record(7, audit_item(namespace, event, expires_at=1), None, by_ttl=True)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        *(
            (audit(namespace=name), "the key of the audit event has no valid namespace id")
            for name in ("", "..", "n\n")
        ),
        (audit(namespace="n" * 2000), "the key of the audit event has no valid namespace id"),
        (audit(namespace="../x"), "the key is not one of audit events"),
        *((audit(entity=name), "the key of the audit event has no valid entity") for name in ("", "a b", "e\n")),
        (audit(entity="$RESOURCE:a b"), "the key of the audit event has no valid entity"),
        (record(7, {**AUDIT, "PK": "ns/AUDIT#a%7cb"}, None, by_ttl=True), "the key is not one of audit events"),
        (record(7, {**AUDIT, "PK": "ns/AUDIT#e%CC%81"}, None, by_ttl=True), "the key is not one of audit events"),
        (record(7, {**AUDIT, "PK": "ns/AUDIT#a#b"}, None, by_ttl=True), "the key is not one of audit events"),
        (audit(entity="e" * 2000), "the key of the audit event has no valid entity"),
        *((audit(at=at), "the audit event has no time") for at in ("", "2024-02-30T10:00:00.000Z", "../../../x")),
        *(
            (audit(serial=serial), "the id of the audit event is not its time and a serial")
            for serial in ("", "/../x", "-a/b", "-1\n", "-" + "1" * 2000)
        ),
        (
            record(7, {**AUDIT, "entity_id": "e"}, None, by_ttl=True),
            "the audit event has another entity or id than its key",
        ),
        (
            record(7, AUDIT, {**AUDIT, "principal": "mallory"}),
            "an audit event was overwritten: the stream has its earlier values in OldImage",
        ),
    ],
)
def test_an_audit_event_that_core_cannot_have_written_names_what_is_wrong(broken: dict[str, Any], told: str) -> None:
    with pytest.raises(UnreadableRecord) as refused:
        read_record(broken)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    "other",
    [
        record(7, None, AUDIT),
        record(7, AUDIT, AUDIT),
        record(7, None, {"PK": "ns/ENTITY#a", "SK": "#META"}),
        record(7, {"PK": "ns/ENTITY#a", "SK": "#USAGE#r#2024-01-01", "tpm": 5}, None, by_ttl=True),
        {**record(7, None, {"PK": "anything", "SK": "at all"}), "eventName": "NEW_KIND"},
    ],
)
def test_what_is_nothing_to_us_is_left_alone(other: dict[str, Any]) -> None:
    assert read_record(other) is None


@pytest.mark.parametrize("identity", [None, {"type": "Service", "principalId": "somebody.else"}])
@pytest.mark.parametrize("key", [{}, {"PK": "ns/AUDIT#a b"}, {"SK": "#AUDIT#"}], ids=str)
def test_an_audit_event_that_ttl_did_not_remove_was_deleted_whatever_its_key(
    key: dict[str, str], identity: Any
) -> None:
    found = read_record({**record(7, {**AUDIT, **key}, None), "userIdentity": identity})
    assert isinstance(found, DeletedEvent)
    assert (found.namespace_id, found.position.sequence) == ("ns", "7")


def test_a_deleted_event_of_no_namespace_names_what_is_wrong() -> None:
    with pytest.raises(UnreadableRecord, match=r"^the key has no valid namespace id$"):
        read_record(record(7, {**AUDIT, "PK": "a b/AUDIT#e"}, None))


def without(name: str) -> dict[str, Any]:
    broken = record(7, bucket(1000), bucket(2000))
    del broken["dynamodb"][name]
    return broken


def at(seconds: object) -> dict[str, Any]:
    broken = record(7, None, bucket(1000))
    broken["dynamodb"]["ApproximateCreationDateTime"] = seconds
    return broken


@pytest.mark.parametrize(
    "broken",
    [
        *map(without, ("Keys", "OldImage", "NewImage", "ApproximateCreationDateTime")),
        *map(at, ("now", None, -1, float("inf"), 1e15)),
        record(7, None, bucket(1000, rf="now")),
        record(7, None, bucket(1000, shard_count="2")),
        *(record(7, None, bucket(1000, shard_count=count)) for count in (0, 1, 3, 128, 10**12)),
        record(7, bucket(1000, shard_count=10**12), bucket(1000)),
        record(7, None, bucket(1000, ev="many")),
        record(7, None, bucket(1000, b_rpm_cp="many")),
        record(7, None, bucket(10**31)),
        record(7, None, bucket(1000, b_total_events_tc=1000)),
        record(7, None, bucket(1000, **{f"b_limit{number}_tc": 1 for number in range(33)})),
        record(7, None, {**BUCKET, "b_rpm_tc": "many"}),
        *(record(7, None, {**BUCKET, "PK": f"ns/BUCKET#{rest}"}) for rest in ("e#r#01", "e#r#64", "e#r#-1", "#r#1")),
        *(record(7, None, {**BUCKET, "PK": f"ns/BUCKET#{rest}"}) for rest in (f"e#{'r' * 200}#1", f"{'e' * 300}#r#1")),
        record(7, None, {**BUCKET, "PK": f"{'n' * 70}/BUCKET#e#r#1"}),
        record(7, {**AUDIT, "at": "yesterday"}, None, by_ttl=True),
        record(7, None, {**BUCKET, "PK": "ns/BUCKET#key-abc"}),
        record(7, None, bucket(1000), label=""),
        {**record(7, None, bucket(1000)), "eventSourceARN": "arn:aws:sqs:eu-west-1:1:queue"},
        {**record(7, None, bucket(1000)), "eventName": "NEW_KIND"},
        {**record(7, None, bucket(1000)), "dynamodb": {"SequenceNumber": "7"}},
        record(7, {**AUDIT, "event_id": "another"}, None, by_ttl=True),
    ],
)
def test_a_record_that_does_not_say_what_it_should_cannot_be_read(broken: dict[str, Any]) -> None:
    with pytest.raises(UnreadableRecord):
        read_record(broken)


def test_a_number_that_is_none_cannot_be_read() -> None:
    broken = record(7, None, bucket(1000))
    broken["dynamodb"]["NewImage"]["b_rpm_tc"] = {"N": "1.5"}
    with pytest.raises(UnreadableRecord, match="b_rpm_tc is not a whole number"):
        read_record(broken)


@pytest.mark.parametrize("attribute", ["rf", "shard_count", "ev", "rj", "rj_org/rpm", "sj", "b_rpm_tc", "b_rpm_tk"])
@pytest.mark.parametrize(
    "value",
    [*({"N": text} for text in ("1.5", "NaN", "1E+9", "1_000", " 1", "")), {"N": 1.5}, {"N": 1}, {"S": "1"}, {}, [], 1],
    ids=str,
)
def test_a_problem_names_the_attribute_and_not_its_value(attribute: str, value: Any) -> None:
    broken = record(7, None, bucket(1000))
    broken["dynamodb"]["NewImage"][attribute] = value
    with pytest.raises(UnreadableRecord) as refused:
        read_record(broken)
    told = "a count of refusals" if "/" in attribute else attribute  # whose name has an id
    assert str(refused.value) == f"{told} is not a whole number from -10^30 to 10^30"


@pytest.mark.parametrize("name", ["rj_", "rj_rpm", "rj_org/", "rj_/rpm", "rj_or g/rpm", "rj_org/1", "rj_org/rpm/"])
def test_a_count_of_refusals_is_of_an_entity_and_a_name_that_a_limit_can_have(name: str) -> None:
    with pytest.raises(UnreadableRecord, match=r"no valid name of a limit|names no valid ancestor"):
        change(7, None, bucket(1000) | {name: 1})


def test_more_counts_of_refusals_than_ancestors_have_limits_cannot_be_read() -> None:
    counts = {f"rj_org/limit_{number}": 1 for number in range(64)}
    assert change(7, None, bucket(1000) | counts)
    with pytest.raises(UnreadableRecord, match="more than 64 limits of ancestors"):
        change(7, None, bucket(1000) | counts | {"rj_org/more": 1})


def test_the_mark_of_a_record_is_of_its_stream() -> None:
    assert ARN.endswith("/stream/")
    one, other = change(7, None, bucket(1000)), change(3, None, bucket(1000), label="2025-01-01T00:00:00.000")
    assert one.position.mark < other.position.mark
