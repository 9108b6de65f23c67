"""Read what `top` shows, with a bounded number of requests.

The problem: a namespace may have more buckets than anybody can read each second. The choice: usage, which names those
that do something, is read seldom and as a whole; the tokens of the buckets on the screen are read each time, a hundred
with a request. The price: who has neither been admitted nor refused in this hour or the one before is shown only while
there is room. Who is whose parent is read with a hundred records a request, twice a minute. Usage takes as many
requests as it has pages, one after the other, and then rests fifty times as long as it took: at 4 ms a request or more,
that is fewer than five a second.
"""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from .rows import Place, Reading

if TYPE_CHECKING:
    from zae_limiter import AuditEvent, EntityUsage, SyncRepository

USAGE_SECONDS: Final = 5.0  # the aggregator is some seconds behind, too
RESTS: Final = 50
CHANGES_SECONDS: Final = 30.0
PARENTS_SECONDS: Final = 30.0
RECENT: Final = timedelta(hours=1)


class Reader:
    """Reads a namespace, or one resource of it, again and again."""

    def __init__(self, repository: "SyncRepository", resource: str | None, most: int) -> None:
        self._repository = repository
        self._resource = resource
        self.most = most
        self._usage: dict[Place, EntityUsage] = {}
        self._usage_ms = self._since_ms = 0
        self._parents: dict[str, tuple[str, ...]] = {}
        self._usage_at = self._change_at = self._parents_at = 0.0  # instants of `monotonic` for the next look
        self.change: AuditEvent | None = None

    def read(self) -> Reading:
        """Return what there is now. Raises the errors of core."""
        if monotonic() >= self._usage_at:
            begun = monotonic()
            self._read_usage()
            self._usage_at = monotonic() + max(USAGE_SECONDS, RESTS * (monotonic() - begun))
        if monotonic() >= self._change_at:
            self._read_change()
            self._change_at = monotonic() + CHANGES_SECONDS
        buckets = self._repository.get_buckets_at([*self._usage][: self.most]) if self._usage else []
        if len(buckets) < self.most:
            buckets += self._repository.list_buckets(self._resource, limit=self.most - len(buckets)).buckets
        found = {Place(each.entity_id, each.resource): each for each in buckets}
        entities = {place.entity_id for place in (*self._usage, *found)}
        if monotonic() >= self._parents_at:
            self._read_parents(entities)
            self._parents_at = monotonic() + PARENTS_SECONDS
        return Reading(self._now_ms(), self._since_ms, self._usage_ms, self._usage, found, self._parents)

    def _read_parents(self, entities: set[str]) -> None:
        records = self._repository.get_entity_records(sorted(entities))
        self._parents = {entity_id: tuple(record.parent_ids) for entity_id, record in records.items()}

    def _read_usage(self) -> None:
        """Read who was refused most in this hour and the one before, and who was admitted most."""
        self._usage_ms = self._now_ms()
        hour = datetime.fromtimestamp(self._usage_ms / 1000, UTC).replace(minute=0, second=0, microsecond=0)
        since = hour - RECENT
        self._since_ms = int(since.timestamp()) * 1000
        most = [
            each
            for by in ("total_refused", "total_events")
            for each in self._repository.get_top_usage(
                self._resource, by=by, start=since, end=hour + RECENT, limit=self.most
            )
        ]
        self._usage = {Place(each.entity_id, each.resource): each for each in most}

    def _read_change(self) -> None:
        since = datetime.fromtimestamp(self._now_ms() / 1000, UTC) - RECENT
        self.change = next(iter(self._repository.get_namespace_audit_events(since, limit=1).events), None)

    def _now_ms(self) -> int:
        return self._repository.namespace_state.now()  # the store's time
