"""A report on one acquire: its explanation, the refusals of the last hour, the last changes of the limits that decide.

Two reads for an entity and its parent, one query for the refusals, one for the changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import (
        AuditEvent,
        BucketExplanation,
        Draw,
        Explanation,
        LimitExplanation,
        Refuser,
        SyncRepository,
        UsageSummary,
    )

CHANGES: Final = 3
LAST: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Report:
    """What `why` shows. ``asked``: whole tokens by limit, ``None`` for one of each.

    ``usage``: what was counted of the caller since ``since``, the begin of an hour. ``suspect``: the limit that
    refuses, or that refused the caller most often, and its bucket. ``changes``: the newest of the limits of this
    bucket, or of the caller's own; ``subject`` is whose they are.
    """

    explanation: "Explanation"
    asked: Mapping[str, int] | None
    since: datetime
    usage: "UsageSummary"
    suspect: "tuple[BucketExplanation, LimitExplanation] | None"
    subject: str
    changes: "tuple[AuditEvent, ...]"

    @property
    def deciding(self) -> "BucketExplanation":
        """The bucket that is disabled, or whose limits decide: the suspect's, or the caller's own."""
        if self.explanation.disabled is not None:
            return self.explanation.disabled
        return self.explanation.buckets[0] if self.suspect is None else self.suspect[0]


def read_report(
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    asked: Mapping[str, int] | None,
    *,
    also: "Sequence[Draw]" = (),
    cascade: bool,
) -> Report:
    """Read what the report has; write nothing."""
    from zae_limiter import SyncRateLimiter
    from zae_limiter.values.usage import window_start

    explanation = SyncRateLimiter(repository).explain(entity_id, resource, asked, cascade=cascade, also=also)
    since = window_start("hourly", int((explanation.at - LAST).timestamp() * 1000))
    usage = repository.get_usage_summary(entity_id=entity_id, resource=resource, window="hourly", start=since)
    suspect = explanation.binding or _most_often(explanation, usage.refused_by)
    subject = _switched_by(explanation.disabled) or _subject(explanation.buckets[0] if suspect is None else suspect[0])
    changes = repository.get_audit_events(subject, limit=CHANGES).events
    return Report(explanation, asked, since, usage, suspect, subject, changes)


def _most_often(
    explanation: "Explanation", refused_by: "Mapping[Refuser, int]"
) -> "tuple[BucketExplanation, LimitExplanation] | None":
    """Return the limit above that refused the caller most often, if the acquire draws on it."""
    nearest_last = reversed(explanation.buckets)  # an entity may be drawn on by two resources: the call's is meant
    drawn = {(bucket.entity_id, each.limit.name): (bucket, each) for bucket in nearest_last for each in bucket.limits}
    return drawn.get(max(refused_by, key=lambda refuser: refused_by[refuser])) if refused_by else None


def _switched_by(bucket: "BucketExplanation | None") -> str | None:
    """Return the subject under which the change of what disables a bucket is recorded."""
    from zae_limiter.maintenance import audit_resource, audit_system

    switch = None if bucket is None or bucket.switches is None else bucket.switches.disabled
    if bucket is None or switch is None:
        return None
    levels = {"resource": audit_resource(bucket.resource), "system": audit_system()}
    return levels.get(switch.source, bucket.entity_id)


def _subject(bucket: "BucketExplanation") -> str:
    """Return the subject under which changes of the limits of a bucket are recorded."""
    from zae_limiter.maintenance import audit_plan, audit_resource, audit_system

    if bucket.plan is not None and bucket.source in {"plan", "plan_default"}:
        return audit_plan(bucket.plan)
    if bucket.source == "resource":
        return audit_resource(bucket.resource)
    return audit_system() if bucket.source == "system" else bucket.entity_id
