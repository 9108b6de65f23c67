"""What the repository answers with are values: equal where they say the same, hashable, and picklable."""

import pickle
from datetime import UTC, datetime

import pytest

from zae_limiter import Entity
from zae_limiter.maintenance import ProvisionerState, StoredConfig
from zae_limiter.values.audit import AuditEvent, AuditPage
from zae_limiter.values.buckets import Bucket, BucketLimit, LimitCapacity, ResourceCapacity
from zae_limiter.values.bulk import BulkResult
from zae_limiter.values.explanation import BucketExplanation, Explanation, LimitExplanation
from zae_limiter.values.limit_status import LimitStatus
from zae_limiter.values.limits import Limit
from zae_limiter.values.usage import LimitUsage, UsagePage, UsageSnapshot, UsageSummary

RPM = Limit.per_minute("rpm", 60)
EVENT = AuditEvent("1", "e", "limits_set", None, "", None, None, {"limits": {"rpm": {"capacity": 60}}})
SNAPSHOT = UsageSnapshot("e", "r", "daily", datetime(2026, 1, 1, tzinfo=UTC), {"rpm": 7}, 1)
EXPLANATION = Explanation(
    "e",
    "r",
    datetime(2026, 1, 1, tzinfo=UTC),
    parent_id=None,
    cascades=False,
    buckets=(BucketExplanation("e", "r", "system", None, 1, (LimitExplanation(RPM, 1, 0, 0, 1.0),)),),
)
USAGE = LimitUsage("rpm", 7, 7, 7, 7.0)


@pytest.mark.parametrize(
    "value",
    [
        RPM,
        LimitStatus("e", "r", "rpm", RPM, 1, 2, exceeded=True, retry_after_seconds=1.0),
        Entity("e", None, None, cascade=False, metadata={"team": "x"}, created_at="", version=1),
        EVENT,
        AuditPage((EVENT,), None),
        Bucket("e", "r", 1, (BucketLimit(RPM, 1, 2),), 0, None),
        ResourceCapacity("r", (LimitCapacity("rpm", 60, 1, 1),), 1),
        EXPLANATION,
        SNAPSHOT,
        UsagePage((SNAPSHOT,), None),
        UsageSummary("daily", 1, (USAGE,), 1),
        StoredConfig((RPM,)),
        ProvisionerState(managed_entities={"e": ("r",)}),
        BulkResult((("e", "r"),), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_is_hashable_and_comes_back_from_a_pickle(value: object) -> None:
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert {copy: 1}[value] == 1
