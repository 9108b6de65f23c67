"""One namespace as one process knows it: settings, config cache, and the last seen state of each bucket.

This module remembers, and keeps the memory true; ``batch`` chooses a write.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, Protocol

from ...operations.errors import Unreachable
from ...operations.values import NOTHING, Item, Key, Operation
from ...runtime import forks
from ...runtime.dataclass import dataclass, replace
from ...runtime.jitter import chance
from ...runtime.log_throttle import LogThrottle
from ...runtime.lru import LRU
from ...runtime.named_tuple import NamedTuple
from ...runtime.rooms import Lazily
from ...schema import keys
from ...schema.attributes import CASCADE, PARENT_ID, SHARD_COUNT
from ...schema.items import ONE_WRITE, WRITES, BucketId, BucketState, read_bucket
from ...values.limits import Limit, Policy
from ...values.resolution import Config, Resolved
from ..bucket_queue import RunQueue
from ..prefetch import LEAST_IN_OWN_TABLE, Prefetches
from .config_cache import ConfigCache
from .consumption import Others
from .refusals import LastRefusal, PendingRefusals
from .settled_amounts import SettledAmounts
from .waiting_line import WaitingLine
from .write_rate import WriteRate
from .write_tokens import PROCESS_BITS, WriteTokens

Flow = Generator[Any, Any, None]

ANY_LEVEL = Config((), 0)
NO_PARENT: Final[Mapping[str, Any]] = {CASCADE: False}
CREATING_NOTHING: Final[Mapping[tuple[str, ...], RunQueue]] = {}
NOT_AGREED: Final[tuple[object, object]] = (None, None)
GIVEN_REMEMBERED = 1_000  # limits that calls pass, of which a process knows the birth


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that flows need.

    ``staleness_ms``: the age up to which a last seen state is good enough to refuse by; 0 always asks the store. A
    repository sets 870 by default (``settings.STALENESS_MS``).
    ``ttl_multiplier``: the life of an idle bucket, in multiples of the time in which it fills; 0 keeps it for ever.
    ``split_above``: the writes a second to a shard above which it is split; ``None`` never splits.
    ``acquire_timeout``: the most seconds that an acquire takes; ``None`` sets no bound. ``reads_spread``: the table may
    have index rows with a suffix, so lists ask for all partitions.
    """

    staleness_ms: int = 1000
    config_ttl_ms: int = 60_000
    ttl_multiplier: int = 7
    on_unavailable: Policy = "block"
    acquire_timeout: float | None = None
    reads_spread: bool = False
    buckets_remembered: int = 10_000
    split_above: int | None = 500


def bucket_key(bucket: BucketId) -> Key:
    """Return the key of a bucket item."""
    return Key(bucket.pk, keys.sk_state())


class Runs(NamedTuple):
    """The flows of the queues of a namespace's shards: what serves requests, and what reads limits."""

    serve: "Callable[[CachedShard, Sequence[Any]], Flow]"
    load: "Callable[[CachedShard, Sequence[Any]], Flow]"


def _no_run(*_: object) -> Flow:
    raise AssertionError("a shard that is only looked at takes no request")


NO_RUNS: Final = Runs(_no_run, _no_run)


