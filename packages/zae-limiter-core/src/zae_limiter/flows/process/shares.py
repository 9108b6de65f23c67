"""The tokens by which this process goes on in an outage: its share of each limit, and what it owes the table for them.

The problem: without the table nobody knows the balance, but a process knows its part of the recent consumption
(``consumption``). The choice: an outage splits a bucket, as if each process had a shard of it. A share is a token
bucket of ``part * rate`` and ``part * burst`` that begins with ``part * balance``. When the table is back, the shares
are merged: a process takes from the bucket what its share lacks, which is the difference between the tokens that the
share would have if nothing had been taken, and those that it has. That is at most ``part * burst``, however long the
outage was, unless corrections went into debt. All amounts are added to the usage.

The alternatives were to charge all amounts, which would block everybody after a long outage although the tokens minted
in it cover them, and to charge nothing, which would hand out those tokens twice: docs/decisions/share-of-an-outage.md.
This module computes and remembers; ``acquire.outage`` decides, takes and reports.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from threading import RLock
from typing import Final, Generic, Protocol, TypeVar

from ...operations.errors import NotApplied
from ...rules.balances import share as split
from ...rules.registry import rule_of
from ...rules.rule import FOREVER_MS
from ...runtime import forks
from ...schema.items import BucketId
from ...values.limits import Limit
from ...values.resolution import Config
from ..bucket_queue import BucketQueue, BucketRequest, in_tokens
from .consumption import MILLION, is_void

SCAN_MS: Final = 1_000  # between two looks for shares that have ended
AT_ONCE: Final = 100


class LimitShare:
    """The tokens that this process has of one limit, in millitokens as of ``_at_ms``; ``part`` is in millionths.

    ``_untouched``: the tokens that it would have if nothing had been taken.
    """

    __slots__ = ("_at_ms", "_limit", "_rule", "_tokens", "_untouched", "part")

    def __init__(self, limit: Limit, part: int, tokens_milli: int, now_ms: int) -> None:
        self.part = part
        self._limit = limit
        self._rule = rule_of(limit)
        self._at_ms = now_ms
        self._tokens = self._untouched = min(tokens_milli, self.ceiling_milli)

    @property
    def ceiling_milli(self) -> int:
        """The most millitokens that it holds."""
        return self._limit.ceiling_milli * self.part // MILLION

    def available(self, now_ms: int) -> int:
        """Return the tokens at ``now_ms``; negative in debt."""
        if now_ms > self._at_ms:
            minted = self._minted(now_ms) - self._minted(self._at_ms)
            self._at_ms = now_ms
            self._tokens = min(self.ceiling_milli, self._tokens + minted)
            self._untouched = min(self.ceiling_milli, self._untouched + minted)
        return self._tokens

    def follow(self, limit: Limit, now_ms: int) -> None:
        """Go on by another rule from ``now_ms``, with the tokens that are there, up to the new ceiling."""
        if limit != self._limit:
            self.available(now_ms)
            self._limit, self._rule = limit, rule_of(limit)
            self._tokens = min(self._tokens, self.ceiling_milli)
            self._untouched = min(self._untouched, self.ceiling_milli)

    def take(self, amount_milli: int, now_ms: int) -> None:
        """Take an amount, into debt if need be; a negative one comes back, up to the ceiling."""
        self._tokens = min(self.ceiling_milli, self.available(now_ms) - amount_milli)

    def lacks(self, now_ms: int) -> int:
        """Return what it has less than if nothing had been taken."""
        return max(0, -self.available(now_ms) + self._untouched)

    def wait_seconds(self, amount_milli: int, now_ms: int) -> float:
        """Return the seconds until it has an amount; 0 if it is there, ``math.inf`` if it can never be."""
        short = amount_milli - self.available(now_ms)
        if short <= 0:
            return 0.0
        if amount_milli > self.ceiling_milli or not self.part:
            return inf
        minted = -(-(self._minted(self._at_ms) + short) * MILLION // self.part)
        at_ms = self._rule.reached(minted)
        return inf if at_ms >= FOREVER_MS else max(1, at_ms - now_ms) / 1000

    def _minted(self, at_ms: int) -> int:
        return self._rule.minted(at_ms) * self.part // MILLION


class Bucket(Protocol):
    """A cached bucket, by its shard 0 or another shard."""

    id: BucketId
    queue: BucketQueue
    seen_at_ms: int


B = TypeVar("B", bound=Bucket)


@dataclass(slots=True)
class Share(Generic[B]):
    """The share of one bucket. It holds until an answer later than ``seen_at_ms``, while it is used in each window.

    ``counted``: the amounts that it let through, net, in millitokens by limit; ``events``: the number of acquires.
    """

    home: B
    config: Config
    seen_at_ms: int
    used_ms: int
    limits: dict[str, LimitShare] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    events: int = 0
    below: int = 0

    def count(self, amounts: Mapping[str, int], now_ms: int, *, events: int = 0, below: int = 0) -> None:
        """Take the amounts, even into debt, and count them; limits that have no tokens here are only counted."""
        self.events += events
        self.below += below
        for name, amount in amounts.items():
            self.counted[name] = self.counted.get(name, 0) + amount
            if name in self.limits:
                self.limits[name].take(amount, now_ms)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether it no longer holds."""
        return self.home.seen_at_ms != self.seen_at_ms or is_void(self.used_ms, now_ms)


