import json
from datetime import UTC, datetime
from typing import Any

from zae_limiter_cli.local.pump.records import event_record, fold, keys_alone

SOURCE = "arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/label"
KEYS = {"PK": {"S": "a"}, "SK": {"S": "b"}}


def told(number: int = 1, **change: Any) -> dict[str, Any]:
    """A record, as boto3 gives it."""
    moment = datetime(2026, 11, 20, 12, 0, 0, 250_000, UTC)
    whole = {"Keys": KEYS, "SequenceNumber": str(number), "ApproximateCreationDateTime": moment, "SizeBytes": 3}
    return {"eventID": "x", "eventName": "?", "eventVersion": "0", "dynamodb": {**whole, **change}}


def event(number: int = 1, **change: Any) -> dict[str, Any]:
    return event_record(told(number, **change), region="us-east-1", source_arn=SOURCE)


def test_a_record_has_the_shape_that_a_lambda_gets() -> None:
    found = event(NewImage={**KEYS, "n": {"N": "1"}})
    assert len(found.pop("eventID")) == 32
    assert found == {
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "eventSourceARN": SOURCE,
        "dynamodb": {
            "Keys": KEYS,
            "NewImage": {**KEYS, "n": {"N": "1"}},
            "SequenceNumber": "1",
            "ApproximateCreationDateTime": 1795176000.25,
            "SizeBytes": 3,
        },
    }


def test_its_id_is_its_own_and_stays() -> None:
    assert event(1)["eventID"] == event(1)["eventID"] != event(2)["eventID"]


def test_its_name_follows_from_its_images() -> None:
    assert event(NewImage=KEYS, OldImage=KEYS)["eventName"] == "MODIFY"
    assert event(OldImage=KEYS)["eventName"] == "REMOVE"


def test_what_ttl_removed_says_so_as_lambda_spells_it() -> None:
    record = {**told(OldImage=KEYS), "userIdentity": {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}}
    found = event_record(record, region="us-east-1", source_arn=SOURCE)
    assert found["userIdentity"] == {"principalId": "dynamodb.amazonaws.com", "type": "Service"}


def test_every_type_of_attribute_goes_through_json() -> None:
    image = {**KEYS, "b": {"B": b"\x00\xff"}, "bs": {"BS": [b"a"]}, "l": {"L": [{"M": {"x": {"BOOL": True}}}]}}
    assert json.loads(json.dumps(event(NewImage=image)))["dynamodb"]["NewImage"] == {
        **KEYS,
        "b": {"B": "AP8="},
        "bs": {"BS": ["YQ=="]},
        "l": {"L": [{"M": {"x": {"BOOL": True}}}]},
    }


def test_an_insert_of_keys_alone_goes_with_the_whole_one_behind_it() -> None:
    bare, whole = event(1, NewImage=KEYS), event(2, NewImage={**KEYS, "n": {"N": "1"}})
    assert keys_alone(bare)
    assert not keys_alone(whole)
    assert fold([bare, whole]) == [whole]


def test_other_records_stay() -> None:
    bare = event(1, NewImage=KEYS)
    changed = event(2, NewImage={**KEYS, "n": {"N": "1"}}, OldImage=KEYS)
    other = event(3, NewImage={"PK": {"S": "c"}}, Keys={"PK": {"S": "c"}})
    gone, again = event(4, OldImage=KEYS), event(5, NewImage=KEYS)
    assert fold([bare, changed]) == [bare, changed]
    assert fold([bare, other]) == [bare, other]
    assert fold([bare, gone, again]) == [bare, gone, again]
