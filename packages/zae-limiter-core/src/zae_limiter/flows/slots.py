"""Slots that leases of this process hold: what a request does to them, what a write does, what has to be renewed when.

Slots change only in a run of their bucket's queue, of which there is one at a time. So a release and a renewal never
count on what the other one is just changing.

Their holder has an end where its owner wants one: ``ends_ms``, by ``max_hold``, and ``stalls_ms``, while an integration
waits for a client that reads. Then the next renewal frees them in place of renewing them, and the owner has lost them.
Else a client that reads nothing would hold a slot for as long as it keeps its connection.

Only the leases keep their slots alive. A lease that its owner drops without an end, as a framework that never reports
the end of a call does, is renewed no more, so that its slots come back when they expire.

A write counts slots where they are taken, renewed and given back. With ``e`` the number of the epoch in the item, and
``E`` the one at ``now``, in which the write takes and renews:

    E = e       tokens >= taken - freed                       ADD tokens, and the counts of e and e - 1
    E = e + 1   and the count of e - 1 is the one seen, l     the same, ADD tokens l, and the count begins anew
    E > e + 1   and both counts are those seen                the same for both

Each has the condition that the epoch is the one seen. A write that only frees slots begins no epoch; it asks that the
epoch in which they were taken or renewed last has not been dropped. So slots that were given to others are never given
back a second time. docs/design/admission.md ("Slots"), and ``rules.slots``.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from threading import Lock
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from ..operations.values import NOTHING
from ..rules.balances import ShardLimit
from ..rules.slots import Slots
from ..runtime import forks
from ..schema.attributes import bucket_attributes
from ..schema.items import BucketState
from ..values.limits import Limit
from .tally import Tally


class TakenSlots:
    """Slots of one limit that one request took, in millitokens, and the epoch of their last renewal.

    ``epoch`` is ``None`` if the answer to a renewal was lost: it is unknown which count they are in, so both are left
    to expire. From ``until_ms`` on, unless they are renewed, others may have the slots. From ``ends_ms`` or
    ``stalls_ms`` on, the next run of the queue frees them.
    """

    __slots__ = (
        *("__weakref__", "_generation", "_renews_ms", "ends_ms", "epoch", "expires_ms", "limit", "milli", "stalls_ms"),
        "until_ms",
    )

    def __init__(self, limit: str, milli: int, slots: Slots) -> None:
        self.limit = limit
        self.milli = milli
        self.ends_ms = self.stalls_ms = inf
        self._generation = forks.generation
        self.renewed(slots)

    @property
    def is_of_parent(self) -> bool:
        """Whether another process holds the slots, of which this one is a forked child."""
        return self._generation != forks.generation

    def renewed(self, slots: Slots) -> None:
        """Note that a write counted the slots in the current epoch: they are due in the middle of the next one."""
        self.epoch: int | None = slots.epoch
        self.expires_ms = slots.expires_ms
        self._renews_ms = slots.began_ms + slots.expires_ms * 3 // 2
        self.until_ms = slots.began_ms + slots.expires_ms * 2

    @property
    def due_ms(self) -> float:
        """The instant at which they have to be renewed, or end."""
        return min(self._renews_ms, self.ends_ms, self.stalls_ms)

    def lose(self) -> None:
        """Note that the slots are lost."""
        self.until_ms = self.milli = 0

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the slots are still held, but no longer for their holder: they are about to be freed."""
        return self.milli > 0 and now_ms >= min(self.ends_ms, self.stalls_ms)

    def is_lost(self, now_ms: int) -> bool:
        """Return whether others may have the slots."""
        return now_ms >= self.until_ms and (self.milli > 0 or not self.until_ms)


class Freeing:
    """Slots that a lease gives back. A run that is to free them detaches them from their holder first, so that they
    come back by themselves if it fails.
    """

    __slots__ = ("epoch", "is_detached", "milli", "taken")

    def __init__(self, taken: TakenSlots, milli: int) -> None:
        self.taken = taken
        self.milli = milli
        self.is_detached = False
        self.epoch: int | None = None

    def detach(self) -> None:
        """Take the slots from their holder, once: they are not renewed any more."""
        if not self.is_detached:
            self.is_detached, self.epoch = True, self.taken.epoch
            self.milli = min(self.milli, self.taken.milli)
            self.taken.milli -= self.milli


