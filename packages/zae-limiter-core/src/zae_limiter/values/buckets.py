"""The state of buckets as values, for operators.

The arithmetic is in ``rules``, requests are in ``flows``.
"""

from collections.abc import Mapping

from ..exceptions import InfrastructureError
from ..runtime.dataclass import dataclass, field
from .limits import Limit
from .usage import Refuser


@dataclass(frozen=True, slots=True)
class BucketLimit:
    """One limit of a bucket, in tokens: ``available`` now (negative in debt), ``consumed`` net since it was made.

    ``limit.shadow`` is always ``False``: see ``Bucket``. ``window_ends_ms``: of a calendar or first-use limit, when the
    window under way ends, in epoch milliseconds; ``None`` if none is under way. The values are those of the last write:
    a changed limit comes with the next one.
    """

    limit: Limit
    available: int
    consumed: int
    window_ends_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """What an entity has left of a resource, over all shards; limits by name.

    ``anchor_ms`` is the instant that the stored balances are as of (of shard 0), ``expires_at_ms`` when the bucket may
    go, ``None`` for one that stays; both in epoch milliseconds. ``shadowed`` counts the admitted acquires that shadow
    limits would have refused, ``refused`` the refused ones, and ``refused_by`` those of them for which limits of an
    ancestor were short, by ancestor and limit. A bucket does not have the mark of a shadow limit: see
    ``resolve_limits``.
    """

    entity_id: str
    resource: str
    shard_count: int
    """The number of items over which the bucket is spread."""
    limits: tuple[BucketLimit, ...]
    anchor_ms: int
    expires_at_ms: int | None
    shadowed: int = 0
    refused: int = 0
    refused_by: Mapping[Refuser, int] = field(default_factory=dict, hash=False)

    @property
    def available(self) -> dict[str, int]:
        """Whole tokens by limit."""
        return {each.limit.name: each.available for each in self.limits}


@dataclass(frozen=True, slots=True)
class BucketPage:
    """A page of buckets; pass ``next`` to get the following page; ``None`` at the end."""

    buckets: tuple[Bucket, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class LimitCapacity:
    """The sums of one limit over the buckets of a resource that have it, in whole tokens."""

    limit_name: str
    capacity: int
    """The sum of the capacities, in whole tokens."""
    available: int
    """The sum of what is left, in whole tokens."""
    entities: int
    """The number of entities whose bucket has the limit."""


@dataclass(frozen=True, slots=True)
class ResourceCapacity:
    """How full the buckets of a resource are, all entities together; limits by name."""

    resource: str
    limits: tuple[LimitCapacity, ...]
    entities: int
    """The number of entities that have a bucket of the resource."""


@dataclass(frozen=True, slots=True)
class LiveBuckets:
    """The live buckets that the limits of a resource, or of the system, hold for."""

    buckets: int
    """The number of these buckets."""
    writes: int
    """The writes that invalidate them: one for each shard, a write unit for each begun KB of it."""
    left_alone: int
    """The number of the other buckets, for which the limits of a level nearer to the entity hold."""


@dataclass(frozen=True, slots=True)
class InvalidatedBuckets:
    """The live buckets that were invalidated after a change of limits, and those that were not."""

    invalidated: int
    """The number of buckets that this call has invalidated."""
    invalidated_before: int
    """The number of those that had been invalidated since the last change."""
    failed: Mapping[tuple[str, str], InfrastructureError] = field(hash=False)
    """The error of each other bucket, by entity and resource."""
