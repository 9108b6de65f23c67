"""Whatever a record of the stream holds, the others of its batch are read, and it is read or reported."""

from typing import Any

import pytest

from support.aggregator.streams import record
from support.core.damage import GONE, leaves, wrong
from zae_limiter.schema.audit import audit_item
from zae_limiter.values.audit import AuditEvent
from zae_limiter_aggregator.batch import read_batch

BUCKET: dict[str, Any] = {
    "PK": "ns/BUCKET#key-abc#gpt-4#0",
    "SK": "#STATE",
    "entity_id": "key-abc",
    "resource": "gpt-4",
    "rf": 1_600_000_000_000,
    "cv": 1_600_000_000_000,
    "shard_count": 1,
    "ttl": 1_700_000_000,
    "cascade": True,
    "parent_id": "p",
    "ev": 3,
    "rj": 2,
    "sj": 1,
    "uc": 1,
    "eb": 1,
    "rb": 1,
    "rq": "rpm:1",
    "rj_p/rpm": 1,
    "b_wcu_tc": 3000,
    "b_rpm_tk": 5000,
    "b_rpm_tc": 5000,
    "b_rpm_cp": 60_000,
    "b_rpm_bx": 60_000,
    "b_rpm_ra": 60_000,
    "b_rpm_rp": 60_000,
    "b_rpm_al": "80",
}
EVENT = AuditEvent(
    event_id="2024-01-01T10:00:00.000Z-0001",
    entity_id="key-abc",
    action="limits_set",
    principal="alice",
    at="2024-01-01T10:00:00.000Z",
    resource="gpt-4",
    before={"limits": {"rpm": {"capacity": 5, "burst": 5, "refill_amount": 5, "refill_period": 60}}},
    after={"limits": {}},
)
AUDIT = audit_item("ns", EVENT, expires_at=1_700_000_000)
SOUND = [record(1, None, BUCKET), record(2, AUDIT, None, by_ttl=True)]


def damaged(item: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The item with another value at a path."""
    name, *rest = path
    if not rest:
        return {key: each for key, each in {**item, name: value}.items() if each is not GONE}
    return {**item, name: damaged(item[name], tuple(rest), value)}


@pytest.mark.parametrize("item", [BUCKET, AUDIT], ids=["bucket", "audit event"])
def test_a_batch_reads_the_others_and_reports_what_it_cannot_read(item: dict[str, Any]) -> None:
    tried = reported = 0
    for path, value in leaves(item):
        for how, other in wrong(value, f"{value}-other").items():
            if path[0] in ("PK", "SK") and not isinstance(other, str):
                continue  # a key is a text in every table
            broken = damaged(item, path, other)
            change = record(3, broken, None, by_ttl=True) if item is AUDIT else record(3, item, broken)
            batch = read_batch([SOUND[0], change, SOUND[1]])
            tried += 1
            reported += len(batch.unreadable)
            assert {each.position.sequence for each in batch.changes} >= {"1"}, (path, how)
            assert {each.position.sequence for each in batch.expired} >= {"2"}, (path, how)
            assert {each.sequence for each in batch.unreadable} <= {"3"}, (path, how)
            assert all("forged" not in each.problem for each in batch.unreadable), (path, how)
    assert tried >= 100
    assert reported >= 50
