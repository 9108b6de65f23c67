"""A report as plain values, for programs."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..audit.changes import plain_event
from ..data.switches import plain_resolved
from ..rates import in_money
from ..times import iso
from .draws import Drawn
from .next_steps import NextStep
from .overflow import left_there
from .report import Report, in_force, passes_at

if TYPE_CHECKING:
    from zae_limiter import Explanation
    from zae_limiter.values import BucketExplanation, LimitExplanation, Refuser


def plain_report(report: Report, steps: Sequence[NextStep]) -> dict[str, Any]:
    """Return every field of a report; a wait that never ends is ``null``."""
    found, usage = report.explanation, report.usage
    binding = None
    if found.binding is not None:
        bucket, limit = found.binding
        binding = {"entity_id": bucket.entity_id, "resource": bucket.resource, "limit_name": limit.limit.name}
    return {
        "entity_id": found.entity_id,
        "resource": found.resource,
        "at": iso(found.at),
        "asked": {**report.asked.amounts},
        "asked_by": report.asked.by,
        "unknown": [each.plain() for each in report.unknown],
        "passes": report.passes,
        "reason": found.reason,
        "wait_seconds": _seconds(found.wait_seconds),
        "passes_at": plain_instant(passes_at(found)),
        **({} if found.overflows_to is None else {"overflows_to": found.overflows_to}),
        "disabled": None if found.disabled is None else found.disabled.entity_id,
        **({} if report.by_draw is None else {"drawn": plain_drawn(report.by_draw)}),
        **({} if report.overflow is None else {"overflow": plain_overflow(report.overflow)}),
        "binding": binding,
        "parent_id": found.parent_id,
        "parent_ids": list(found.parent_ids),
        "cascades": found.cascades,
        "buckets": [_bucket(each) for each in found.buckets],
        "usage": {
            "since": iso(report.since),
            "windows": usage.windows,
            "total_events": usage.total_events,
            "total_refused": usage.total_refused,
            "refused_by": _refused_by(usage.refused_by),
        },
        "changes": [plain_event(each) for each in report.changes],
        "next": [step._asdict() for step in steps],
    }


def _bucket(bucket: "BucketExplanation") -> dict[str, Any]:
    return {
        "entity_id": bucket.entity_id,
        "path": list(bucket.path),
        "resource": bucket.resource,
        "source": bucket.source,
        **({} if bucket.pattern is None else {"pattern": bucket.pattern}),
        **({} if bucket.tier is None else {"tier": bucket.tier}),
        "override_until": None if bucket.override_until is None else iso(bucket.override_until),
        **({} if bucket.run_until is None else {"run_until": iso(bucket.run_until)}),
        **({} if bucket.run_ended is None else {"run_ended": iso(bucket.run_ended)}),
        "shard_count": bucket.shard_count,
        "admitted": bucket.admitted,
        "refused": bucket.refused,
        "shadowed": bucket.shadowed,
        "refused_by": _refused_by(bucket.refused_by),
        "switches": plain_resolved(bucket.switches),
        "limits": {each.limit.name: _limit(each) for each in bucket.limits},
        "unlimited": list(bucket.unlimited),
        **({"is_unlimited": True} if bucket.is_unlimited else {}),
    }


def _limit(each: "LimitExplanation") -> dict[str, Any]:
    declared = {name: value for name, value in each.limit.to_dict().items() if name != "name"}
    return {
        "requested": each.requested,
        "source": each.source,
        **({} if each.override_until is None else {"override_until": iso(each.override_until)}),
        **({} if each.pattern is None else {"pattern": each.pattern}),
        "available": each.available,
        "prefetched": each.prefetched,
        "refuses": each.refuses,
        "reason": each.reason,
        "blocked": each.blocked,
        "wait_seconds": _seconds(each.wait_seconds),
        "usable_burst": in_force(each).usable_burst,
        **in_money(each.limit.unit, requested=each.requested or 0, available=each.available),
        **declared,
        **({} if each.in_force is None else {"in_force": each.in_force.to_dict(), "entry": each.schedule or None}),
    }


def _refused_by(counts: "Mapping[Refuser, int]") -> list[dict[str, Any]]:
    return [{**refuser._asdict(), "refused": count} for refuser, count in counts.items()]


def plain_drawn(drawn: Drawn) -> dict[str, Any]:
    """Return the draw that refused calls."""
    bucket, limit = drawn.found or (None, None)
    return {
        **drawn.refuser._asdict(),
        "resource": None if bucket is None else bucket.resource,
        "refused": drawn.refused,
        "available": None if limit is None else limit.available,
        "full_seconds": _seconds(drawn.full_seconds),
    }


def plain_overflow(there: "Explanation") -> dict[str, Any]:
    """Return what the overflow says of a call."""
    left = {name: tokens for name, tokens, _ in left_there(there)}
    return {"resource": there.resource, "passes": there.passes, "available": left}


def plain_instant(at: datetime | None) -> str | None:
    """Return an instant as JSON has it."""
    return None if at is None else iso(at)


def _seconds(wait: float) -> float | None:
    return None if math.isinf(wait) else wait
