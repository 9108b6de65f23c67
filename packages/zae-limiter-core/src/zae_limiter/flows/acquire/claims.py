"""The two buckets that an acquire may draw on.

Lives here: what is asked, of whom, and what was taken, as plain data. Never: a decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from ...limits import Limit, OnUnavailable
from ...operations.errors import StoreError
from ...operations.values import NOTHING
from ...resolution import Config, Resolved
from ...schema.items import BucketState
from ..process.bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket


@dataclass(slots=True)  # never changed; not frozen, because every acquire makes one
class AcquireRequest:
    """What a caller asks for; amounts in millitokens by limit."""

    entity_id: str
    resource: str
    amounts: Mapping[str, int]
    limits: tuple[Limit, ...] = ()
    default_limits: tuple[Limit, ...] = ()
    cascade: bool = False
    on_unavailable: OnUnavailable | None = None
    rollback: bool = True


@dataclass(slots=True)
class Claim:
    """One bucket that an acquire draws on: the entity's own, or its parent's.

    ``cached`` is its shard 0; ``target`` the shard that is asked next, by chance where there are several. ``last`` are
    the requests of the last try, ``seen`` the shards by which it was judged without one; ``error`` is why they
    could not be read.
    """

    cached: CachedBucket
    target: CachedBucket
    resolved: Resolved
    config: Config
    amounts: Mapping[str, int]
    stale: bool = False
    seen: Sequence[BucketState] = ()
    requests: list[BucketRequest] = field(default_factory=list)
    last: Sequence[BucketRequest] = ()
    error: StoreError | None = None

    @property
    def admitted(self) -> bool:
        """Whether the last try took all amounts; so it did where there were none."""
        return all(bucket_request.admitted for bucket_request in self.last)

    @property
    def refused(self) -> bool:
        """Whether the last try was short of something, and nothing else stood in its way."""
        verdicts = {
            bucket_request.outcome.verdict for bucket_request in self.last if bucket_request.outcome is not None
        }
        return "refused" in verdicts and verdicts <= {"refused", "admitted"}

    @property
    def is_split(self) -> bool:
        """Whether the bucket has more than one shard, as far as is known."""
        return self.cached.shard_count > 1

    def enter(self) -> BucketRequest:
        """A new request for the amounts of the claim, at its target."""
        bucket_request = BucketRequest(
            self.target.queue, self.amounts, self.config, 1 if any(self.amounts.values()) else 0
        )
        self.requests.append(bucket_request)
        self.last = (bucket_request,)
        return bucket_request

    def enter_many(self, parts: Iterable[tuple[CachedBucket, Mapping[str, int]]]) -> Sequence[BucketRequest]:
        """New requests that serve the amounts together, one a shard; the first counts as the acquire."""
        self.last = [
            BucketRequest(cached.queue, part, self.config, not rank) for rank, (cached, part) in enumerate(parts)
        ]
        self.requests += self.last
        return self.last


class Grant:
    """What an acquire took, claim by claim, and what its lease makes of it; amounts in millitokens by limit.

    ``unavailable`` is why something was not taken, although the caller may go on: what it then consumed is
    ``uncounted``. ``corrections`` wait for the end of the block. What changes these holds the ``lock``, and looks first
    whether the grant is ``open``: the block may end in another thread.
    """

    open = True
    corrections: Mapping[str, int] = NOTHING
    uncounted: Mapping[str, int] = NOTHING

    def __init__(self, request: AcquireRequest, claims: Sequence[Claim], unavailable: StoreError | None = None) -> None:
        self.request = request
        self.claims = claims
        self.unavailable = unavailable
        self.rollback = request.rollback
        self.consumed = request.amounts
        self.lock = RLock()

    def close(self) -> None:
        """The block has ended: from now on nothing is added."""
        with self.lock:
            self.open = False
