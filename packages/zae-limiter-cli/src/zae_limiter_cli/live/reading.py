"""Read what `top` shows, with fewer than five requests a second on the mean, however large the namespace is.

The problem: a namespace may have more buckets than anybody can read each second. The choice: usage, which names those
that do something, is read in rounds (``sweep``). A round goes on at the pace of the store, a part of it with each look,
and then rests, the longer the more it has read: so 50,000 entities are known within seconds, and the mean of the reads
stays that of a small namespace. The buckets on the screen are read with each look, a hundred with a request, and their
own counters give the rates. The price: between two rounds of a large namespace are minutes, and who has neither been
admitted nor refused in this hour or the one before is shown only while there is room. Who is whose parent is read with
a hundred records a request: when an entity comes, and twice a minute; so are the levels, which say what is in shadow.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final

from ..data.shadows import shadow_limits
from .rows import Place, Reading
from .sweep import Sweep

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import AuditEvent, Bucket

SNAPSHOTS: Final = 200  # of usage a second, over a round and its rest: 2.5 requests; as many are for what is shown
SHARE: Final = 0.85  # of the time of a look, for a round; the rest is for what is shown
ROUND_SECONDS: Final = 5.0  # for usage, which the aggregator counts some seconds later, and for new buckets
CHANGES_SECONDS: Final = 30.0
PARENTS_SECONDS: Final = 30.0
SHADOWS_SECONDS: Final = 30.0
RECENT: Final = timedelta(hours=1)
MOST_PLACES: Final = 1000  # that core reads at once
PLACES_PER_REQUEST: Final = 100


class Reader:
    """Reads a namespace, or one resource of it, again and again: every ``every`` seconds. It reads whatever there is
    with the first look if there is no other (``every`` is infinite). ``clock`` gives seconds.
    """

    def __init__(
        self,
        repository: "SyncRepository",
        resource: str | None,
        most: int,
        every: float = inf,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._repository = repository
        self._resource = resource
        self.most = most
        self._every = every
        self._clock = clock
        self._usage = Sweep(repository, resource)
        self._parents: dict[str, tuple[str, ...]] = {}  # empty for an entity that has none
        self._others: list[Place] = []  # who has a bucket, in the order of their names
        self._tiers: dict[str, str | None] = {}
        self._shadows: dict[Place, frozenset[str]] = {}  # empty for a bucket that has none
        # instants of the clock for the next look
        self._usage_at = self._others_at = self._change_at = self._parents_at = self._shadows_at = 0.0
        self.change: AuditEvent | None = None
        self.complete = False  # whether all usage was read once

    def read(self) -> Reading:
        """Return what there is now. Raises the errors of core."""
        now = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        if self._clock() >= self._usage_at or self._usage.is_past(now):
            self._read_usage(now)
        if self._clock() >= self._parents_at:
            self._parents = {}
            self._parents_at = self._clock() + PARENTS_SECONDS
        usage = self._usage.most(self.most)
        self._read_parents(place.entity_id for place in usage)
        found = {Place(each.entity_id, each.resource): each for each in self._read_buckets(usage)}
        self._read_parents(place.entity_id for place in found)
        parents = {entity_id: above for entity_id, above in self._parents.items() if above}
        since_ms = int(self._usage.since.timestamp()) * 1000
        return Reading(self._now_ms(), since_ms, usage, found, parents, self._read_shadows(found))

    def read_change(self) -> None:
        """Read the last change of the hour, now and then. Raises errors of core."""
        if self._clock() < self._change_at:
            return
        since = datetime.fromtimestamp(self._now_ms() / 1000, UTC) - RECENT
        self.change = next(iter(self._repository.get_namespace_audit_events(since, limit=1).events), None)
        self._change_at = self._clock() + CHANGES_SECONDS

    @property
    def known(self) -> int:
        """The number of places whose usage was read so far."""
        return len(self._usage)

    def _read_usage(self, now: datetime) -> None:
        """Read a round, or a part of it if it takes longer than a look has; a round rests before the next begins."""
        until = self._clock() + SHARE * self._every
        while not (ended := self._usage.read_on(now)) and self._clock() < until:
            pass
        self.complete |= ended
        if ended:
            self._usage_at = self._clock() + max(ROUND_SECONDS, self._usage.read / SNAPSHOTS)

    def _read_buckets(self, usage: Iterable[Place]) -> "list[Bucket]":
        """Return the buckets of those that do something and of who is above them, then others while there is room."""
        from zae_limiter.maintenance import SyncMaintenance

        first = dict.fromkeys(islice(usage, self.most))
        above = dict.fromkeys(Place(up, place.resource) for place in first for up in self._above(place.entity_id))
        if len(first) < self.most and self._clock() >= self._others_at:
            listed = self._repository.list_buckets(self._resource, limit=self.most).buckets
            self._others = [Place(each.entity_id, each.resource) for each in listed]
            self._others_at = self._clock() + ROUND_SECONDS
        room = max(0, self.most - len(first))
        others = dict.fromkeys([place for place in self._others if place not in first][:room])
        places = list({**first, **above, **others})[:MOST_PLACES]
        return SyncMaintenance(self._repository).get_buckets_at(places) if places else []

    def _above(self, entity_id: str) -> Iterable[str]:
        """Return all ancestors of an entity that are known, nearest first."""
        found = dict.fromkeys(self._parents.get(entity_id, ()))
        left = [*found]
        while left:
            new = [each for each in self._parents.get(left.pop(0), ()) if each not in found]
            found.update(dict.fromkeys(new))
            left += new
        return found

    def _read_parents(self, entity_ids: Iterable[str]) -> None:
        """Read the records of those that are not known, then of their parents, level by level."""
        from zae_limiter.maintenance import SyncMaintenance

        while asked := sorted({*entity_ids} - self._parents.keys()):
            records = SyncMaintenance(self._repository).get_entity_records(asked, skip_unreadable=True)
            none = dict.fromkeys(asked, ())
            self._tiers |= {entity_id: each.tier for entity_id, each in records.items()}
            self._parents |= none | {entity_id: tuple(each.parent_ids) for entity_id, each in records.items()}
            entity_ids = [parent for entity_id in asked for parent in self._parents[entity_id]]

    def _read_shadows(self, buckets: Iterable[Place]) -> dict[Place, frozenset[str]]:
        """Return the limits in shadow of buckets, as they were read within the last half minute."""
        if self._clock() >= self._shadows_at:
            self._shadows = {}
            self._shadows_at = self._clock() + SHADOWS_SECONDS
        new = [place for place in buckets if place not in self._shadows]
        found = shadow_limits(self._repository, new, self._tiers)
        self._shadows |= {place: found.get(place, frozenset()) for place in new}
        return {place: names for place, names in self._shadows.items() if names}

    def _now_ms(self) -> int:
        return self._repository.namespace_state.now()  # the store's time
