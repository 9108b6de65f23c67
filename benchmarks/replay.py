"""A replay decides a kept trace again.

Lives here: a trace of single calls, and the read and the decision of it, on one core. Never: the store of the trace, or
the read of limits.
"""

import gzip
from datetime import UTC, datetime, timedelta
from time import process_time

from zae_limiter import Limit
from zae_limiter.maintenance import BucketLimits, TracedWrite, TracePage, trace_line
from zae_limiter_cli.limits.replay.traced import decide
from zae_limiter_cli.limits.replay.traces import Hours, Trace, parsed

from .measure import pin_client
from .report import Row

CALLS, ENTITIES, BATCH = 1_000_000, 1_000, 1_000
RESOURCE, BEGIN_MS = "gpt-4", 1_764_028_800_000
LIMITS = (Limit.per_minute("rpm", 50), Limit.per_minute("tpm", 100_000))
AMOUNTS = [1_000, 1_500_000]
LABEL, FIRST = "2026-01-01T00:00:00.000", 44_215_845_000_000_000_174_503_910


def measure() -> list[Row]:
    pin_client()
    begin_ms, since = BEGIN_MS, datetime.fromtimestamp(BEGIN_MS / 1000, UTC)
    buckets = [(f"user-{number}", RESOURCE) for number in range(ENTITIES)]
    objects = []
    for first in range(0, CALLS, BATCH):
        writes = [
            TracedWrite(
                begin_ms + number // 1000 * 1000,  # as the stream dates a record
                f"{LABEL}#{FIRST + 997 * number:040d}",
                number % ENTITIES,
                1,
                0,
                0,
                int(number < ENTITIES),
                AMOUNTS,
            )
            for number in range(first, first + BATCH)
        ]
        objects.append(gzip.compress(trace_line(TracePage(("rpm", "tpm"), buckets, writes)).encode()))

    def hours(_begin: datetime, _end: datetime) -> Hours:
        for first in range(0, len(objects), 100):
            yield [page for each in objects[first : first + 100] for page in parsed("an object", each)]

    begin = process_time()
    found = decide(
        Trace("objects", hours),
        lambda place: BucketLimits(*place, LIMITS),
        begin=since,
        since=since,
        now=since + timedelta(days=1),
    )
    seconds = process_time() - begin
    calls, refused = (sum(getattr(each.judged, name) for each in found.values()) for name in ("calls", "least"))
    assert calls == CALLS
    assert 0 < refused < CALLS, "the limits are to refuse some of the calls"
    return [
        Row("decisions per second, of two limits, read from gzip", CALLS / seconds, at_least=10**7 / 60),
        Row("10 million decisions", 10 * seconds, "s", at_most=60),
        Row("a trace of a million writes, compressed", sum(map(len, objects)) / CALLS, "MB", at_most=50),
    ]
