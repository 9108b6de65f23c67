"""Find which thresholds of limits (``alert``) were crossed, and remember which were reported.

A window is what the limit itself has: a calendar window, the one that began with the first use, or all that a total
ever got, up to the next credit. What is used of it is what the bucket's shards no longer have. A token bucket has no
window of its own: its usage by the hour stands for it (by the day if its period is longer than an hour), beside what
comes back in that time.

Nothing is written before a threshold was reported. Then an item of the limit keeps the window and the threshold, so
each is reported once in its window. The report comes before that write: a crossing whose process dies between them is
reported again, with the same id.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from ...operations.errors import ConditionFailed
from ...operations.values import Conditions, Item, Key, Update
from ...rules.balances import limit_share, refill_bucket
from ...rules.windows import LimitWindow, compared_seconds, window_at, window_capacity
from ...runtime.dataclass import dataclass, field
from ...runtime.named_tuple import NamedTuple
from ...schema.alerts import Told, read_told, told_item, told_key
from ...schema.attributes import ALERT_SUFFIX, ANCHOR, PK, SHARD_COUNT, SK, TOLD, TOLD_WINDOW, bucket_attributes
from ...schema.items import BucketId, read_shard_limits
from ...schema.keys import sk_state
from ...schema.registry import read_record
from ...schema.usage import SnapshotId, read_milli
from ...values.limits import MILLI, Limit
from ...values.usage import WINDOW_SECONDS, Window
from ..retry import ATTEMPTS, RaceLost, key_of, read_all, with_retries
from ..steps import Flow
from .registry import id_key


class BucketUse(NamedTuple):
    """A bucket shard after a change at an instant (epoch ms)."""

    bucket: BucketId
    item: Item
    at_ms: int


@dataclass(slots=True)
class Watched:
    """A limit with thresholds in one window: its shards as they were seen last, and when."""

    bucket: BucketId
    limit: Limit
    window: LimitWindow
    at_ms: int = 0
    shards: dict[int, Item] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """The key of the item that remembers what was reported."""
        return Key(*told_key(self.bucket, self.limit.name))

    @property
    def shard_count(self) -> int:
        """The number of shards, as far as those that were seen know; shard 0 knows it."""
        if 0 in self.shards:
            return int(self.shards[0][SHARD_COUNT])
        return max(int(item[SHARD_COUNT]) for item in self.shards.values())

    @property
    def snapshot(self) -> Key | None:
        """The key of the usage that stands for the window of a token bucket; ``None`` for any other limit."""
        if self.limit.kind != "token_bucket":
            return None
        snapshot = SnapshotId.of_bucket(self.bucket, usage_window(self.limit), self.at_ms)
        return Key(snapshot.pk, snapshot.sk)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A threshold that was crossed: amounts in whole tokens, times in epoch ms; ``None`` where there is no such time.

    ``seconds_left``: how long the rest lasts if the window goes on as it did so far.
    """

    bucket: BucketId
    limit: Limit
    window: LimitWindow
    threshold: int
    used: int
    capacity: int
    at_ms: int
    namespace: str = ""

    @property
    def key(self) -> Key:
        """The key of the item that remembers what was reported."""
        return Key(*told_key(self.bucket, self.limit.name))

    @property
    def id(self) -> str:
        """The same id however often the crossing is reported."""
        place = (self.bucket.namespace_id, self.bucket.entity_id, self.bucket.resource, self.limit.name)
        return sha256("\n".join((*place, str(self.window.number), str(self.threshold))).encode()).hexdigest()[:32]

    @property
    def seconds_left(self) -> int | None:
        """Whole seconds until all is used at the mean rate of the window so far; ``None`` if it has no begin."""
        if self.used >= self.capacity:
            return 0
        if self.window.start_ms is None:
            return None
        elapsed_ms = max(1000, self.at_ms - self.window.start_ms)
        return (self.capacity - self.used) * elapsed_ms // (max(1, self.used) * 1000)


def usage_window(limit: Limit) -> Window:
    """Return the window of usage that stands for the one that a token bucket does not have."""
    return "hourly" if compared_seconds(limit) == WINDOW_SECONDS["hourly"] else "daily"


def watch(uses: Iterable[BucketUse]) -> list[Watched]:
    """Return the limits with thresholds among these changes, by window, each shard as it was last. Raises
    ``Unreadable``.
    """
    found: dict[tuple[Key, int], Watched] = {}
    for use in uses:
        if not any(name.endswith(ALERT_SUFFIX) for name in use.item):
            continue
        for name, shard_limit in read_shard_limits(use.item).items():
            limit, at_ms = shard_limit.limit, max(use.at_ms, use.item[ANCHOR])
            wanted = limit.alert and not limit.blocks
            window = window_at(limit, at_ms, shard_limit.begun_ms) if wanted else None
            if window is None:
                continue
            home = use.bucket.other(0)
            watched = found.setdefault((Key(*told_key(home, name)), window.number), Watched(home, limit, window))
            watched.limit, watched.at_ms = limit, max(watched.at_ms, at_ms)
            watched.shards[use.bucket.shard] = use.item
    return list(found.values())


