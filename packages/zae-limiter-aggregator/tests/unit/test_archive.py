import gzip
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.aggregator.streams import record
from zae_limiter.schema.audit import audit_item, check_subject
from zae_limiter.schema.keys import AuditAddress
from zae_limiter.values.audit import AuditEvent
from zae_limiter_aggregator.archive import archive_event, object_body, object_key
from zae_limiter_aggregator.records import ExpiredEvent, Position, UnreadableRecord, read_record
from zae_limiter_aggregator.settings import Settings

EVENT_ID = "2024-01-01T10:00:00.000Z-00000001-abcdef-00000"


def expired(
    entity: str = "key-abc", *, at: str = "2024-01-01T10:00:00.000Z", after: Mapping[str, Any] | None = None
) -> ExpiredEvent:
    event = AuditEvent(EVENT_ID, entity, "limits_set", "alice", at, None, None, after)
    return ExpiredEvent(Position("label#7", "7"), AuditAddress("ns", entity), event)


def test_an_event_is_kept_by_its_day_namespace_and_entity() -> None:
    assert object_key("audit/", expired()) == f"audit/date=2024-01-01/ns/key-abc/{EVENT_ID}.jsonl.gz"


@pytest.mark.parametrize(
    ("entity", "part"),
    [
        ("$SYSTEM", "$SYSTEM"),
        ("$RESOURCE:openai/gpt-4", "$RESOURCE:openai%2Fgpt-4"),
        ("a@b.c:d", "a@b.c:d"),
        ("auth0|123", "auth0%7C123"),
        ("/v1/chat", "%2Fv1%2Fchat"),
        ("..", "%2E."),
        (".", "%2E"),
        ("é", "%C3%A9"),
        ("%2E.", "%252E."),
    ],
)
def test_no_name_reaches_into_the_folder_of_another(entity: str, part: str) -> None:
    assert object_key("", expired(entity)).split("/")[2] == part


def test_the_longest_name_fits_a_key() -> None:
    for name in ("@" * 256, "/" * 170, "日" * 56, f"$RESOURCE:{'/' * 128}", f"$RESOURCE:{'日' * 42}"):
        assert len(object_key("audit/", expired(check_subject("entity", name))).encode()) <= 1024


def test_an_event_is_a_line_of_json() -> None:
    line = gzip.decompress(object_body(expired(after={"limits": {"rpm": {"capacity": 5}}, "name": "Zoë"})))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "namespace_id": "ns",
        "event_id": EVENT_ID,
        "entity_id": "key-abc",
        "action": "limits_set",
        "principal": "alice",
        "at": "2024-01-01T10:00:00.000Z",
        "resource": None,
        "before": None,
        "after": {"limits": {"rpm": {"capacity": 5}}, "name": "Zoë"},
    }


def test_the_same_event_is_the_same_bytes() -> None:
    assert object_body(expired(after={"b": 1, "a": 2})) == object_body(expired(after={"a": 2, "b": 1}))


NAMES = [
    "ns",
    "key-abc",
    "$SYSTEM",
    "$RESOURCE:openai/gpt-4",
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\nb",
    "a\0b",
    "é",
    "x" * 2048,
]
SERIALS = ["-1", "-00000001-abcdef-00000", "-1+2-3", "", "-", "/../x", "-a/b", "-a\nb", "-" + "x" * 2048, "-é", "-.."]
TIMES = ["2024-01-01T10:00:00.000Z", "2024-02-30T10:00:00.000Z", "../../..T10", "", "2024-01-01", "yesterday"]
KEY = re.compile(
    r"audit/date=[0-9-]{10}/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9$%_:@~-][A-Za-z0-9_.:@$%~-]*/2024-[0-9A-Za-z:.+-]*\.jsonl\.gz"
)


@given(
    *(st.sampled_from(NAMES) | st.text(max_size=300) for _ in range(2)),
    st.sampled_from(TIMES) | st.text(max_size=24),
    st.sampled_from(SERIALS) | st.text(max_size=90).map("-".__add__),
)
def test_whatever_a_key_of_the_table_holds_no_object_is_outside_its_place(
    namespace: str, entity: str, at: str, serial: str
) -> None:
    event = AuditEvent(at + serial, entity, "limits_set", None, at, None, None, None)
    try:
        found = read_record(record(7, audit_item(namespace, event, expires_at=1), None, by_ttl=True))
    except UnreadableRecord:
        return
    assert isinstance(found, ExpiredEvent)
    key = object_key("audit/", found)
    assert KEY.fullmatch(key)
    assert key.split("/")[1:3] == [f"date={at[:10]}", namespace]
    assert key.count("/") == 4
    assert len(key) <= 1024


def test_keeping_it_is_one_put() -> None:
    seen: list[dict[str, Any]] = []
    settings = Settings(stack="demo", archive_bucket="demo-audit")
    assert archive_event(lambda **request: seen.append(request), settings, expired())
    assert seen == [
        {
            "Bucket": "demo-audit",
            "Key": object_key("audit/", expired()),
            "Body": object_body(expired()),
            "ContentType": "application/gzip",
            "ChecksumAlgorithm": "SHA256",
        }
    ]
