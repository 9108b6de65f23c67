"""The draw that refused a call: a limit of a bucket that `why` was not asked for.

A bucket counts which limits refused its calls, by entity and limit. Where no bucket of the call's path has such a
limit, the service draws on one that has it. It is looked for among the buckets of that entity, which is one query, and
explained, for four reads. What the calls draw there is not recorded, so the answer is what is left.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Explanation, SyncRepository
    from zae_limiter.values import Bucket, BucketExplanation, LimitExplanation, Refuser

HUNDREDTH: Final = 100  # millionths, of a cent
MOST: Final = 3  # refusers that are looked for
MOST_RUNS: Final = 1000
ALL_RUNS: Final = "run:*"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A limit that refused ``refused`` calls of an entity, and that no bucket of its path has.

    ``found``: its bucket and its state; ``None`` if no bucket of the refuser has the limit. ``full_seconds``: after
    which it has its whole burst again. ``of_parent``: of a parent on which calls draw by ``cascade=True``.
    """

    refuser: "Refuser"
    refused: int
    found: "tuple[BucketExplanation, LimitExplanation] | None" = None
    full_seconds: float = 0.0
    of_parent: bool = False

    @property
    def is_of_runs(self) -> bool:
        """Whether budgets of runs refused it, which are counted as one: any run within the entity that asked."""
        return self.refuser.entity_id == ALL_RUNS

    @property
    def left(self) -> int:
        """What is left, at least; of money to a hundredth of a cent, because it may come back all the time."""
        if self.found is None:
            return 0
        step = HUNDREDTH if self.found[1].limit.unit else 1
        return self.found[1].available // step * step

    @property
    def is_short(self) -> bool:
        """Whether nothing is left, so that every such call is refused."""
        return self.found is not None and self.found[1].refuses


class Drawing:
    """Find the draws that refused calls; what several of them need is read once."""

    def __init__(self, repository: "SyncRepository") -> None:
        from zae_limiter import SyncRateLimiter

        self._repository, self._limiter = repository, SyncRateLimiter(repository)
        self._buckets: dict[str, Sequence[Bucket]] = {}

    def find(
        self, call: "Explanation", refused_by: "Mapping[Refuser, int]", asked: "Mapping[Refuser, str] | None" = None
    ) -> Drawn | None:
        """Return what refused a call most often of what it was not asked for, first of all what is used up.

        ``asked``: the limits of draws that the caller names, with their resources; they come first.
        """
        asked = asked or {}
        own = {(bucket.entity_id, each.limit.name) for bucket in call.buckets for each in bucket.limits}
        others = [each for each in refused_by if each not in own and not each.is_disabled]
        others = sorted(others, key=lambda each: (each not in asked, -refused_by[each], each))[:MOST]
        found = [self._drawn(call, refuser, refused_by[refuser], asked.get(refuser)) for refuser in others]
        return min(filter(None, found), key=lambda each: (not each.is_short, -each.refused), default=None)

    def _drawn(self, call: "Explanation", refuser: "Refuser", refused: int, said: str | None) -> Drawn | None:
        """Return what a refuser has; ``None`` if it is of the call's path, and its limit has gone."""
        path = {(bucket.entity_id, bucket.resource) for bucket in call.buckets}
        if refuser.entity_id == ALL_RUNS:
            return self._of_runs(call, refuser, refused)
        shares = {
            bucket.resource: each.available / max(1, each.limit.burst)
            for bucket in self._of(refuser.entity_id)
            for each in bucket.limits
            if each.limit.name == refuser.limit_name and (refuser.entity_id, bucket.resource) not in path
        }
        for resource in [said] if said else sorted(shares, key=lambda each: shares[each]):
            if found := self._explained(refuser, resource):
                bucket, limit, seconds = found
                of_parent = refuser.entity_id in call.parent_ids and resource == call.resource
                return Drawn(refuser, refused, (bucket, limit), seconds, of_parent)
        return None if any(refuser.entity_id == entity_id for entity_id, _ in path) else Drawn(refuser, refused)

    def _of_runs(self, call: "Explanation", refuser: "Refuser", refused: int) -> Drawn:
        """Return what refused a call for its run: of the runs within the entity the one with the least left."""
        from zae_limiter.values.naming import RUN_RESOURCE
        from zae_limiter.values.run_budgets import within_of

        shares = {
            bucket.entity_id: each.available / max(1, each.limit.burst)
            for bucket in self._repository.list_buckets(RUN_RESOURCE, limit=MOST_RUNS).buckets
            for each in bucket.limits
            if each.limit.name == refuser.limit_name and within_of(bucket.entity_id, RUN_RESOURCE) == call.entity_id
        }
        for entity_id in sorted(shares, key=lambda each: shares[each])[:1]:
            if found := self._explained(refuser._replace(entity_id=entity_id), RUN_RESOURCE):
                bucket, limit, seconds = found
                return Drawn(refuser, refused, (bucket, limit), seconds)
        return Drawn(refuser, refused)

    def _of(self, entity_id: str) -> "Sequence[Bucket]":
        if entity_id not in self._buckets:
            self._buckets[entity_id] = self._repository.get_buckets(entity_id)
        return self._buckets[entity_id]

    def _explained(
        self, refuser: "Refuser", resource: str
    ) -> "tuple[BucketExplanation, LimitExplanation, float] | None":
        """Return the bucket of a refuser, its limit, and when that is full; ``None`` if the limit has gone there."""
        from zae_limiter import ValidationError

        name = refuser.limit_name
        try:
            bucket = self._limiter.explain(refuser.entity_id, resource, {name: 1}).buckets[0]
            limit = next((each for each in bucket.limits if each.limit.name == name), None)
            if limit is None:
                return None
            most = (limit.in_force or limit.limit).usable_burst
            full = self._limiter.explain(refuser.entity_id, resource, {name: most}).buckets[0] if most else bucket
        except ValidationError:
            return None
        seconds = max((each.wait_seconds for each in full.limits if each.limit.name == name), default=math.inf)
        limits = tuple(replace(each, requested=None) for each in bucket.limits)
        bucket = replace(bucket, limits=limits)
        return bucket, next(each for each in limits if each.limit.name == name), seconds
