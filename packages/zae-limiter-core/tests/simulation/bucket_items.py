"""A bucket item as the oracle reads it, with arithmetic of its own.

Lives here: rules, shares and balances of items; ``LimitState`` is one limit of one item. Never: what is right (oracle).
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from zae_limiter.operations.values import Item
from zae_limiter.schema.items import read_bucket
from zae_limiter.values.limits import Limit

from .kernel import Violation

WRITES = "b_wcu_tc"
SLOTS = "parallel"  # the name of the limit of each history that has slots


class Rule(NamedTuple):
    """A limit as a bucket item has it: millitokens, milliseconds; of the whole bucket.

    ``window_ms``: of a calendar limit, which mints ``refill / period`` when a window of so many milliseconds begins.
    ``less``: what a new bucket has less than the ceiling. ``begin_ms``: of a window that began with its first use.
    ``times``: of a limit with a schedule, the rules that it has one after the other, whatever the item says.
    """

    ceiling: int
    refill: int
    period: int
    window_ms: int = 0
    less: int = 0
    begin_ms: int = 0
    times: "Times" = ()

    @property
    def is_even(self) -> bool:
        """Whether tokens come back evenly, so that a write may forget a little of them."""
        return bool(self.refill) and not self.window_ms

    @property
    def is_quota(self) -> bool:
        """Whether what was used counts until a window ends, or for ever."""
        return bool(self.window_ms) or not self.refill

    def end_of(self, instant_ms: int) -> float:
        """The end of the window that holds an instant, of a quota."""
        if not self.window_ms:
            return math.inf
        windows = (instant_ms - self.begin_ms) // self.window_ms
        return self.begin_ms + (windows + 1) * self.window_ms

    @property
    def is_slow(self) -> bool:
        """Whether a millisecond brings less than a millitoken, so that a fraction counts."""
        return self.is_even and not self.times and self.rate() < 1

    def rate(self) -> Fraction:
        """Millitokens a millisecond, or a window; of a schedule the most that it ever has."""
        if self.times:
            return max(rule.rate() for _, rule in self.times)
        return _rate(self.refill, self.period)

    def minted(self, begin_ms: int, end_ms: int) -> Fraction:
        """Millitokens between two instants."""
        if self.window_ms:
            return self.rate() * (self.windows(end_ms) - self.windows(begin_ms))
        if self.times and begin_ms > end_ms:
            return -self.minted(end_ms, begin_ms)
        if self.times:
            pieces = pieces_between(self.times, begin_ms, end_ms)
            return sum((rule.minted(since, until) for since, until, rule in pieces), Fraction(0))
        return self.rate() * (end_ms - begin_ms)

    def windows(self, instant_ms: int) -> int:
        """The windows that have brought their quota up to an instant: a first use begins with what is there."""
        number = (instant_ms - self.begin_ms) // self.window_ms
        return max(0, number) if self.begin_ms else number

    def most_within(self, time_ms: int) -> Fraction:
        """Millitokens in so much time, wherever it lies."""
        windows = 1 + time_ms // self.window_ms if self.window_ms and time_ms else 0
        return self.rate() * (windows if self.window_ms else time_ms)

    def with_ceiling(self, ceiling: int) -> "Rule":
        """The same rate under another ceiling."""
        return self._replace(ceiling=ceiling)


Times = tuple[tuple[int, Rule], ...]

_rate = lru_cache(maxsize=4096)(Fraction)  # a fraction is slow to make


def pieces_between(times: Times, begin_ms: int, end_ms: int) -> Iterator[tuple[int, int, Rule]]:
    """The rules of a schedule within a time, each with its begin and its end."""
    for (since_ms, rule), (until_ms, _) in pairwise([*times, (end_ms + 1, times[-1][1])]):
        if max(since_ms, begin_ms) <= min(until_ms - 1, end_ms):
            yield max(since_ms, begin_ms), min(until_ms, end_ms), rule


class LimitState(NamedTuple):
    """One limit of one item: shard ``shard`` of ``shards`` holds ``tokens`` as of ``anchor_ms``."""

    rule: Rule
    shard: int
    shards: int
    tokens: int
    anchor_ms: int
    fraction: int = 0  # of a millitoken, of a limit that mints less than one in a millisecond

    @property
    def ceiling(self) -> int:
        """The shard's part of the ceiling."""
        return self._share(self.rule.ceiling)

    @property
    def part(self) -> Rule:
        """The rule of the shard alone, but for rounding."""
        return self._part(self.rule)._replace(times=tuple((since, self._part(rule)) for since, rule in self.rule.times))

    def _part(self, rule: Rule) -> Rule:
        return rule._replace(ceiling=self._share(rule.ceiling), period=rule.period * self.shards)

    def _share(self, whole: int) -> int:
        return (whole + self.shard) // self.shards

    @property
    def initial(self) -> int:
        """The shard's part of what a new bucket begins with."""
        return self._share(self.rule.ceiling - self.rule.less)

    def balance(self, instant_ms: int) -> int:
        """What is there at an instant, were there no ceiling."""
        if self.rule.times and instant_ms >= self.anchor_ms:
            return self.tokens + self._minted_by_schedule(instant_ms)
        if self.part.is_slow:  # a fluid: what is there are its whole millitokens
            return self.tokens - self._minted(self.anchor_ms) + math.floor(self._fluid(instant_ms))
        return self.tokens + self._minted(instant_ms) - self._minted(self.anchor_ms)

    @property
    def blur(self) -> int:
        """The millitokens by which a schedule's fractions may differ from these floors."""
        return 2 if self.rule.times else 0

    def _fluid(self, instant_ms: int) -> Fraction:
        whole, own = self.shards * self.rule.period, self.part._replace(times=())
        return own.rate() * instant_ms + Fraction(self.shard, self.shards) - Fraction(1000 * self.fraction, whole)

    def _minted_by_schedule(self, instant_ms: int) -> int:
        """What is minted since the anchor: a boundary keeps the part of a millitoken of a slow rule."""
        pieces = [rule for _, _, rule in pieces_between(self.rule.times, self.anchor_ms, instant_ms)]
        beyond = self._fluid(self.anchor_ms) - self._minted(self.anchor_ms)
        fluid = math.floor(beyond + self.part.minted(self.anchor_ms, instant_ms))
        if all(self._part(rule).is_slow for rule in pieces):
            return fluid
        return max(fluid, sum(minted for minted, _ in self._of_schedule(instant_ms)))

    def ceiling_at(self, instant_ms: int) -> int:
        """What the bucket holds at most at an instant, after all ceilings since the anchor."""
        most = self.ceiling
        for minted, ceiling in self._of_schedule(instant_ms) if self.rule.times else ():
            most = min(most + minted, ceiling)
        return most

    def _of_schedule(self, instant_ms: int) -> Iterator[tuple[int, int]]:
        """What each rule of the schedule mints since the anchor, and its ceiling."""
        for since_ms, until_ms, rule in pieces_between(self.rule.times, self.anchor_ms, instant_ms):
            until, since = (self._share(rule.refill * at_ms // rule.period) for at_ms in (until_ms, since_ms))
            yield until - since, self._share(rule.ceiling)

    def known_balance(self, now_ms: int) -> int:
        """The same, or the debt of an anchor that lies in the future: what is not minted until then is none."""
        return min(self.tokens, 0) if self.anchor_ms > now_ms else self.balance(now_ms)

    def _minted(self, instant_ms: int) -> int:
        whole = self.rule.refill * instant_ms // self.rule.period
        if self.rule.window_ms:
            whole = self.rule.refill * self.rule.windows(instant_ms)
        return self._share(whole)


def rule_of(limit: Limit) -> Rule:
    """The rule of a limit, as items have it: its ceiling is lower by what is minted within ``prefetch``, in whole
    tokens.

    A limit that blocks has nothing to hold.
    """
    if limit.kind == "first_use":
        return Rule(1000 * limit.burst, 1000 * limit.refill_amount, 1, 1000 * limit.refill_period)
    if limit.kind != "token_bucket":
        return _stepping(1000 * limit.capacity, 1000 * limit.burst, 1000 * limit.refill_amount, limit.window)
    seconds = Fraction(round(1000 * limit.prefetch), 1000) if limit.capacity else 0
    lower = math.ceil(limit.refill_amount * seconds / limit.refill_period)
    return Rule(1000 * (limit.burst - lower), 1000 * limit.refill_amount, 1000 * limit.refill_period)


def _stepping(capacity: int, burst: int, refill: int, window: str) -> Rule:
    """The rule of a calendar limit, or of a total, which has no window and mints nothing."""
    window_ms = {"minute": 60_000, "hour": 3_600_000, "": 0}[window]
    return Rule(burst, refill if window else 0, 1, window_ms, burst - capacity)


def limits_of(item: Item | None) -> frozenset[str]:
    """The limits that a bucket item has, but for slots: these are not tokens."""
    return _limits_of(*item or ())


@lru_cache(maxsize=1024)
def _limits_of(*attributes: str) -> frozenset[str]:
    return frozenset(name[2:-3] for name in attributes if name[-3:] == "_tk" and name[:2] == "b_") - {SLOTS}


def limit_state_of(item: Item, name: str, times: Times = ()) -> LimitState:
    """The state of a limit in the item; ``times``: its schedule."""
    capacity: int = item[f"b_{name}_cp"]
    burst = item.get(f"b_{name}_bx", capacity)
    rule = Rule(burst, item[f"b_{name}_ra"], item[f"b_{name}_rp"])
    if item.get(f"b_{name}_kd") == "first_use":
        begun: int = item[f"b_{name}_bg"] if f"b_{name}_bg" in item else item["rf"]
        rule = Rule(burst, item[f"b_{name}_ra"], 1, item[f"b_{name}_rp"], begin_ms=begun)
    elif f"b_{name}_kd" in item:
        rule = _stepping(capacity, burst, item[f"b_{name}_ra"], item.get(f"b_{name}_wn", ""))
    if times:
        rule = rule._replace(times=times)
    shard = int(item["PK"].rpartition("#")[2])
    fraction = item.get(f"b_{name}_fr", 0)
    return LimitState(rule, shard, item["shard_count"], item[f"b_{name}_tk"], item["rf"], fraction)


def net_of(before: Item | None, after: Item, name: str) -> int:
    """What was consumed between two states of an item."""
    return int(after.get(f"b_{name}_tc", 0)) - int((before or {}).get(f"b_{name}_tc", 0))


def only_anchored(before: Item, after: Item) -> bool:
    """Whether a write moved the anchor, and nothing else but the balances as of it, the ``cv`` of one who tells that
    limits have changed, and the limits that went.
    """
    gone = limits_of(before) - limits_of(after)
    moved = {WRITES, "wa", "rf", "cv", *(f"b_{name}_tk" for name in limits_of(after))}
    moved |= {name for name in before if name[2:-3] in gone}
    differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return "rf" in differing <= moved


def check_readable(item: Item) -> None:
    """Raises ``Violation`` for a ghost: an item that a reader cannot read."""
    try:
        state = read_bucket(item)
        complete = {"cv", "ev", "rf", "shard_count", WRITES, "GSI2PK", "entity_id"} <= item.keys()
        for name in state.shard_limits:  # none, if a level is unlimited
            state.tokens_milli(name)
    except Exception as error:
        raise Violation(f"an item that nobody can read: {item}") from error
    if not complete:
        raise Violation(f"an item that is not complete: {item}")
