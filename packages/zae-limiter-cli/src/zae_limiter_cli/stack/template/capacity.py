"""What table and indexes may take: on demand or provisioned, warm throughput, maxima, autoscaling, insights.

A write whose index is throttled fails as a whole, so each index gets what the table gets. Only the provisioned minimum
may differ: it is paid for by the hour, and an acquire on a bucket that is there writes no index.
"""

from typing import Any, Final

from zae_limiter.maintenance import INDEXES

from .language import Resource, Resources, Value, ref, resource, text, when

KINDS: Final = ("Read", "Write")


def billing() -> Value:
    """Return the mode that table and indexes are paid by."""
    return when("IsProvisioned", "PROVISIONED", "PAY_PER_REQUEST")


def capacity(*, index: bool = False) -> Resource:
    """Return the properties of a table, or of one of its indexes."""
    least = {f"{kind}CapacityUnits": _least(kind, index=index) for kind in KINDS}
    most = {f"Max{kind}RequestUnits": when(f"Has{kind}Maximum", ref(f"Max{kind}s")) for kind in KINDS}
    warm = {f"{kind}UnitsPerSecond": when(f"Warms{kind}s", ref(f"Warm{kind}s")) for kind in KINDS}
    mode = when("HasFullInsights", "ACCESSED_AND_THROTTLED_KEYS", "THROTTLED_KEYS")
    return {
        "ProvisionedThroughput": when("IsProvisioned", least),
        "OnDemandThroughput": when("HasMaximum", most),
        "WarmThroughput": when("HasWarmth", warm),
        "ContributorInsightsSpecification": when("HasInsights", {"Enabled": True, "Mode": mode}),
    }


def scaling() -> Resources:
    """Return the autoscaling of the reads and of the writes of table and indexes."""
    made: Resources = {}
    for name in ("Table", *INDEXES):
        for kind in KINDS:
            made |= _scaling(name, kind)
    return made


def _scaling(name: str, kind: str) -> Resources:
    index = name in INDEXES
    target, policy = f"{name}{kind}Scaling", f"{name}{kind}ScalingPolicy"
    scaled: dict[str, Any] = {
        "ServiceNamespace": "dynamodb",
        "ResourceId": text(f"table/${{Table}}/index/{name}" if index else "table/${Table}"),
        "ScalableDimension": f"dynamodb:{'index' if index else 'table'}:{kind}CapacityUnits",
        "MinCapacity": _least(kind, index=index),
        "MaxCapacity": ref(f"Max{kind}s"),
    }
    tracking = {
        "PredefinedMetricSpecification": {"PredefinedMetricType": f"DynamoDB{kind}CapacityUtilization"},
        "TargetValue": ref("TargetUtilization"),
    }
    rule = {
        "PolicyName": f"{name}{kind}s",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": ref(target),
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }
    return {
        target: resource("ApplicationAutoScaling::ScalableTarget", scaled, condition="IsProvisioned"),
        policy: resource("ApplicationAutoScaling::ScalingPolicy", rule, condition="IsProvisioned"),
    }


def _least(kind: str, *, index: bool) -> Value:
    of_table = ref(f"Min{kind}s")
    return when(f"HasMinIndex{kind}s", ref(f"MinIndex{kind}s"), of_table) if index else of_table
