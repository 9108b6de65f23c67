import subprocess
import sys

from zae_limiter import maintenance
from zae_limiter.schema.changes import bucket_of, is_audit_event


def test_every_name_of_the_door_is_there_once() -> None:
    assert len(set(maintenance.__all__)) == len(maintenance.__all__)
    assert [name for name in maintenance.__all__ if not hasattr(maintenance, name)] == []


def test_the_door_has_no_driver_and_no_store() -> None:
    assert [name for name in maintenance.__all__ if "Driver" in name or name.endswith("Store")] == []


def test_a_cold_start_imports_neither_an_aws_library_nor_a_repository() -> None:
    heavy = {"aioboto3", "aiobotocore", "asyncio", "boto3", "botocore", "zae_limiter.sync.repository"}
    ask = f"import sys, zae_limiter.maintenance; print(sorted({heavy!r} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_a_key_is_of_a_bucket_of_an_audit_event_or_of_something_else() -> None:
    bucket = maintenance.BucketId("ns", "key-abc", "gpt-4", 3)
    entity = {"PK": "ns/ENTITY#key-abc", "SK": "#META"}
    event = {"PK": "ns/AUDIT#key-abc", "SK": "#AUDIT#1"}
    assert bucket_of({"PK": bucket.pk, "SK": maintenance.sk_state()}) == bucket
    assert [bucket_of(key) for key in (entity, event)] == [None, None]
    assert [is_audit_event(key) for key in (entity, event)] == [False, True]
