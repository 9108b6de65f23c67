"""CPU of a warm acquire, against that of the one UpdateItem that it stands for, sent by boto3 alone.

Lives here: the sync variant, one thread. Never: the time that a server takes.
"""

from benchmarks.canned import NEVER_SPLIT
from zae_limiter import Options

from .canned import raw_request, take_sync, warm_sync_limiter
from .measure import interleaved, pin_client
from .report import Row

CALLS = 300
ROUNDS = 11


def measure() -> list[Row]:
    pin_client()
    ours, raw, writes = compare(CALLS, ROUNDS)
    return [
        Row("1 thread: acquire / UpdateItem", ours / raw, at_most=0.2),
        Row("1 thread: an acquire", ours / CALLS * 1e6, "us"),
        Row("1 thread: an UpdateItem of boto3", raw / CALLS * 1e6, "us"),
        Row("1 thread: UpdateItem of each acquire", writes, at_least=1, at_most=1),
    ]


def compare(calls: int, rounds: int) -> tuple[float, float, float]:
    """CPU seconds of so many acquires and of as many UpdateItem of boto3, and the writes of each acquire."""
    import boto3

    with warm_sync_limiter(options=Options(split_above=NEVER_SPLIT)) as (limiter, split, server):
        take_sync(limiter)
        request = raw_request(split)
        client = boto3.client("dynamodb", endpoint_url=server.url)

        def acquires() -> None:
            for _ in range(calls):
                take_sync(limiter)

        def updates() -> None:
            for _ in range(calls):
                client.update_item(**request)

        acquires()
        updates()
        server.updates()
        ours, raw = interleaved([acquires, updates], rounds)
        return ours, raw, server.updates() / (rounds * calls) - 1
