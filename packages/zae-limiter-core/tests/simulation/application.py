"""A write of a bucket that took effect, as the oracle keeps it.

Lives here: what changed, and whom it served. Never: what is right (oracle).
"""

from collections.abc import Mapping
from typing import NamedTuple

from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.operations.values import NOTHING

from .accounts import Account
from .bucket_items import LimitState
from .slots import Counts


class Change(NamedTuple):
    """One limit across one write of a shard: ``before`` is its uncapped balance at that instant, ``net`` what ``tc``
    grew by but for ``counted``, what the write only counted, ``ceiling`` what it is held to, ``whole`` the ceilings of
    all shards, ``others_owe`` their debts; with ``new``, it begins. ``ruled``: by which rule the time before counted.
    ``gained``: what a change of a quota gave, or took away; it is in ``before``.
    """

    before: int
    net: int
    ceiling: int
    state: LimitState
    whole: int
    others_owe: int
    new: bool
    counted: int = 0
    ruled: LimitState | None = None
    gained: int = 0

    @property
    def owed(self) -> int:
        """What the shards owe before the write, where there are several."""
        return self.others_owe + max(0, -self.before) if self.state.shards > 1 else 0


class Drawn(NamedTuple):
    """What a write did for prefetched tokens: it took a reservation of so many, which lives for ``life_ms``; brought
    some ``back`` of reservations that had ended; counted what was ``spent``, by so many acquires. By limit, in
    millitokens. ``holder``: whose; a process that forgets buckets may have several of one. ``paid``: what was held for
    callers whom the write served.
    """

    taken: Mapping[str, int] = NOTHING
    life_ms: int = 0
    back: Mapping[str, int] = NOTHING
    spent: Mapping[str, int] = NOTHING
    events: int = 0
    holder: object = None
    paid: Mapping[str, int] = NOTHING


NOTHING_DRAWN = Drawn()


class Application:
    """One write that took effect, and, where its sender got the answer, the amounts that it served.

    ``tried``: the part of ``unchecked`` that shadow limits gave; ``counted``: what it only counted; ``follows``: the
    sender's confirmed write before it, of the same shard; ``knew``: of each shard the last one whose answer the sender
    had when it sent this one. ``paid``: what it took for shares, which is in ``unchecked`` and ``given``.
    """

    def __init__(
        self,
        pk: str,
        decided_ms: int,
        applied_ms: int,
        instant_ms: int,
        changes: dict[str, Change],
        *,
        moved: bool,
        splits: bool,
    ) -> None:
        self.pk = pk
        self.bucket, _, shard = pk.rpartition("#")
        self.shard = int(shard)
        self.decided_ms = decided_ms
        self.applied_ms = applied_ms
        self.instant_ms = instant_ms
        self.changes = changes
        self.moved = moved
        self.splits = splits
        self.repairs = False
        self.merged: str | None = None  # the shard that it merged with its own
        self.dropped: frozenset[str] = frozenset()
        self.life = 0
        self.confirmed = False
        self.checked: dict[str, int] = {}
        self.unchecked: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.counted: dict[str, int] = {}
        self.paid: dict[str, int] = {}
        self.sender: object = None
        self.follows: Application | None = None
        self.knew: Mapping[str, Application] = NOTHING
        self.drawn: Drawn | None = None
        self.instant = 0  # the number of writes before it
        self.events = 0
        self.slots: Counts | None = None
        self.served: list[tuple[Account, BucketRequest, bool]] = []  # with whether a lease asked

    def carry(self, request: BucketRequest) -> None:
        """The write served this request, too."""
        self.events += request.counts.events
        tried = {
            name: amount for name, amount in request.shadow_amounts.items() if amount and name not in request.not_taken
        }
        for total, *parts in (
            (self.checked, request.checked),
            (self.unchecked, request.unchecked, tried),
            (self.given, request.given),
            (self.tried, tried),
            (self.counted, request.counts.amounts, request.not_taken, request.unlimited),
        ):
            for part in parts:
                for limit, amount in part.items():
                    total[limit] = total.get(limit, 0) + amount

    @property
    def shards(self) -> int:
        """The number of shards that the item knew of."""
        return max((change.state.shards for change in self.changes.values()), default=1)

    def wanted(self, name: str) -> int | None:
        """What the write took of a limit only because it was there; nobody knows whom it served without an answer."""
        checked = self.checked_of(name) if self.confirmed else 0
        return checked - self.given_of(name) if checked else None

    def checked_of(self, name: str) -> int:
        """What had to be there, for those it served and to be prefetched."""
        return self.checked.get(name, 0) + (self.drawn.taken.get(name, 0) if self.drawn else 0)

    def given_of(self, name: str) -> int:
        """What came back, of those it served and of what was prefetched, or did not have to be there: it was held."""
        drawn = self.drawn or NOTHING_DRAWN
        return self.given.get(name, 0) + drawn.back.get(name, 0) + drawn.paid.get(name, 0)

    def counted_of(self, name: str) -> int:
        """What it only counted: what it takes to be held is not consumption, what was spent of it is."""
        drawn = self.drawn or NOTHING_DRAWN
        held = drawn.spent.get(name, 0) + drawn.back.get(name, 0) + drawn.paid.get(name, 0) - drawn.taken.get(name, 0)
        return self.counted.get(name, 0) + held