class SlotChange:
    """What a write changes of the slots of one limit, in millitokens: ``freed`` by epoch, and ``moved`` to the current
    epoch by renewals.
    """

    __slots__ = ("freed", "moved")

    def __init__(self) -> None:
        self.freed: dict[int, int] = {}
        self.moved = 0

    def add(self, other: "SlotChange") -> None:
        """Do what another request changes as well."""
        self.moved += other.moved
        for epoch, freed in other.freed.items():
            self.freed[epoch] = self.freed.get(epoch, 0) + freed


# the part of a request


class SlotWork:
    """What a request does to slots: those that it has ``taken``, and those that it ``frees``.

    ``keeps_count``: what it frees stays counted as consumed. A run finds the ``changes`` by limit.
    """

    def __init__(
        self, taken: Sequence[TakenSlots] = (), frees: Sequence[Freeing] = (), *, keeps_count: bool = True
    ) -> None:
        self.taken = taken
        self.frees = frees
        self.keeps_count = keeps_count
        self.changes: Mapping[str, SlotChange] = {}

    @property
    def limits(self) -> set[str]:
        """The names of the limits whose slots it frees."""
        return {each.taken.limit for each in self.frees}

    @property
    def freed(self) -> dict[str, int]:
        """The slots that come back by it, in millitokens by limit."""
        return {name: freed for name, each in self.changes.items() if (freed := sum(each.freed.values()))}

    @property
    def works(self) -> bool:
        """Whether there is something to write."""
        return bool(self.changes)

    @property
    def goes_by_its_rule(self) -> bool:
        """Whether it renews some."""
        return any(change.moved for change in self.changes.values())

    def given_back(self) -> "SlotWork":
        """Return what gives back all that was taken: it was not consumed."""
        return SlotWork(frees=[Freeing(each, each.milli) for each in self.taken], keeps_count=False)

    def merged(self, other: "SlotWork | None") -> "SlotWork":
        """Return what gives back what two requests took."""
        return self if other is None else SlotWork(frees=[*other.frees, *self.frees], keeps_count=self.keeps_count)

    def detach(self) -> None:
        """Take what it frees from its holders: whatever becomes of the run, these slots are not renewed any more."""
        for each in self.frees:
            each.detach()

    def settle(self, state: BucketState | None, now_ms: int) -> bool:
        """Find what a write frees in this state; return whether the request has something else to do, or this.

        Slots whose epoch was dropped, or is over by now, are not given back: others may have them.
        """
        self.changes = changes = dict[str, SlotChange]()
        for each in self.frees:
            name = each.taken.limit
            if each.milli and each.epoch is not None and _is_counted(each.epoch, slots_of(state, name), now_ms):
                freed = changes.setdefault(name, SlotChange()).freed
                freed[each.epoch] = freed.get(each.epoch, 0) + each.milli
        return True

    def written(self, state: BucketState | None) -> None:
        """Note that its write was applied, and left this state."""

    def put_back(self) -> None:
        """Note that its write was not applied."""

    def doubt(self) -> None:
        """Note that the answer to its write was lost."""


class Renewing(SlotWork):
    """The renewal of all slots that this process holds of a bucket; it frees those that have ended.

    ``moves``: those that are moved to the current epoch, or taken ``anew``, in millitokens by limit.
    """

    anew: Mapping[str, int] = NOTHING

    def __init__(self, held: "HeldSlots") -> None:
        super().__init__()
        self.held = held
        self._arranged = held.arranged
        self.moves: list[TakenSlots] = []

    @property
    def is_last(self) -> bool:
        """Whether no other renewal was arranged after this one."""
        return self._arranged == self.held.arranged

    @property
    def limits(self) -> set[str]:
        return {each.limit for each in self.held.all()} | super().limits

    def settle(self, state: BucketState | None, now_ms: int) -> bool:
        """Find what is moved to the current epoch, taken anew, or freed because it has ended; return whether there is
        any of it.
        """
        for each in self.held.all():
            if each.has_ended(now_ms) and not each.is_lost(now_ms):
                freeing = Freeing(each, each.milli)
                freeing.detach()
                each.lose()
                self.frees = (*self.frees, freeing)
        super().settle(state, now_ms)
        self.moves, anew, changes = [], dict[str, int](), dict(self.changes)
        for each in self.held.all():
            slots = slots_of(state, each.limit)
            if slots is None or each.is_lost(now_ms):
                each.lose()
                continue
            if each.epoch is None:
                anew[each.limit] = anew.get(each.limit, 0) + each.milli
            elif not _is_counted(each.epoch, slots, now_ms):
                each.lose()
                continue
            elif each.epoch == slots.epoch_at(now_ms):
                each.renewed(slots)  # the epoch may begin later than when it was taken: a change of `expires` moves it
                continue
            else:
                changes.setdefault(each.limit, SlotChange()).moved += each.milli
            self.moves.append(each)
        self.changes, self.anew = changes, anew
        return bool(self.moves or self.freed)

    def written(self, state: BucketState | None) -> None:
        """Note what is counted in the epoch that the answer shows."""
        for each in self.moves:
            slots = slots_of(state, each.limit)
            if slots is not None:
                each.renewed(slots)

    def doubt(self) -> None:
        """Note that it is unknown where the renewed slots count."""
        for each in self.moves:
            each.epoch = None


