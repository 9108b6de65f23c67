"""The batch of one write: the requests that fit, and their sums.

These are pure functions; ``write_plans`` chooses the kind of write, ``commit_run`` reads its outcome.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from ...operations.values import NOTHING, sums
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import ACQUIRES, BELOW, SHADOWED, bucket_attributes
from ...schema.items import BucketState
from ..bucket_queue import BucketRequest
from ..prefetch import PrefetchWrite
from ..slots import SlotChange, SlotWork
from ..tally import Tally


class Along(Protocol):
    """What a write does for the tokens that this process has of a bucket, as the prefetch and the slots see it."""

    @property
    def works(self) -> bool:
        """Whether there is something to write."""

    @property
    def goes_by_its_rule(self) -> bool:
        """Whether it brings back, or renews, what was taken by the rule that the bucket has."""

    def written(self, state: BucketState | None) -> None:
        """Note that the write was applied, and left this state."""

    def put_back(self) -> None:
        """Note that the write was not applied."""

    def doubt(self) -> None:
        """Note that it is unknown whether the write was applied."""


class Room(NamedTuple):
    """What a write finds of each limit, in millitokens: ``free`` now, at most ``most`` at any time; and what shadow
    limits have ``elsewhere``, on other shards.
    """

    free: Mapping[str, int] = NOTHING
    most: Mapping[str, int] = NOTHING
    elsewhere: Mapping[str, int] = NOTHING


class Batch:
    """The sums of a batch, in millitokens by limit; ``carried`` are its requests, ``short`` those that did not fit.

    ``refusal_counts``: the earlier refusals that its write counts, by attribute, and what the last of them asked for,
    as text. ``tried``: the part of ``unchecked`` that shadow limits gave. ``shadow_short``: the requests that shadow
    limits would have refused, with what those limits had left. Such an amount is in ``counts``. ``prefetch_write``:
    what the write does for what this process holds of the bucket. ``slots``: what it changes of slots that are held.
    ``along``: who wants to know whether it was applied.
    """

    __slots__ = (
        *("along", "carried", "checked", "counts", "given", "prefetch_write", "refusal_counts", "room"),
        "refused_ask",
        *("short", "shadow_short", "slots", "tried", "unchecked"),
    )

    def __init__(self, room: Room = Room()) -> None:  # noqa: B008 - a constant
        self.room = room
        self.checked: dict[str, int] = {}
        self.unchecked: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.counts = Tally()
        self.tried: dict[str, int] = {}
        self.shadow_short: dict[BucketRequest, dict[str, int]] = {}
        self.refusal_counts: Mapping[str, int] = NOTHING
        self.refused_ask = ""
        self.along: list[Along] = []
        self.prefetch_write: PrefetchWrite | None = None
        self.slots: dict[str, SlotChange] = {}
        self.carried: list[BucketRequest] = []
        self.short: list[BucketRequest] = []

    def carry(self, request: BucketRequest) -> None:
        """Add a request that fits, with what shadow limits have for it. The batch has its given and unchecked amounts
        from the start (``fit_batch``).
        """
        if self.checked:
            _add(self.checked, request.checked)
        else:
            self.checked = dict(request.checked)
        if request.unlimited:
            self.counts.add_amounts(request.unlimited)
        self.counts.add(request.counts)
        self.carried.append(request)
        if request.shadow_amounts:
            self._attempt(request)

    def correct(self, request: BucketRequest) -> None:
        """Add what a correction takes and gives back, which is so whatever fits."""
        _add(self.given, request.given)
        _add(self.unchecked, request.unchecked)
        if request.slots is not None:
            self.change_slots(request.slots)

    def change_slots(self, slots: SlotWork) -> None:
        """Add the slots that a request frees and renews."""
        self.along.append(slots)
        _add(self.given, slots.freed)
        if slots.keeps_count:
            self.counts.add_amounts(slots.freed)
        for name, change in slots.changes.items():
            self.slots.setdefault(name, SlotChange()).add(change)

    def _attempt(self, request: BucketRequest) -> None:
        """Take the amounts of shadow limits that are there, or on other shards; count the others."""
        here, elsewhere = self.left(), self.room.elsewhere
        left = {name: here[name] + elsewhere.get(name, 0) for name in request.shadow_amounts}
        short = {name: left[name] for name, amount in request.shadow_amounts.items() if amount > left[name]}
        for name, amount in request.shadow_amounts.items():
            if name in short:
                self.counts.add_amounts({name: amount})
            elif amount:
                _add(self.tried, {name: amount})
                _add(self.unchecked, {name: amount})
        if short:
            self.shadow_short[request] = short
            self.counts.shadowed += request.counts.events

    def do(self, prefetch_write: PrefetchWrite) -> None:
        """Add what the write does for what this process holds of the bucket: that is not consumption yet."""
        self.prefetch_write, taken, paid = prefetch_write, prefetch_write.taken, prefetch_write.paid
        self.along.append(prefetch_write)
        self.checked, self.given = dict(self.checked), dict(self.given)
        _add(self.checked, taken)
        _add(self.given, prefetch_write.back)
        _add(self.given, paid)
        self.counts.add_amounts({name: -amount for name, amount in taken.items()})
        self.counts.add_amounts(prefetch_write.back)
        self.counts.add_amounts(paid)
        self.counts.add(prefetch_write.served)

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Return whether the amounts are there beside those that the batch carries."""
        checked, given, tried, (free, most, _) = self.checked, self.given, self.tried, self.room
        for limit, amount in amounts.items():
            total = amount + checked[limit] if limit in checked else amount
            if limit in tried:
                total += tried[limit]
            there = free[limit]
            if (total > there and (limit not in given or total > there + given[limit])) or total > most[limit]:
                return False
        return True

    def left(self, free: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the tokens of each limit that the batch leaves for the short requests, in millitokens; of what is
        ``free``, if that is not all that its write finds.
        """
        most = self.room.most
        return {
            name: min(most[name], there + self.given.get(name, 0)) - self.checked.get(name, 0) - self.tried.get(name, 0)
            for name, there in (self.room.free if free is None else free).items()
        }

    def leaves(self, free: Mapping[str, int]) -> dict[str, int]:
        """Return what its write leaves of each limit that is ``free``, its corrections included."""
        left = self.left(free)  # what shadow limits gave is among the corrections
        return {name: n - self.unchecked.get(name, 0) + self.tried.get(name, 0) for name, n in left.items()}

    @property
    def used(self) -> dict[str, int]:
        """What acquires and corrections take."""
        return sums(self.checked, self.unchecked)

    def hopeless(self) -> list[BucketRequest]:
        """Return the short requests that would not fit alone, and those behind one of these in a waiting line."""
        alone, found, blocked = Batch(self.room), list[BucketRequest](), False
        for request in self.short:
            if (blocked and request.turn) or not alone.fits(request.checked):
                found.append(request)
                blocked = blocked or bool(request.turn)
        return found

    def net(self, limit: str) -> int:
        """Return the tokens that the batch takes from the limit, in millitokens."""
        return self.checked.get(limit, 0) + self.unchecked.get(limit, 0) - self.given.get(limit, 0)

    def limits(self) -> Iterable[str]:
        """Return the limits that take part."""
        more = self.unchecked or self.given or self.counts.amounts
        return {**self.checked, **self.unchecked, **self.given, **self.counts.amounts} if more else self.checked

    def counts_beside(self, limits: Container[str]) -> dict[str, int]:
        """Return what the batch adds to the counts of consumed tokens that are of none of these limits."""
        others = {name: amount for name, amount in self.counts.amounts.items() if name not in limits}
        return {bucket_attributes(name).consumed: amount for name, amount in others.items() if amount}

    @property
    def counters(self) -> dict[str, int]:
        """What the batch adds to the counters of a bucket, without those that it leaves as they are."""
        counts = self.counts
        counted = {ACQUIRES: counts.events, BELOW: counts.below, SHADOWED: counts.shadowed}
        return {name: number for name, number in counted.items() if number}

    @property
    def gives_only(self) -> bool:
        """Whether it takes nothing; then the write needs no tokens, only the bucket.

        What was prefetched comes back under the rule alone by which it was taken.
        """
        if self.along and any(each.goes_by_its_rule for each in self.along):
            return False
        return not self.checked and not self.unchecked and not any(request.is_acquire for request in self.carried)

    @property
    def moves_nothing(self) -> bool:
        """Whether all amounts are 0, and no correction counts acquires; then nothing is written."""
        if (self.along and any(each.works for each in self.along)) or any(self.checked.values()):
            return False
        if any(request.counts.events > 0 and not request.is_acquire for request in self.carried):
            return False
        alone = (
            (each.counts.amounts, each.shadow_amounts, each.unlimited) for each in self.carried
        )  # their sum may be 0
        return not any(any(amounts.values()) for amounts in (self.unchecked, self.given, *chain(*alone)))


def fit_batch(requests: Sequence[BucketRequest], room: Room) -> Batch:
    """Return the requests that fit, first come first served.

    One that does not fit does not block a smaller one behind it, unless both come from a waiting line.
    """
    batch, blocked = Batch(room), False
    for request in requests:
        if not request.is_acquire:
            batch.correct(request)
    for request in requests:
        if not (blocked and request.turn) and batch.fits(request.checked):
            batch.carry(request)
        else:
            batch.short.append(request)
            blocked = blocked or bool(request.turn)
    return batch


def _add(totals: dict[str, int], amounts: Mapping[str, int]) -> None:
    for limit, amount in amounts.items():
        totals[limit] = totals.get(limit, 0) + amount
