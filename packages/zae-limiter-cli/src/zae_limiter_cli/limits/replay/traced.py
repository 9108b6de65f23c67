"""Replay a plan from a kept trace: each bucket alone, write by write.

The trace has the writes of some entities. Each write counts once, however often its record came. The stream has their
times in whole seconds: several writes to a bucket in one second are spread evenly over it.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .traces import Trace

if TYPE_CHECKING:
    from zae_limiter.maintenance import BucketLimits, BucketReplay, Judged, TracePage

BEFORE: Final = timedelta(days=1)
"""The longest time before a replay of which the trace is read, for what the buckets had left."""

HOUR_MS: Final = 3_600_000
SECOND_MS: Final = 1000

Place = tuple[str, str]
Write = tuple[Any, ...]  # as a page that was read has them: instant and mark come first, so that writes sort


class Traced(NamedTuple):
    """What a trace says of a bucket: the verdicts, the calls by hour since the epoch, and the limits that were used."""

    judged: "Judged"
    calls: Mapping[int, int]
    used: frozenset[str]


class _Bucket(NamedTuple):
    replay: "BucketReplay"
    calls: Counter[int]
    used: set[str]


def decide(
    trace: Trace,
    limits_of: Callable[[Place], "BucketLimits | None"],
    *,
    begin: datetime,
    since: datetime,
    now: datetime,
) -> dict[Place, Traced]:
    """Return what the trace says of each bucket with a write since ``since``, by the limits of ``limits_of``.

    What happened from ``begin`` on counts for what a bucket had left. ``None`` for limits leaves a bucket out. Raises
    ``CommandError``.
    """
    from zae_limiter.maintenance import BucketReplay

    begin_ms, since_ms, now_ms = (int(each.timestamp() * SECOND_MS) for each in (begin, since, now))
    buckets: dict[Place, _Bucket | None] = {}
    with _without_gc():
        for found in trace.hours(begin, now):
            for place, writes in _by_place(found).items():
                if place not in buckets:
                    limits = limits_of(place)
                    buckets[place] = limits and _Bucket(BucketReplay(limits, since_ms), Counter(), set())
                bucket = buckets[place]
                if bucket is not None:
                    _feed(bucket, writes, begin_ms, now_ms)
    return {
        place: Traced(bucket.replay.judged(), bucket.calls, frozenset(bucket.used))
        for place, bucket in buckets.items()
        if bucket is not None and max(bucket.calls, default=0) >= since_ms // HOUR_MS
    }


@contextmanager
def _without_gc() -> Iterator[None]:
    """Spare the search for cycles, which would look through an hour's writes again and again, and has none to find."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _by_place(pages: Iterable["TracePage"]) -> dict[Place, list[Write]]:
    """Return the writes to each bucket."""
    places: dict[Place, list[Write]] = {}
    for _, buckets, writes in pages:
        found = [places.setdefault(place, []) for place in buckets]
        for write in writes:
            found[write[2]].append(write)
    return places


def _feed(bucket: _Bucket, writes: list[Write], begin_ms: int, end_ms: int) -> None:
    """Decide the writes in the order of time, each of them once."""
    decide_write, calls, last, next_ms = bucket.replay.write, bucket.calls, None, 0
    for at_ms, write in _in_order(writes):
        if begin_ms <= at_ms < end_ms:
            limits = write[-1]
            if limits is not last:
                bucket.used.update(limits)
                last = limits
            decide_write(at_ms, limits, write)
            if at_ms >= next_ms:
                hour = at_ms // HOUR_MS
                next_ms = (hour + 1) * HOUR_MS
            calls[hour] += write[3] + write[4]


def _in_order(writes: list[Write]) -> Iterator[tuple[int, Write]]:
    """Yield each write once, in the order of time; those of one whole second spread over it."""
    writes.sort()
    begin, number = 0, len(writes)
    while begin < number:
        at_ms = writes[begin][0]
        end = begin + 1
        while end < number and writes[end][0] == at_ms:
            end += 1
        if end == begin + 1:
            yield at_ms, writes[begin]
        else:
            distinct = list({each[1]: each for each in writes[begin:end]}.values())
            step = 0 if at_ms % SECOND_MS else SECOND_MS // len(distinct)
            for place, each in enumerate(distinct):
                yield at_ms + step * place, each
        begin = end