def _is_counted(epoch: int, slots: Slots | None, now_ms: int) -> bool:
    """Return whether the slots of an epoch are still counted as held at an instant."""
    return slots is not None and slots.epoch_at(now_ms) - 1 <= epoch <= slots.epoch


def slots_of(state: BucketState | None, name: str) -> Slots | None:
    """Return the slots of a limit as a state shows them, ``None`` if it has none."""
    return None if state is None or name not in state.slots else state.shard_limits[name].slots


class Request(Protocol):
    """A request of a run, with what it does to slots."""

    slots: SlotWork | None
    unchecked: Mapping[str, int]
    counts: Tally


R = TypeVar("R", bound=Request)


def settle_slots(requests: Iterable[R], state: BucketState | None, now_ms: int) -> list[R]:
    """Find what the requests free and renew of the slots in this state; return the renewals that have nothing to do."""
    idle = []
    for request in requests:
        if request.slots is not None and not request.slots.settle(state, now_ms):
            idle.append(request)
        if isinstance(request.slots, Renewing):  # what is taken anew was consumed long ago
            request.unchecked = request.slots.anew
            request.counts = Tally({name: -amount for name, amount in request.slots.anew.items()})
    return idle


# what this process holds


class HeldSlots:
    """The slots that leases of this process hold of one bucket, and when the next renewal comes. A forked child has
    none.

    ``arranged`` counts the renewals that were arranged: only the last one arranges another, because a lease with an
    early end may come while one is on its way.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._generation = forks.generation
        self._lock = Lock()
        self._taken: WeakKeyDictionary[TakenSlots, None] = WeakKeyDictionary()
        self._comes_ms: float = inf
        self.arranged = 0

    def add(self, taken: Iterable[TakenSlots], now_ms: int) -> float | None:
        """Add slots; return the seconds after which a renewal is due, ``None`` if one comes by then."""
        if self._generation != forks.generation:
            self._begin()
        with self._lock:
            added = dict.fromkeys(taken)
            self._taken.update(added)
            return self._remind(now_ms) if min(each.due_ms for each in added) < self._comes_ms else None

    def next(self, now_ms: int, *, at_least: float = 0.0) -> float | None:
        """Return the seconds after which the next renewal is due, after one has ended; ``None`` if nothing is held."""
        with self._lock:
            return self._remind(now_ms, at_least)

    def _remind(self, now_ms: int, at_least: float = 0.0) -> float | None:
        for each in [each for each in self._taken if not each.milli]:
            del self._taken[each]
        due_ms = self._comes_ms = min((each.due_ms for each in self._taken), default=inf)
        self.arranged += 1
        return None if due_ms == inf else max(at_least, (due_ms - now_ms) / 1000)

    def all(self) -> Sequence[TakenSlots]:
        """Return what is still held."""
        if self._generation != forks.generation:
            self._begin()
        with self._lock:
            return [each for each in self._taken if each.milli]


# the write


class Draft(Protocol):
    """An update in the making (``bucket.writing``)."""

    set: dict[str, int]
    equals: dict[str, int]
    at_least: dict[str, int]
    at_most: dict[str, int]

    def count(self, attribute: str, amount: int) -> None:
        """Add to a number."""


class Change(Protocol):
    """What a write changes of limits, in millitokens by name (``bucket.writing``)."""

    @property
    def take(self) -> Mapping[str, int]: ...

    @property
    def force(self) -> Mapping[str, int]: ...

    @property
    def give(self) -> Mapping[str, int]: ...

    @property
    def slots(self) -> Mapping[str, SlotChange]: ...

    def net(self, limit: str) -> int:
        """Return what it takes from a limit."""


def draft_slots(draft: Draft, shard_limit: ShardLimit, write: Change, now_ms: int, *, new: Limit | None = None) -> None:
    """Draft what a write does to the slots of one limit. ``new``: the limit that a reshape brings, which may have more
    slots, or fewer, or epochs of another length.
    """
    limit, slots = shard_limit.limit, shard_limit.slots
    assert slots is not None, "only a limit with slots is asked for them"
    at, change = bucket_attributes(limit.name), write.slots.get(limit.name, SlotChange())
    taken = write.take.get(limit.name, 0) + write.force.get(limit.name, 0)
    over, net = slots.epochs_over(now_ms), write.net(limit.name)
    if not (taken or change.moved or new is not None):
        if change.freed:
            draft.at_least[at.epoch], draft.at_most[at.epoch] = max(change.freed), min(change.freed) + 1
            draft.count(at.tokens, -net)
            for epoch, freed in change.freed.items():
                draft.count(at.held_odd if epoch % 2 else at.held_even, -freed)
        return
    more = 0 if new is None else (new._ceiling_milli - limit._ceiling_milli if shard_limit.shard == 0 else 0)
    gained = slots.lost(now_ms) + more
    if limit.name in write.take:
        draft.at_least[at.tokens] = write.take[limit.name] - write.give.get(limit.name, 0) - gained
    draft.count(at.tokens, gained - net)
    draft.equals[at.epoch] = slots.epoch
    if over:
        draft.set[at.epoch] = slots.epoch + over
        draft.set[at.epoch_began] = slots.began_ms + over * slots.expires_ms
    if new is not None and (shorter := slots.expires_ms - new.expires * 1000) > 0:  # its holders renew by the old one
        draft.set[at.epoch_began] = now_ms + 2 * shorter
    # the counts of the two epochs after `over` more: those that are dropped begin anew
    current = slots.epoch + over
    counts = {current % 2: taken + change.moved, (current - 1) % 2: -change.moved}
    for epoch, freed in change.freed.items():
        counts[epoch % 2] -= freed
    for parity, (attribute, seen) in enumerate(((at.held_even, slots.even), (at.held_odd, slots.odd))):
        if over > 1 or (over == 1 and parity == current % 2):
            draft.equals[attribute] = seen
            draft.set[attribute] = counts[parity]
        else:
            draft.count(attribute, counts[parity])


# the lease


def lost_slots(held: Iterable[TakenSlots], now_ms: int) -> tuple[str, ...]:
    """Return the limits of which a lease has lost slots, sorted."""
    return tuple(sorted({each.limit for each in held if each.is_lost(now_ms) or each.has_ended(now_ms)}))


def stall(held: Iterable[TakenSlots], now_ms: int) -> float | None:
    """Let the slots of a lease end once they have expired from now on, unless ``resume`` comes before. Return the
    seconds until the first of them ends; ``None`` if it holds none.
    """
    seconds = []
    for each in held:
        if each.milli:
            each.stalls_ms = now_ms + each.expires_ms
            seconds.append(each.expires_ms / 1000)
    return min(seconds, default=None)


def resume(held: Iterable[TakenSlots]) -> None:
    """Let the slots of a lease last again."""
    for each in held:
        each.stalls_ms = inf


def freeing_all(held: Iterable[TakenSlots], now_ms: int) -> list[Freeing]:
    """Return what frees all that a lease holds; note what it has lost."""
    frees = []
    for each in held:
        if each.is_lost(now_ms):
            each.lose()
        elif each.milli:
            frees.append(Freeing(each, each.milli))
    return frees


def freeing(held: Iterable[TakenSlots], limit: str, milli: int) -> list[Freeing]:
    """Return what frees so many slots of a limit that a lease holds."""
    frees = []
    for each in held:
        part = min(milli, each.milli) if each.limit == limit else 0
        milli -= part
        if part:
            frees.append(Freeing(each, part))
    return frees
