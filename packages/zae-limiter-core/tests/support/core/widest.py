"""The widest write of every kind: buckets with as many limits as there can be, their names as long as can be.

Lives here: how each comes about. Never: a claim.
"""

from collections.abc import Callable, Sequence
from typing import Any

from zae_limiter.flows.bucket.anchors import reanchored, repaired
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.bucket.limit_removal import MAX_IN_BUCKET, dropped
from zae_limiter.flows.bucket.splitting import halving
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.records.bucket_admin import credited, filled
from zae_limiter.operations.values import Item, Operation, Put, Update
from zae_limiter.schema.items import WRITES, read_bucket
from zae_limiter.values.limits import MAX_LIMITS, MAX_TOKENS, Limit
from zae_limiter.values.resolution import FOLLOWS, Config

from .plays import NOW, Stage, bucket_item, stage

RATE = 60_000  # tokens a minute, millitokens a millisecond: a token each
MINUTE = 60_000


def limits(letter: str, *, burst: int = 2 * RATE, count: int = MAX_LIMITS) -> tuple[Limit, ...]:
    """As many as a config may have, each of the longest name, with all four numbers."""
    names = (f"{letter}{number:02d}".ljust(64, "x") for number in range(count))
    return tuple(Limit.custom(name, RATE, burst=burst, refill_amount=RATE, refill_period=60) for name in names)


OLD, OTHERS, NEW = limits("a"), limits("b"), limits("c")
RULED = limits("a", burst=3 * RATE)
LARGE = tuple(
    Limit.custom(limit.name, MAX_TOKENS - 1, burst=MAX_TOKENS, refill_amount=MAX_TOKENS, refill_period=1)
    for limit in OLD
)


def amounts(of: Sequence[Limit], amount: int = 1000) -> dict[str, int]:
    """The same amount of each."""
    return {limit.name: amount for limit in of}


def held(*of: Sequence[Limit], tokens: int, **more: object) -> Item:
    """A bucket that was anchored a minute ago, with so many millitokens of each limit."""
    item = bucket_item({limit: tokens for each in of for limit in each}, rf=NOW - MINUTE, ttl=NOW // 1000 + 60)
    return item | {WRITES: 10**9} | more


WIDEST = "p" * 256  # the longest id
REFUSED = ("rj", *(f"rj_{WIDEST}/{limit.name}" for limit in OLD))  # more than a write takes
BELOW, FULL, OWING = 1_000, 2 * RATE * 1000, -(10**17)


class Case:
    """A write, what the table has before it, and its name."""

    def __init__(self, name: str, before: Item | None, operation: Callable[[], Operation[Any]]) -> None:
        self.name = name
        self.before = before
        self.make = operation


def first_write(before: Item | None, *requests: Callable[[Stage], BucketRequest], busy: bool = False) -> Operation[Any]:
    """What a process asks for that saw the bucket just now; ``busy``: that others are at, too."""
    it = stage()
    if busy and before is not None:
        it.sees(before | {WRITES: before[WRITES] - 7_000})
    it.sees(before)
    it.namespace_state.pending_refusals.add(it.cached, NOW, REFUSED)
    operation = next(commit(it.namespace_state, it.cached, [request(it) for request in requests]))
    assert isinstance(operation, (Put, Update))
    return operation


def taking(of: Sequence[Limit], *, given: bool = False) -> Callable[[Stage], BucketRequest]:
    """An acquire of all of them."""
    config = Config(tuple(of), NOW, FOLLOWS if given else 0)
    return lambda it: it.request(config=config, checked=amounts(of))


def adjusting(of: Sequence[Limit]) -> Callable[[Stage], BucketRequest]:
    """A correction of all of them, upward."""
    return lambda it: it.request(config=Config(tuple(of), NOW), unchecked=amounts(of), events=0)


def giving(*of: Sequence[Limit]) -> Callable[[Stage], BucketRequest]:
    """A give-back of all of them."""
    return lambda it: it.request(given={limit.name: 1000 for each in of for limit in each}, events=0)


def reshaped(before: Item, to: Sequence[Limit], *back: Sequence[Limit]) -> Callable[[], Operation[Any]]:
    """A reshape that carries an acquire of what is new, and gives back what is old."""
    requests = [taking(to, given=True), *([giving(*back)] if back else [])]
    return lambda: first_write(before, *requests)


def ordinary(before: Item, *, busy: bool) -> Callable[[], Operation[Any]]:
    """A write that takes, corrects, and gives back of every limit that the bucket has."""
    return lambda: first_write(before, taking(OLD), adjusting(OLD), giving(OLD, OTHERS), busy=busy)


def cases() -> list[Case]:
    """All of them."""
    one, two, far = held(OLD, tokens=BELOW), held(OLD, OTHERS, tokens=BELOW), NOW + 10 * MINUTE
    one_full, two_full = held(OLD, tokens=FULL), held(OLD, OTHERS, tokens=FULL)
    owing = held(OLD, OTHERS, tokens=OWING)
    names = [*amounts(OLD), *amounts(OTHERS)]
    mixed = held(OLD, tokens=BELOW) | {
        name: value for name, value in held(OTHERS, tokens=FULL).items() if name.startswith("b_b")
    }
    return [
        Case("create", None, lambda: first_write(None, taking(OLD))),
        Case("create with the largest amounts", None, lambda: first_write(None, taking(LARGE))),
        Case("ordinary below the ceilings", two, ordinary(two, busy=False)),
        Case("ordinary at the ceilings", two_full, ordinary(two_full, busy=False)),
        Case("ordinary of a busy bucket", two_full, ordinary(two_full, busy=True)),
        Case("one acquire alone", two, lambda: first_write(two, taking(OLD))),
        Case("give-backs alone", two, lambda: first_write(two, giving(OLD, OTHERS))),
        Case("reshape below the ceilings", one, reshaped(one, NEW, OLD)),
        Case("reshape at the ceilings", one_full, reshaped(one_full, NEW, OLD)),
        Case("reshape to other rules", two, reshaped(two, RULED, OLD, OTHERS)),
        Case("reshape to other rules at the ceilings", two_full, reshaped(two_full, RULED, OLD, OTHERS)),
        Case("reshape of some of each", mixed, reshaped(mixed, limits("a", burst=3 * RATE), OLD, OTHERS)),
        Case("drop all but one", two_full, lambda: dropped(read_bucket(two_full), names[1:], NOW, cv=1)),
        Case("drop half", mixed, lambda: dropped(read_bucket(mixed), [*amounts(OTHERS)], NOW, cv=1)),
        Case("split below the ceilings", two, lambda: halving(read_bucket(two), NOW)),
        Case("split at the ceilings", two_full, lambda: halving(read_bucket(two_full), NOW)),
        Case("split in debt", owing, lambda: halving(read_bucket(owing), NOW)),
        Case("anchor", two, lambda: reanchored(read_bucket(two), NOW)),
        Case("repair", two | {"rf": far}, lambda: repaired(read_bucket(two | {"rf": far}), NOW)),
        Case("reset", two, lambda: filled(read_bucket(two), NOW)),
        Case("credit", two, lambda: credited(read_bucket(two), dict.fromkeys(names, 1000), {}, NOW)),
    ]


CASES = cases()
assert len(OLD) + len(OTHERS) == MAX_IN_BUCKET