def find_crossings(watched: Sequence[Watched], told: Mapping[Key, Told]) -> Flow[list[Crossing]]:
    """Return the crossings that were not reported, the lowest threshold of a limit first.

    It reads at most twice: the usage of token buckets and the other shards of split buckets; then, for limits over a
    threshold that ``told`` does not have, what was reported, and the names of their namespaces.
    """
    items = yield from read_all(list(dict.fromkeys(key for each in watched for key in _needed(each))))
    measured = [found for each in watched if (found := _measure(each, items)) is not None]
    over = [each for each in measured if _untold(each, told.get(each.watched.key))]
    if not over:
        return []
    asked = [key for each in over for key in (id_key(each.watched.bucket.namespace_id), each.watched.key)]
    known = yield from read_all(list(dict.fromkeys(asked)))
    return [crossing for each in over for crossing in _crossings(each, known)]


def remember_told(crossing: Crossing, *, spread: bool = False) -> Flow[Told]:
    """Remember that a threshold was reported, unless a higher one, or one of a later window, was; return what is
    remembered then. ``spread``: the table's schema has suffixes in the indexes.
    """
    told = Told(crossing.window.number, crossing.threshold)
    end_ms = crossing.window.end_ms
    if unused := crossing.limit._unused_seconds:  # the bucket is used now, and goes no earlier
        end_ms = crossing.at_ms + 1000 * unused
    item = told_item(crossing.bucket, crossing.limit.name, told, end_ms, spread=spread)
    key, values = key_of(item), {name: value for name, value in item.items() if name not in (PK, SK)}
    when = Conditions(absent=(PK,))
    for _ in range(ATTEMPTS):
        try:
            yield from with_retries(Update(key, set=values, when=when))
        except ConditionFailed as failure:
            seen = {} if failure.item is None else failure.item
            if seen and _told_in(read_told(seen), crossing.limit, told.window) >= told.percent:
                return read_told(seen)
            names = (TOLD_WINDOW, TOLD)
            when = Conditions(equals={name: seen[name] for name in names}) if seen else Conditions(absent=(PK,))
        else:
            return told
    raise RaceLost


class _Measured(NamedTuple):
    watched: Watched
    window: LimitWindow
    used_milli: int

    @property
    def reached(self) -> list[int]:
        """The thresholds that are reached, the lowest first."""
        whole = window_capacity(self.watched.limit)
        return [each for each in self.watched.limit.alert if self.used_milli * 100 >= each * whole]


def _needed(watched: Watched) -> list[Key]:
    """Return the keys of what has to be read to know what is used."""
    if watched.snapshot is not None:
        return [watched.snapshot]
    others = (shard for shard in range(watched.shard_count) if shard not in watched.shards)
    return [Key(watched.bucket.other(shard).pk, sk_state()) for shard in others]


def _measure(watched: Watched, items: Mapping[Key, Item]) -> _Measured | None:
    """Return what is used of a window; ``None`` if a shard has split or merged meanwhile: the next use will show it."""
    name = watched.limit.name
    if watched.snapshot is not None:
        consumed = read_milli(items.get(watched.snapshot, {}))
        return _Measured(watched, watched.window, consumed.get(name, 0))
    count, at = watched.shard_count, bucket_attributes(name)
    found = {BucketId.parse(key.pk).shard: items[key] for key in _needed(watched) if key in items}
    shards = {**found, **watched.shards}
    if any(item[SHARD_COUNT] > count for item in shards.values()) or shards.get(0, {}).get(SHARD_COUNT, count) != count:
        return None
    left = given = 0
    for shard in range(count):
        known = read_shard_limits(shards[shard]).get(name) if shard in shards else None
        if known is None:  # as it would be made
            missing = limit_share(watched.limit, watched.limit._initial_milli, shard, count)
            left, given = left + missing, given + missing
        else:
            tokens = shards[shard][at.tokens]
            left += refill_bucket(known, tokens, max(watched.at_ms, known.anchor_ms))
            given += tokens + shards[shard][at.consumed]
    window = watched.window if watched.limit.kind != "total" else LimitWindow(given, None, None)
    return _Measured(watched, window, window_capacity(watched.limit) - left)


def _told_in(told: Told | None, limit: Limit, window: int) -> int:
    """Return the highest threshold that was reported in a window: all of them in one that is past."""
    if told is None:
        return 0
    if told.window == window:
        return told.percent
    return 100 if told.window > window and limit.kind != "total" else 0


def _untold(measured: _Measured, told: Told | None) -> list[int]:
    """Return the thresholds that are reached and were not reported."""
    highest = _told_in(told, measured.watched.limit, measured.window.number)
    return [each for each in measured.reached if each > highest]


def _crossings(measured: _Measured, known: Mapping[Key, Item]) -> list[Crossing]:
    watched = measured.watched
    item, record = known.get(watched.key), known.get(id_key(watched.bucket.namespace_id))
    return [
        Crossing(
            watched.bucket,
            watched.limit,
            measured.window,
            threshold,
            measured.used_milli // MILLI,
            window_capacity(watched.limit) // MILLI,
            watched.at_ms,
            "" if record is None else read_record(record).name,
        )
        for threshold in _untold(measured, None if item is None else read_told(item))
    ]