@dataclass(slots=True)
class Owed:
    """What this process owes one shard: ``taken`` is to be taken from the tokens, ``counted`` to be added to the usage.

    Both are net, in millitokens by limit. ``request``: what is under way to pay it; ``tried_ms``: since when.
    """

    config: Config
    taken: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    events: int = 0
    below: int = 0
    request: BucketRequest | None = None
    tried_ms: int = 0

    def add(self, taken: Mapping[str, int], counted: Mapping[str, int], events: int, below: int) -> None:
        """Owe more."""
        for totals, amounts in ((self.taken, taken), (self.counted, counted)):
            for name, amount in amounts.items():
                totals[name] = totals.get(name, 0) + amount
        self.events += events
        self.below += below

    def pay(self, queue: BucketQueue, now_ms: int) -> BucketRequest:
        """Return a new request that pays everything."""
        unchecked = {name: amount for name, amount in self.taken.items() if amount > 0}
        given = {name: -amount for name, amount in self.taken.items() if amount < 0}
        request = BucketRequest(queue, config=self.config, events=self.events, unchecked=unchecked, given=given)
        request.below = self.below
        rest = {name: amount - self.taken.get(name, 0) for name, amount in self.counted.items()}
        request.count_only = {name: amount for name, amount in rest.items() if amount}
        self.request, self.tried_ms = request, now_ms
        return request


class Shares(Generic[B]):
    """The shares of this process by entity and resource, and what it owes by shard. Use it under its ``lock``.

    ``held`` has the shares that are in use. ``pending``: there is anything to use, to pay, or to see paid.
    """

    def __init__(self) -> None:
        self._begin_anew()
        forks.register(self)

    def _begin_anew(self) -> None:
        self.lock = RLock()
        self.pending = False  # no property: every acquire asks for it
        self.held: dict[tuple[str, str], Share[B]] = {}
        self.owed: dict[B, Owed] = {}
        self._paying: dict[B, Owed] = {}
        self._scanned_ms = 0

    def forget(self) -> None:
        """Begin again in a child process: the shares, and what they owe, are the parent's."""
        self._begin_anew()

    def hold(self, key: tuple[str, str], share: Share[B]) -> None:
        """Use a share from now on."""
        self.held[key] = share
        self.pending = True

    def owe(
        self,
        shard: B,
        config: Config,
        *,
        taken: Mapping[str, int],
        counted: Mapping[str, int],
        events: int = 0,
        below: int = 0,
    ) -> None:
        """Owe a shard more."""
        if events or any(taken.values()) or any(counted.values()):
            self.pending = True
            self.owed.setdefault(shard, Owed(config)).add(taken, counted, events, below)

    def owed_to(self, shards: Iterable[B], limit: str) -> int:
        """Return what the process owes these shards of a limit, in millitokens."""
        found = [owed for shard in shards for owed in (self.owed.get(shard), self._paying.get(shard)) if owed]
        return sum(owed.taken.get(limit, 0) for owed in found)

    def end(self, key: tuple[str, str], shards: Sequence[B], now_ms: int) -> None:
        """End a share, and owe what it lacks: equal parts to all shards, the counts to the first."""
        share = self.held.pop(key, None)
        if share is None:
            return
        lacks = {name: limit.lacks(now_ms) for name, limit in share.limits.items()}
        for place, shard in enumerate(shards):
            taken = {name: split(amount, place, len(shards)) for name, amount in lacks.items() if amount}
            self.owe(shard, share.config, taken=taken, counted=taken)
        rest = {name: amount - lacks.get(name, 0) for name, amount in share.counted.items()}
        self.owe(shards[0], share.config, taken={}, counted=rest, events=share.events, below=share.below)

    def share_of(self, key: tuple[str, str], now_ms: int) -> Share[B] | None:
        """Return the share of a bucket, if there is one that still holds."""
        share = self.held.get(key)
        return None if share is None or share.has_ended(now_ms) else share

    def ended(self, now_ms: int) -> list[tuple[str, str]]:
        """Return the shares that no longer hold; looks at all of them at most once a second."""
        if abs(now_ms - self._scanned_ms) < SCAN_MS:
            return []
        self._scanned_ms = now_ms
        return [key for key, share in self.held.items() if share.has_ended(now_ms)]

    def pay(
        self, now_ms: int, home_of: Callable[[B], B] = lambda shard: shard
    ) -> tuple[list[BucketRequest], list[str]]:
        """Return requests that pay what is owed, and a line for each payment of which it is not known whether it was
        made.

        What certainly was not written is paid again, after a second at the earliest. What a shard that is gone was to
        get, shard 0 gets (``home_of``).
        """
        lost = []
        for shard, owed in [*self._paying.items()]:
            outcome = None if owed.request is None else owed.request.outcome
            if outcome is None:
                continue
            del self._paying[shard]
            is_gone = outcome.verdict == "outdated" and outcome.state is None
            if isinstance(outcome.error, NotApplied) or (is_gone and home_of(shard) is not shard):
                more, payee = {"events": owed.events, "below": owed.below}, home_of(shard) if is_gone else shard
                self.owe(payee, owed.config, taken=owed.taken, counted=owed.counted, **more)
                self.owed[payee].tried_ms = 0 if is_gone else owed.tried_ms
            elif outcome.error is not None:
                lost.append(f"{shard.id}: {in_tokens(owed.counted)} of an outage may not be counted: {outcome.error}")
        due = [
            shard
            for shard, owed in self.owed.items()
            if shard not in self._paying and abs(now_ms - owed.tried_ms) >= SCAN_MS
        ][:AT_ONCE]
        for shard in due:
            self._paying[shard] = self.owed.pop(shard)
        self.pending = bool(self.held or self.owed or self._paying)
        return [self._paying[shard].pay(shard.queue, now_ms) for shard in due], lost
