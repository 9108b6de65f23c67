"""Prefetched tokens: what this process took of a bucket before it admits by it.

The problem: an acquire is a request, whose milliseconds and write unit are the price of exact limits. The choice: a
write takes once more what this process used of the bucket within the last ``prefetch`` seconds, and the next acquires
are served from this reservation without a request. A reservation is void ``prefetch`` seconds after the instant of its
write, so an admission comes at most that long after its tokens left the table. Every process lowers the ceiling by what
is minted in that time, so the burst holds strictly, though no process knows what others hold. What is left of a
reservation comes back with a later write, less what was minted since: the bucket may have refilled behind it, and would
have it twice. The price is a lower burst, tokens that a crash loses, and usage that is counted with the next write.
docs/design/admission.md ("Prefetched tokens") has the proof; ``acquire.at_once`` admits by what is held.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from threading import RLock
from types import TracebackType
from typing import Any, Final, Literal, Protocol
from weakref import WeakValueDictionary

from ..operations.values import NOTHING, sums
from ..rules.balances import ShardLimit
from ..runtime import forks
from ..runtime.elapsed import elapsed_ms
from ..runtime.named_tuple import NamedTuple
from ..schema.items import BucketState
from ..values.limits import MILLI, Limit
from ..values.resolution import Config
from .tally import NO_PACE, Pace, Tally

LEAST_ACQUIRES: Final = 3  # in the life of a reservation: fewer are not worth one
LEAST_IN_OWN_TABLE: Final = 300  # the same where an acquire needs no request without a reservation, either
EIGHTH: Final = 8  # a reservation is renewed when so small a part of it, or of its life, is left
BACKWARD_MS: Final = 1000  # the most that the clock may be corrected backwards behind a reservation
MOST_ENDED: Final = 16
SETTLED_MS: Final = 1000  # after a change of the limits none is taken for so long, or for as long as one lives

Purpose = Literal["renew", "count", "end"]


class Terms(NamedTuple):
    """By what reservations are taken: the rules of the moment, and the limits as they are declared. So a reservation is
    void under another time of prefetch or schedule, which the rules do not tell.

    ``prefetch``: the seconds by limit; ``life_ms``: that of a reservation, as long as every limit lets it.
    """

    limits: tuple[Limit, ...]
    declared: tuple[Limit, ...]
    prefetch: Mapping[str, float]
    life_ms: int


NO_TERMS: Final = Terms((), (), NOTHING, 0)


Source = tuple[int, int]
"""A shard as a reservation was taken from it: its number, and its anchor. Under another anchor it may be full without
what was taken: somebody has made it anew, filled or split it, or it had other values of a schedule.
"""


class Reservation:
    """The tokens that one write prefetched, in millitokens by limit: what is ``left`` of those ``taken``.

    ``taken_ms`` is the instant of the write, ``until`` the end by ``elapsed_ms``. A write of another shard may have
    brought other ``terms`` meanwhile, under which it is void. ``source`` is the shard that it was taken from.
    """

    __slots__ = ("left", "source", "taken", "taken_ms", "terms", "until")

    def __init__(self, taken: Mapping[str, int], taken_ms: int, source: Source, terms: Terms) -> None:
        self.terms = terms
        self.taken = taken
        self.left = dict(taken)
        self.taken_ms = taken_ms
        self.until = elapsed_ms() + terms.life_ms
        self.source = source

    def lives(self, now_ms: int) -> bool:
        """Return whether it may still be spent, by the time of the limiter and by the time that has passed."""
        return self.taken_ms - BACKWARD_MS <= now_ms < self.taken_ms + self.terms.life_ms and elapsed_ms() < self.until


Payment = tuple[Reservation, str, int]  # what a reservation pays of a write, of a limit


class PrefetchWrite(NamedTuple):
    """What one write does for a ``prefetch``, in millitokens by limit: it takes ``reservation``, brings ``back`` what
    is left of the ``ended`` reservations, and counts what was ``served`` since the last write. What is ``paid`` by the
    prefetch for the write's own acquires needs not be in the table.
    """

    prefetch: "Prefetch"
    reservation: Reservation | None
    ended: tuple[Reservation, ...]
    back: Mapping[str, int]
    served: Tally
    payments: Sequence[Payment]

    @property
    def works(self) -> bool:
        """Whether there is something to write."""
        return True

    @property
    def goes_by_its_rule(self) -> bool:
        """Whether it brings something back."""
        return bool(self.back)

    def written(self, _: object) -> None:
        """Keep the reservation: the write was applied."""
        self.prefetch.written(self)

    def put_back(self) -> None:
        """Leave what the write was to do to the next one."""
        self.prefetch.put_back(self)

    def doubt(self) -> None:
        """Give up the reservation, and what was to be counted: it is unknown whether the write was applied."""

    @property
    def paid(self) -> Mapping[str, int]:
        """What all reservations pay."""
        paid: dict[str, int] = {}
        for _, limit, amount in self.payments:
            paid[limit] = paid.get(limit, 0) + amount
        return paid

    @property
    def taken(self) -> Mapping[str, int]:
        """What it takes. Of a limit of which it takes nothing, nothing is asked: it may be in debt, and then no write
        would pass.
        """
        taken = NOTHING if self.reservation is None else self.reservation.taken
        return {name: amount for name, amount in taken.items() if amount}


class Write(Protocol):
    """A batch (``bucket.batch``)."""

    counts: Tally

    @property
    def used(self) -> Mapping[str, int]: ...

    @property
    def carried(self) -> Sequence[Any]: ...

    @property
    def moves_nothing(self) -> bool: ...

    def leaves(self, free: Mapping[str, int]) -> Mapping[str, int]:
        """Return what its write leaves of each limit."""

    def do(self, prefetch_write: PrefetchWrite) -> None:
        """Add what it does for a prefetch."""


class WritePlan(Protocol):
    """The write plan of a batch (``bucket.write_plans``)."""

    state: BucketState | None
    now_ms: int

    @property
    def headroom(self) -> Mapping[str, int]: ...

    @property
    def ceilings(self) -> Mapping[str, int]: ...


class Prefetch:
    """What this process holds of one bucket, over all its shards. Threads may share it; a child process begins again.

    ``terms`` are those of its reservations. ``due``: a reservation should be renewed. ``reminded``: a reminder is on
    its way. ``least``: the acquires that a reservation has to serve to be taken.
    """

    def __init__(self, now: Callable[[], int], least: int) -> None:
        self.now = now
        self._least = least
        self._begin_again()

    def _begin_again(self) -> None:
        self._generation = forks.generation
        self._lock = RLock()  # its `with` cannot be cut through by a signal
        self._change = Change(self)
        self.terms = NO_TERMS
        self._changed_ms = 0
        self.due = self.reminded = False
        self._reservations: list[Reservation] = []
        self._ended: tuple[Reservation, ...] = ()
        self._served = Tally()
        self._pace = NO_PACE
        self._left: dict[str, int] = {}  # of all reservations; these learn of it when somebody looks at them
        self._taken: Mapping[str, int] = NOTHING
        self._low, self._renew_ms = NOTHING, 0  # a renewal is due when less is left, or from then on
        self._served_between: tuple[int, int, float] = (0, 0, 0.0)  # from, until, and until by `elapsed_ms`

    # admit

    def move(
        self,
        amounts: Mapping[str, int],
        now_ms: int,
        *,
        events: int = 1,
        below: int = 0,
        counted: Mapping[str, int] = NOTHING,
    ) -> bool:
        """Admit the amounts by what is held, and take negative ones back: all of them, or none.

        A prefetch takes back no more than its reservations had. Amounts that are all 0 do not count as an acquire. The
        next write counts the ``counted`` amounts, which have no limit.
        """
        # as `_is_cut`, at less cost: a signal handler's call serves no one, nor does a child by what its parent holds
        if not self._left or self._generation != forks.generation or self._lock._is_owned():  # type: ignore[attr-defined]
            return False
        with self._lock:
            from_ms, until_ms, until = self._served_between
            if self._change.torn or not (from_ms <= now_ms < until_ms and elapsed_ms() < until):
                with self._change:
                    self._look(now_ms)
            left, low, some = self._left, self._low, 0
            for name, amount in amounts.items():
                there = left.get(name)
                if there is None or amount > there or (amount < 0 and there - amount > self._taken[name]):
                    return False
                some = some or amount
            for name, amount in amounts.items():
                left[name] = rest = left[name] - amount
                if rest < low[name]:
                    self.due = True
            if counted:
                self._served.add_amounts(counted)
            if some or counted:
                self._served.events += events
                if below:
                    self._served.below += below
            return True

    def left(self) -> Mapping[str, int]:
        """Return what is held now, in millitokens by limit."""
        if not self._left or self._is_cut():
            return NOTHING
        with self._lock, self._change:
            self._look(self.now())
            return self._left.copy()

    def goes_by(self, config: Config) -> bool:
        """Return whether its reservations were taken by these limits; under others they are void."""
        return config.limits == self.terms.limits and config.declared == self.terms.declared

    # write

    def add_to(self, batch: Write, plan: WritePlan, config: Config | None) -> Sequence[Any]:
        """Add to a batch what its write does for the prefetch; without a ``config`` that the bucket agrees with, it
        only counts. Return the renewals of a batch that has nothing else and needs no write.
        """
        assert plan.state is not None, "of a new bucket, nothing is held"
        renewals = [request for request in batch.carried if request.purpose]
        purposes, alone = {each.purpose for each in renewals}, len(renewals) == len(batch.carried)
        self.reminded = self.reminded and "count" not in purposes
        if not renewals and batch.moves_nothing:
            return ()
        if config is None:
            write = self.count(plan.state.shard_limits, plan.now_ms)
        else:
            left = batch.leaves(plan.headroom)
            purpose: Purpose = "end" if "end" in purposes else "count" if alone and purposes == {"count"} else "renew"
            write = self._write_of(config, plan.state, left, batch.used, batch.counts.events, plan.now_ms, purpose)
        if write is not None:
            batch.do(write)
        return renewals if alone and write is None else ()

    def _write_of(
        self,
        config: Config,
        state: BucketState,
        left: Mapping[str, int],
        used: Mapping[str, int],
        events: int,
        now_ms: int,
        purpose: Purpose,
    ) -> PrefetchWrite | None:
        """Return what a write to a shard does, that uses something of it for acquires and leaves the rest."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            if not self.goes_by(config):
                self._go_by(config, now_ms)
            self._look(now_ms)
            if purpose == "end":
                self._end(self._reservations)
                self._reservations.clear()
                self._look_at_reservations()
            if purpose == "count" and self._reservations:
                return None
            self._pace = self._pace_with(used, events, now_ms)
            wanted = self._wanted(self._pace, state.shard_limits, left, now_ms) if purpose == "renew" else None
            source = state.id.shard, state.anchor_ms
            ended = tuple(each for each in self._ended if each.source == source)
            # of this shard, nothing more can ever come back
            self._ended = tuple(each for each in self._ended if each.source[0] != source[0])
            back = _come_back(ended, state.shard_limits, now_ms)
            if payments := _pay(self._reservations, _to_pay(left, used, self._left)):
                self._look_at_reservations()
            served = self._to_count(state.shard_limits)
            if not (wanted or back or payments or served):
                return None
            reservation = Reservation(wanted, now_ms, source, self.terms) if wanted else None
            return PrefetchWrite(self, reservation, ended, back, served, payments)

    def count(self, names: Container[str], now_ms: int) -> PrefetchWrite | None:
        """Return what a write does that only counts what was served of these limits; others have left the bucket."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            self._look(now_ms)
            served = self._to_count(names)
            return PrefetchWrite(self, None, (), NOTHING, served, ()) if served else None

    def _to_count(self, names: Container[str]) -> Tally:
        """Return what was served of these limits, and of names without a limit, for a write to count it."""
        served, self._served = self._served, Tally()
        gone = {limit.name for limit in self.terms.limits if limit.name not in names}
        served.amounts = {name: amount for name, amount in served.amounts.items() if amount and name not in gone}
        return served

    def is_left_alone(
        self, config: Config | None, state: BucketState, used: Mapping[str, int], events: int, now_ms: int
    ) -> bool:
        """Return whether a write needs not care for the prefetch, because it holds nothing, has nothing to count, and
        would take no reservation; then note what the write uses.

        Every write of a bucket that is seldom held comes by here, so it takes no lock: of two threads at once, one pace
        may be lost, and a write that does not see the reservation of another leaves it where it is.
        """
        if self._reservations or self._ended or self._served or not (config is None or self.goes_by(config)):
            return False
        pace = self._pace_with(used, events, now_ms)
        if pace.events >= self._least:  # what a bucket has is looked at where a reservation could be worth it
            left = {name: free - used.get(name, 0) for name, free in state.headroom(now_ms).items()}
            if self._wanted(pace, state.shard_limits, left, now_ms) is not None:
                return False
        self._pace = pace
        return True

    def put_back(self, prefetch_write: PrefetchWrite) -> None:
        """Take back what a write was to do that was not applied."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._served.add(prefetch_write.served)
            self._look(self.now())
            for reservation, name, amount in prefetch_write.payments:  # no reservation has more than was taken
                reservation.left[name] = min(reservation.left[name] + amount, reservation.taken[name])
            self._look_at_reservations()
            self._end(reservation for reservation in prefetch_write.ended if reservation.terms == self.terms)

    def written(self, prefetch_write: PrefetchWrite) -> None:
        """Note that a write of the bucket did what was drawn.

        Its answer may come long after its instant: other writes have taken reservations since.
        """
        if self._is_cut():
            return
        with self._lock, self._change:
            self._look(self.now())
            if prefetch_write.reservation is not None and prefetch_write.reservation.terms == self.terms:
                self._reservations.append(prefetch_write.reservation)
                life_ms = self.terms.life_ms
                self._renew_ms = prefetch_write.reservation.taken_ms + life_ms - life_ms // EIGHTH
                self._look_at_reservations()
                self._low = {name: amount // EIGHTH for name, amount in self._left.items()}
                self.due = False

    def renews(self, now_ms: int) -> None:
        """Note that a renewal is on its way: if it brings no reservation, the next is due after a part of a life."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._renew_ms = now_ms + max(1, self.terms.life_ms // EIGHTH)
            self._look(now_ms)
            self._low = dict.fromkeys(self._left, 0)
            self.due = False

    @property
    def is_used(self) -> bool:
        """Whether it has a reservation, or something to count."""
        return bool(self._reservations or self._served)

    def reminder(self) -> float | None:
        """Return the seconds until a write of its own ends it; ``None`` if it has nothing, or one is on its way."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            if self.reminded or not self.is_used:
                return None
            self.reminded = True
            ends = [reservation.until - elapsed_ms() + 1 for reservation in self._reservations]
            return max(1, max(ends, default=self.terms.life_ms)) / 1000

    def void(self) -> None:
        """Drop what is held, but for the count of what was served: the bucket is full without it."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._tell_reservations()
            self.drop_reservations()

    # reservations

    def _go_by(self, config: Config, now_ms: int) -> None:
        """Drop the reservations of other limits."""
        self._changed_ms = now_ms if self.terms.limits else 0
        life_ms = round(min(config.prefetch.values(), default=0) * 1000)
        self._tell_reservations()
        self.terms = Terms(config.limits, config.declared, config.prefetch, life_ms)
        self.drop_reservations()

    def _pace_with(self, used: Mapping[str, int], events: int, now_ms: int) -> Pace:
        """Return the pace with what acquires have used that a reservation can serve: those of a write that names other
        limits are not.
        """
        if not used.keys() <= self.terms.prefetch.keys():
            used, events = NOTHING, 0
        if served := self._served:
            used, events = sums(used, served.amounts), events + served.events
        return self._pace.after(used, events, now_ms, self.terms.life_ms)

    def _wanted(
        self, pace: Pace, limits: Mapping[str, ShardLimit], there: Mapping[str, int], now_ms: int
    ) -> Mapping[str, int] | None:
        """Return the size of the next reservation: what was used in the life of a reservation, less what is held.

        It leaves at least what is minted in the time of prefetch, so that others find their next reservation, too.
        Nothing if too few acquires would be served by it, or the limits have just changed.
        """
        prefetch, least = self.terms.prefetch, 1.0
        if pace.events < self._least or now_ms - self._changed_ms < max(self.terms.life_ms, SETTLED_MS):
            return None
        used = {name: round(amount) for name, amount in pace.used.items() if name in prefetch}
        wanted = {name: max(0, amount - self._left.get(name, 0)) for name, amount in used.items()}
        if not wanted.keys() <= limits.keys():  # a shard that has just lost a limit is written the ordinary way
            return None
        for name, amount in wanted.items():
            limit = limits[name]
            floor = limit.minted(now_ms + round(prefetch[name] * 1000)) - limit.minted(now_ms) + 1
            if amount and amount > (free := there[name] - floor):
                least = min(least, max(0, free) / amount)
        whole = {name: int(amount * least) // MILLI * MILLI for name, amount in wanted.items()}
        return whole if pace.events * least >= self._least and any(whole.values()) else None

    def _look(self, now_ms: int) -> None:
        """Note in the reservations what was spent, and end those whose time is over."""
        if not (self._reservations or self._left):
            return  # a limit whose tokens are all asked for leaves none to hold, at each of its writes
        self._tell_reservations()
        ended = [reservation for reservation in self._reservations if not reservation.lives(now_ms)]
        self._end(ended)
        self._reservations = [reservation for reservation in self._reservations if reservation not in ended]
        if self._reservations and now_ms >= self._renew_ms:
            self.due, self._renew_ms = True, self._reservations[-1].taken_ms + 2 * self.terms.life_ms
        self._look_at_reservations()

    def _end(self, reservations: Iterable[Reservation]) -> None:
        """Keep reservations that have ended, whose rest a write brings back: the last ones, if there are many."""
        self._ended = (*self._ended, *reservations)[-MOST_ENDED:]

    def _tell_reservations(self) -> None:
        """Take what was spent from the reservations, the oldest first; what came back goes to the newest first."""
        for name, left in self._left.items():
            change = sum(reservation.left.get(name, 0) for reservation in self._reservations) - left
            if change:
                self._served.add_amounts({name: change})
            for reservation in self._reservations if change > 0 else reversed(self._reservations):
                free, taken = reservation.left.get(name, 0), reservation.taken.get(name, 0)
                part = min(change, free) if change > 0 else max(change, free - taken)
                if part:
                    reservation.left[name] = free - part
                    change -= part

    def _look_at_reservations(self) -> None:
        """Sum up the reservations, and note when to look again."""
        self._left, self._taken = {}, {}
        for reservation in self._reservations:
            self._left, self._taken = sums(self._left, reservation.left), sums(self._taken, reservation.taken)
        self._low = {name: self._low.get(name, 0) for name in self._left}
        from_ms = max((reservation.taken_ms for reservation in self._reservations), default=0) - BACKWARD_MS
        until_ms = min((reservation.taken_ms for reservation in self._reservations), default=0) + self.terms.life_ms
        until = min((reservation.until for reservation in self._reservations), default=0.0)
        self._served_between = from_ms, min(self._renew_ms, until_ms), until

    def _is_cut(self) -> bool:
        """Return whether a signal handler cuts through a call of its own thread; a child process begins again."""
        if self._generation != forks.generation:
            self._begin_again()
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def drop_reservations(self) -> None:
        """Drop what is held; also if a signal has cut through a change of it, so that the amount is unknown."""
        self._reservations.clear()
        self._ended = ()
        self._look_at_reservations()


class Change:
    """A change, in the lock. The next one drops what a signal handler's exception cuts through."""

    def __init__(self, prefetch: Prefetch) -> None:
        self._prefetch = prefetch
        self.torn = False

    def __enter__(self) -> None:
        if self.torn:
            self._prefetch.drop_reservations()
        self.torn = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.torn = False


class Prefetches:
    """The holds of one process, one a bucket. ``in_use``: those that have something, each with what ends it.
    ``least``: the acquires that each of their reservations has to serve.
    """

    least = LEAST_ACQUIRES

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._by_bucket: WeakValueDictionary[tuple[str, str], Prefetch] = WeakValueDictionary()
        self.in_use: dict[Prefetch, Any] = {}

    @property
    def owes(self) -> bool:
        """Whether something is to be brought back, or to be counted."""
        return bool(self.in_use)

    def of(self, entity_id: str, resource: str) -> Prefetch:
        """Return the prefetch of a bucket: that which is in use, also if the process has forgotten the bucket since."""
        return self._by_bucket.setdefault((entity_id, resource), Prefetch(self._now, self.least))


def _come_back(ended: Sequence[Reservation], limits: Mapping[str, ShardLimit], now_ms: int) -> dict[str, int]:
    """Return what is left of reservations, less what was minted since: the bucket may have that again."""
    back: dict[str, int] = {}
    for reservation in ended:
        for name, left in reservation.left.items():
            if left and name in limits:
                minted = limits[name].minted(now_ms) - limits[name].minted(reservation.taken_ms)
                minted += limits[name].unit > 0  # by another fraction it may have been one more
                back[name] = back.get(name, 0) + max(0, left - max(0, minted))
    return {name: amount for name, amount in back.items() if amount}


def _pay(reservations: Iterable[Reservation], amounts: Mapping[str, int]) -> list[Payment]:
    """Take the amounts from reservations that have them, the oldest first."""
    payments = list[Payment]()
    for name, amount in amounts.items():
        rest = amount
        for reservation in reservations:
            if part := min(rest, reservation.left.get(name, 0)):
                reservation.left[name] -= part
                rest -= part
                payments.append((reservation, name, part))
    return payments


def _to_pay(there: Mapping[str, int], used: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return what reservations pay of a write for the limits of which the bucket has too little: all that it uses, if
    that much is held, else what is short, as far as it is held. The little that is there is what all other writes
    reckon with, too.
    """
    paid: dict[str, int] = {}
    for name, left in there.items():
        if left < 0 < (most := held.get(name, 0)):
            whole = used.get(name, 0)
            paid[name] = whole if -left <= whole <= most else min(-left, most)
    return paid