class CachedShard(RunQueue):
    """The last seen state of one shard, which is the queue of its requests: so nothing refers back to it, and what a
    process forgets leaves its memory at once.

    ``loading``: the queue of those that wait for a read of its limits, while there are some. ``others``: what its
    answers show of other processes. ``passed``: the limits that a call of this process passed last, ``ANY_LEVEL`` if
    those that a level has were used since. ``last_refusal``: that of this process. ``short_ms``: when a run, or a look
    at copies, last found it short. ``spread``: a new item has index rows with a suffix. ``terms``: those by which
    acquires take from it without a request (``bucket.fast_path``).
    """

    __slots__ = (
        "_agreed",
        "creating",
        "id",
        "key",
        "known",
        "others",
        "parent_link",
        "passed",
        "resolved",
        "runs",
        "seen_at_ms",
        "short_ms",
        "spread",
        "state",
        "terms",
        "write_rate",
    )

    line = Lazily(lambda _: WaitingLine())
    last_refusal = Lazily(lambda _: LastRefusal())
    loading = Lazily[RunQueue](lambda cached: RunQueue(partial(cached.runs.load, cached)))

    def __init__(self, bucket: BucketId, runs: Runs = NO_RUNS, *, spread: bool = False) -> None:
        super().__init__(runs.serve)
        self.runs = runs
        self.id = bucket
        self.spread = spread
        self.key = bucket_key(bucket)
        self.state: BucketState | None = None
        self.resolved: Resolved | None = None
        self.known = False
        self.seen_at_ms = 0
        self.parent_link: Mapping[str, Any] = NO_PARENT
        self.creating = CREATING_NOTHING
        self.write_rate = WriteRate()
        self.passed: Config | None = None
        self.short_ms = 0
        self.others = Others()
        self._agreed: tuple[object, object] = NOT_AGREED
        self.terms: Any = None

    def work(self, batch: Sequence[Any]) -> Flow:
        """Begin a run for these requests."""
        return self._serve(self, batch)

    @property
    def shard(self) -> "CachedShard":
        """The shard whose queue it is: itself."""
        return self

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits in its line."""
        return "line" in self.__dict__ and bool(self.line)

    def obeys(self, resolved: Resolved) -> None:
        """Note the limits that were read, and the parents that an item which it makes has."""
        self.resolved = resolved
        if resolved.parent_ids:
            self.parent_link = {CASCADE: resolved.cascade, PARENT_ID: resolved.parent_ids[0]}
        else:
            self.parent_link = {CASCADE: True} if resolved.cascade else NO_PARENT

    def has_loaded(self) -> None:
        """Let go of the queue behind a read of the limits, unless others wait there for the next one."""
        if "loading" in self.__dict__ and not self.loading.waiting:
            vars(self).pop("loading", None)

    def learn(
        self,
        item: Item | None,
        at_ms: int,
        *,
        own_writes: int,
        own: Mapping[str, int] = NOTHING,
        made: BucketState | None = None,
    ) -> BucketState | None:
        """Store and return the state that an answer showed, ``own_writes`` of this process after the last seen one.

        ``own``: what the own writes added, by attribute. ``made``: the state of an item that this process has made, and
        need not read.
        """
        before, since_ms = self.state, self.seen_at_ms
        self.state = state = made if made is not None or item is None else read_bucket(item, before)
        self.known = True
        self.seen_at_ms = at_ms
        if item is not None and not self.write_rate.since_ms <= at_ms < self.write_rate.due_ms:
            self.write_rate.measure(item, at_ms)
        others = self.others
        if before is not None and item is not None and state is not None:
            if at_ms >= others.window_ends_ms:
                others.enter(before, at_ms)
            wrote = item[WRITES] != before.item[WRITES] + own_writes * ONE_WRITE
            if wrote or not others.are_away:
                others.see(before, state, own, since_ms, at_ms, wrote=wrote)
        else:
            others.watch_from(at_ms)
        return state

    @property
    def shard_count(self) -> int:
        """The number of shards of the bucket, by the last seen state of its shard 0; 1 without one."""
        state = self.state
        return 1 if state is None else int(state.item[SHARD_COUNT])

    def is_in_future(self, now_ms: int) -> bool:
        """Return whether the anchor is so far in the future that a wrong clock must have set it."""
        return self.state is not None and self.state.is_in_future(now_ms)

    def is_fresh(self, now_ms: int, staleness_ms: int) -> bool:
        """Return whether the last seen state is young enough. A state from the future was seen before the clock went
        back.
        """
        return -staleness_ms < now_ms - self.seen_at_ms < staleness_ms

    def agrees_with(self, config: Config) -> bool:
        """Return whether the bucket has the limits of the config, and knows of no newer ones."""
        state = self.state
        if state is None:
            return False
        limits, shard_limits = self._agreed  # one tuple: threads must not see half of it
        if limits is config.limits and shard_limits is state.shard_limits:
            return True
        if state.compare(config) != "same":
            return False
        self._agreed = (config.limits, state.shard_limits)
        return True


class OwnTable(Protocol):
    """A table in the memory of this process, whose items the holder of its ``lock`` may look at and replace."""

    @property
    def lock(self) -> Lock: ...

    @property
    def look(self) -> Callable[[Key], Item | None]:
        """Returns an item as it is: it must not be changed."""

    def replace(self, key: Key, before: Item, item: Item, now_ms: int) -> None:
        """Replace an item by one with other numbers, as a write does."""

    def execute(self, operation: Operation[Any]) -> Any:
        """Return the answer of an operation, without the lock. Raises ``StoreError``."""


class Ledger(Protocol):
    """What a process has of some kind that no write has counted. ``owes``: there is something."""

    @property
    def owes(self) -> bool: ...


class Owing(Ledger, Protocol):
    """What a process owes the table for outages (``acquire.outage``). ``pending``: there is anything to do for it."""

    pending: bool


class NamespaceState:
    """One namespace as one process knows it.

    ``now`` returns epoch milliseconds, ``pick(n)`` a random number below ``n``, and ``doubted`` whether the last
    answers contradict the clock. ``opening``: the queue of the calls that wait for an id that is not known yet.
    ``births``: since when calls pass which limits. ``said``: when each kind of line was logged last. ``write_tokens``:
    makes the tokens of writes, whose answers may get lost; ``None`` over a store that loses none. ``own_table``: if
    the store is in this process. ``grants_at_once``: some acquires may need no request (``acquire.at_once``).
    ``runs``: the flows of the shards' queues, once there is one.
    """

    write_tokens: WriteTokens | None = None
    own_table: OwnTable | None = None
    grants_at_once = False
    runs: Runs | None = None

    def __init__(
        self,
        namespace: str,
        namespace_id: str | None,
        *,
        stack: str,
        now: Callable[[], int],
        settings: Settings,
        pick: Callable[[int], int] = chance.randrange,
        doubted: Callable[[], bool] = lambda: False,
        spread: bool = False,
    ) -> None:
        self.namespace = namespace
        self.stack = stack
        self.now = now
        self.pick = pick
        self.doubted = doubted
        self.settings = settings
        self.identify(namespace_id, spread=spread)
        self.said: defaultdict[str, LogThrottle] = defaultdict(LogThrottle)
        self.prefetches = Prefetches(now)
        self.pending_refusals = PendingRefusals[CachedShard](settings.buckets_remembered)
        self.shares: Owing | None = None
        self.ledgers: list[Ledger] = [self.prefetches, self.pending_refusals]
        self.settled_amounts = SettledAmounts()
        self.births: LRU[tuple[Limit, ...], int] = LRU(GIVEN_REMEMBERED)
        self.cached_shards: LRU[tuple[str, str, int], CachedShard] = LRU(settings.buckets_remembered)
        forks.register(self)

    def forget(self) -> None:
        """Reset after a fork: what calls of the parent have taken is not decided in the child."""
        for cached in self.cached_shards:
            vars(cached).pop("undecided", None)
        if self.write_tokens is not None:
            self.sign_writes()

    def sign_writes(self) -> None:
        """Give the writes to buckets tokens from now on: those of a process that is like no other."""
        self.write_tokens = WriteTokens(self.pick(1 << PROCESS_BITS))

    def take_from(self, own_table: OwnTable | None) -> None:
        """Let acquires take from the items of a table in this process, without requests."""
        self.own_table, self.grants_at_once = own_table, own_table is not None
        if own_table is not None:
            self.prefetches.least = LEAST_IN_OWN_TABLE

    @property
    def namespace_id(self) -> str:
        """The id of the namespace, with which its keys begin. Raises ``Unreachable`` while it is not known."""
        if self._namespace_id is None:
            raise Unreachable(f"the id of namespace {self.namespace!r} is not known: the store was away when it opened")
        return self._namespace_id

    @property
    def is_identified(self) -> bool:
        """Whether the id of the namespace is known."""
        return self._namespace_id is not None

    def identify(self, namespace_id: str | None, *, spread: bool = False) -> None:
        """Set the id, which is that of all keys from now on; ``spread``: the table's schema has suffixes in the
        indexes.
        """
        self.spread = spread and self.settings.reads_spread
        size = self.settings.buckets_remembered
        self.configs = ConfigCache(namespace_id or "", ttl_ms=self.settings.config_ttl_ms, size=size)
        self._namespace_id = namespace_id
        self.opening: RunQueue | None = None

    def home_of(self, bucket: BucketId) -> CachedShard | None:
        """Return shard 0 of a bucket as this process knows it, ``None`` if it does not."""
        return self.cached_shards.get((bucket.entity_id, bucket.resource, 0))

    def home_at(self, entity_id: str, resource: str) -> CachedShard | None:
        """Return shard 0 of the bucket of an entity on a resource in the same way."""
        return self.cached_shards.get((entity_id, resource, 0))

    def shards(self, home: CachedShard) -> list[CachedShard]:
        """Return the shards of a bucket that this process knows, given by its shard 0."""
        if home.shard_count == 1:
            return [home]
        of = home.id
        others = (self.cached_shards.get((of.entity_id, of.resource, shard)) for shard in range(1, home.shard_count))
        return [home, *(cached for cached in others if cached is not None)]

    def states(self, home: CachedShard) -> list[BucketState]:
        """Return the last seen states of the shards of a bucket, given by its shard 0; unseen shards are left out."""
        return [cached.state for cached in self.shards(home) if cached.state is not None]

    def agree(self, home: CachedShard, config: Config) -> bool:
        """Return whether all shards that this process knows have these limits, and none knows of newer ones."""
        for cached in self.shards(home):  # noqa: SIM110 - a generator costs more, and every refusal comes by here
            if cached.state is not None and not cached.agrees_with(config):
                return False
        return True

    def repaired_states(self, home: CachedShard, now_ms: int) -> list[BucketState]:
        """Return the same states, without anchors that a wrong clock set in the future."""
        return [state.repaired(now_ms) for state in self.states(home)]

    def learn_beside(self, bucket: BucketId, item: Item | None, at_ms: int, *, own_writes: int = 0) -> None:
        """Store a state that a read beside the queue showed, unless a run is under way or has seen a later one."""
        cached = self.cached_shards.get((bucket.entity_id, bucket.resource, bucket.shard))
        if cached is not None and not cached.busy and cached.seen_at_ms <= at_ms:
            cached.learn(item, at_ms, own_writes=own_writes)

    def fresh(self, cached: CachedShard) -> Resolved | None:
        """Return the resolved limits of the bucket if they are known and still hold, else ``None``: of a bucket that is
        disabled, if they were read so lately that they refuse. Limits from the future were read before the clock went
        back.
        """
        resolved = self.last_known(cached)
        if resolved is None:
            return None
        if resolved.disables:
            holds = resolved.is_recent(self.now(), self.settings.staleness_ms)
        else:
            holds = 0 <= resolved.valid_until_ms - self.now() <= self.settings.config_ttl_ms
        return resolved if holds else None

    def is_current(self, resolved: Resolved, now_ms: int) -> bool:
        """Return whether limits hold that this process has changed none of since they were read."""
        if resolved.generation != self.configs.generation:
            return False
        return 0 <= resolved.valid_until_ms - now_ms <= self.settings.config_ttl_ms

    def remembered(self, entity_id: str, resource: str) -> tuple[CachedShard, Resolved, bool] | None:
        """Return the bucket of an entity on a resource, its limits, and whether they no longer hold; ``None`` if one of
        the two is unknown.
        """
        cached = self.cached_shards.get((entity_id, resource, 0))
        if cached is None or not cached.known:
            return None
        resolved = cached.resolved
        if resolved is None or resolved.ends_ms is not None or resolved.generation != self.configs.generation:
            resolved = self.last_known(cached)
        if resolved is None:
            return None
        return cached, resolved, not 0 <= resolved.valid_until_ms - self.now() <= self.settings.config_ttl_ms

    def last_known(self, cached: CachedShard) -> Resolved | None:
        """Return the resolved limits of the bucket, expired or not; ``None`` if unknown, changed by this process, or of
        an override that has ended.
        """
        resolved, configs = cached.resolved, self.configs
        if resolved is not None and resolved.ends_ms is not None and resolved.ends_ms <= self.now():
            return None
        if resolved is None or resolved.generation == configs.generation:
            return resolved
        generation = configs.generation
        if not configs.is_current(resolved, cached.id.entity_id, cached.id.resource):
            return None
        cached.resolved = resolved = replace(resolved, generation=generation)
        return resolved

    def doubt(self, cached: CachedShard, until_ms: int) -> None:
        """Let the limits of a bucket that refuses hold until an instant: a request after it goes with a read of those
        that were read before it, in case that they were raised.
        """
        resolved = cached.resolved
        if resolved is not None and until_ms < resolved.valid_until_ms:
            cached.resolved = replace(resolved, valid_until_ms=until_ms)

    def doubted_since(self, cached: CachedShard) -> int:
        """Return the instant since which limits are in doubt that the cache takes for good; 0 for others."""
        resolved = cached.resolved
        if resolved is None or resolved.disables:
            return 0
        until_ms = resolved.valid_until_ms
        return until_ms if until_ms < min(self.now(), resolved.seen_ms + self.settings.config_ttl_ms) else 0

    def expire(self, cached: CachedShard, *, read_before_ms: int | None = None) -> None:
        """Mark the limits of the bucket as expired, so that its next write goes with a read of them; only those that
        were read before an instant, if one is given.
        """
        entity_id, resource = cached.id.entity_id, cached.id.resource
        home = self.cached_shards.get((entity_id, resource, 0))
        resolved = None if home is None else home.resolved
        if resolved is not None and read_before_ms is not None and resolved.config.born_ms >= read_before_ms:
            return
        self.configs.expire(entity_id, resource)
        if home is not None and resolved is not None:
            home.resolved = replace(resolved, valid_until_ms=0)
