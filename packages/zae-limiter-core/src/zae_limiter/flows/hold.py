"""Tokens held ahead: what this process took of a bucket before it admits by it.

The problem: an acquire is a request, whose milliseconds and write unit are the price of exact limits. The choice: a
write takes once more what this process used of the bucket within the last ``ahead`` seconds, and the next acquires are
served from this block without a request. A block is void ``ahead`` seconds after the instant of its write, so an
admission comes at most that long after its tokens left the table. Every process lowers the ceiling by what is minted in
that time, so the burst holds strictly, though nobody knows who holds what. What is left of a block comes back with a
later write, less what was minted since: the bucket may have refilled behind it, and would have it twice. The price is a
lower burst, tokens that a crash loses, and usage that is counted with the next write.
docs/design/admission.md ("Tokens held ahead") has the proof; ``acquire.at_once`` admits by what is held.
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
from .tally import Tally

LEAST_ACQUIRES: Final = 3  # in the life of a block: fewer are not worth one
LEAST_IN_OWN_TABLE: Final = 300  # the same where an acquire needs no request without a block, either
EIGHTH: Final = 8  # a block is renewed when so small a part of it, or of its life, is left
BACKWARD_MS: Final = 1000  # the most that the clock may be corrected backwards behind a block
MOST_ENDED: Final = 16
SETTLED_MS: Final = 1000  # after a change of the limits no block is taken, as long as this or as a block lives

Purpose = Literal["renew", "count", "end"]


class Terms(NamedTuple):
    """By what blocks are taken: the rules of the moment, and the limits as they are declared. So a block is void under
    another time ahead or schedule, which the rules do not tell.

    ``ahead``: the seconds by limit; ``life_ms``: that of a block, as long as every limit lets it.
    """

    limits: tuple[Limit, ...]
    declared: tuple[Limit, ...]
    ahead: Mapping[str, float]
    life_ms: int


NO_TERMS: Final = Terms((), (), NOTHING, 0)


Source = tuple[int, int]
"""A shard as a block was taken from it: its number, and its anchor. Under another anchor it may be full without what
was taken: somebody has made it anew, filled or split it, or it had other values of a schedule.
"""


class Block:
    """The tokens that one write took ahead, in millitokens by limit: what is ``left`` of those ``taken``.

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


Payment = tuple[Block, str, int]  # what a block pays of a write, of a limit


class HoldWrite(NamedTuple):
    """What one write does for a ``hold``, in millitokens by limit: it takes ``block``, brings ``back`` what is left of
    the ``ended`` blocks, and counts what was ``served`` since the last write. What is ``paid`` by the hold for the
    write's own acquires needs not be in the table.
    """

    hold: "Hold"
    block: Block | None
    ended: tuple[Block, ...]
    back: Mapping[str, int]
    served: Tally
    payments: Sequence[Payment]

    def written(self, _: object) -> None:
        """Keep the block: the write was applied."""
        self.hold.written(self)

    def put_back(self) -> None:
        """Leave what the write was to do to the next one."""
        self.hold.put_back(self)

    def doubt(self) -> None:
        """Give up the block, and what was to be counted: nobody knows whether the write was applied."""

    @property
    def paid(self) -> Mapping[str, int]:
        """What all blocks pay."""
        paid: dict[str, int] = {}
        for _, limit, amount in self.payments:
            paid[limit] = paid.get(limit, 0) + amount
        return paid

    @property
    def taken(self) -> Mapping[str, int]:
        """What it takes. Of a limit of which it takes nothing, nothing is asked: it may be in debt, and then no write
        would pass.
        """
        return {} if self.block is None else {name: amount for name, amount in self.block.taken.items() if amount}


class Pace(NamedTuple):
    """What this process used of a bucket in the last life of a block, in millitokens by limit, by so many acquires."""

    used: Mapping[str, float] = NOTHING
    events: float = 0.0
    at_ms: int = 0

    def after(self, used: Mapping[str, int], events: int, now_ms: int, life_ms: int) -> "Pace":
        """Return the pace with what was used since."""
        if life_ms <= 0:
            return self
        before, now = 1.0, 1.0
        passed = (now_ms - self.at_ms) / life_ms if self.at_ms else 1.0
        if passed >= 1:
            before, now = 0.0, 1 / passed
        elif passed > 0:
            before = 1 - passed
        amounts = dict[str, float]()  # in loops: each write of a bucket that is seldom held comes by here
        for name in used:
            amounts[name] = used[name] * now
        if before:
            for name in self.used:
                amounts[name] = self.used[name] * before + amounts.get(name, 0.0)
        return Pace(amounts, self.events * before + events * now, now_ms)


NO_PACE: Final = Pace()


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

    def do(self, hold_write: HoldWrite) -> None:
        """Add what it does for a hold."""


class Plan(Protocol):
    """The write plan of a batch (``bucket.write_plans``)."""

    state: BucketState | None
    now_ms: int

    @property
    def headroom(self) -> Mapping[str, int]: ...

    @property
    def ceilings(self) -> Mapping[str, int]: ...


class Hold:
    """What this process holds of one bucket, over all its shards. Threads may share it; a child process begins again.

    ``terms`` are those of its blocks. ``due``: a block should be renewed. ``reminded``: a reminder is on its way.
    ``least``: the acquires that a block has to serve to be taken.
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
        self._blocks: list[Block] = []
        self._ended: tuple[Block, ...] = ()
        self._served = Tally()
        self._pace = NO_PACE
        self._left: dict[str, int] = {}  # of all blocks; these learn of it when somebody looks at them
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

        A hold takes back no more than its blocks had. Amounts that are all 0 are no acquire. The next write counts the
        ``counted`` amounts, which have no limit.
        """
        # as `_is_cut`, at less cost: a signal handler's call serves nobody, nor does a child by what its parent holds
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
        """Return whether its blocks were taken by these limits; under others they are void."""
        return config.limits == self.terms.limits and config.declared == self.terms.declared

    # write

    def add_to(self, batch: Write, plan: Plan, config: Config | None) -> Sequence[Any]:
        """Add to a batch what its write does for the hold; without a ``config`` that the bucket agrees with, it only
        counts. Return the renewals of a batch that has nothing else and needs no write.
        """
        assert plan.state is not None, "of a new bucket, nothing is held"
        renewals = [request for request in batch.carried if request.purpose]
        purposes, alone = {each.purpose for each in renewals}, len(renewals) == len(batch.carried)
        self.reminded = self.reminded and "count" not in purposes
        if not renewals and batch.moves_nothing:
            return ()
        if config is None:
            hold_write = self.count(plan.state.shard_limits, plan.now_ms)
        else:
            left = batch.leaves(plan.headroom)
            purpose: Purpose = "end" if "end" in purposes else "count" if alone and purposes == {"count"} else "renew"
            hold_write = self._write_of(config, plan.state, left, batch.used, batch.counts.events, plan.now_ms, purpose)
        if hold_write is not None:
            batch.do(hold_write)
        return renewals if alone and hold_write is None else ()

    def _write_of(
        self,
        config: Config,
        state: BucketState,
        left: Mapping[str, int],
        used: Mapping[str, int],
        events: int,
        now_ms: int,
        purpose: Purpose,
    ) -> HoldWrite | None:
        """Return what a write to a shard does, that uses something of it for acquires and leaves the rest."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            if not self.goes_by(config):
                self._go_by(config, now_ms)
            self._look(now_ms)
            if purpose == "end":
                self._end(self._blocks)
                self._blocks.clear()
                self._look_at_blocks()
            if purpose == "count" and self._blocks:
                return None
            self._pace = self._pace_with(used, events, now_ms)
            wanted = self._wanted(self._pace, state.shard_limits, left, now_ms) if purpose == "renew" else None
            source = state.id.shard, state.anchor_ms
            ended = tuple(each for each in self._ended if each.source == source)
            # of this shard, nothing more can ever come back
            self._ended = tuple(each for each in self._ended if each.source[0] != source[0])
            back = _come_back(ended, state.shard_limits, now_ms)
            if payments := _pay(self._blocks, _to_pay(left, used, self._left)):
                self._look_at_blocks()
            served = self._to_count(state.shard_limits)
            if not (wanted or back or payments or served):
                return None
            block = Block(wanted, now_ms, source, self.terms) if wanted else None
            return HoldWrite(self, block, ended, back, served, payments)

    def count(self, names: Container[str], now_ms: int) -> HoldWrite | None:
        """Return what a write does that only counts what was served of these limits; others have left the bucket."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            self._look(now_ms)
            served = self._to_count(names)
            return HoldWrite(self, None, (), NOTHING, served, ()) if served else None

    def _to_count(self, names: Container[str]) -> Tally:
        """Return what was served of these limits, and of names without a limit, for a write to count it."""
        served, self._served = self._served, Tally()
        gone = {limit.name for limit in self.terms.limits if limit.name not in names}
        served.amounts = {name: amount for name, amount in served.amounts.items() if amount and name not in gone}
        return served

    def is_left_alone(
        self, config: Config | None, state: BucketState, used: Mapping[str, int], events: int, now_ms: int
    ) -> bool:
        """Return whether a write needs not care for the hold, because it holds nothing, has nothing to count, and would
        take no block; then note what the write uses.

        Every write of a bucket that is seldom held comes by here, so it takes no lock: of two threads at once, one pace
        may be lost, and a write that does not see the block of another leaves it where it is.
        """
        if self._blocks or self._ended or self._served or not (config is None or self.goes_by(config)):
            return False
        pace = self._pace_with(used, events, now_ms)
        if pace.events >= self._least:  # what a bucket has is looked at where a block could be worth it
            left = {name: free - used.get(name, 0) for name, free in state.headroom(now_ms).items()}
            if self._wanted(pace, state.shard_limits, left, now_ms) is not None:
                return False
        self._pace = pace
        return True

    def put_back(self, hold_write: HoldWrite) -> None:
        """Take back what a write was to do that was not applied."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._served.add(hold_write.served)
            self._look(self.now())
            for block, name, amount in hold_write.payments:  # no block has more than was taken
                block.left[name] = min(block.left[name] + amount, block.taken[name])
            self._look_at_blocks()
            self._end(block for block in hold_write.ended if block.terms == self.terms)

    def written(self, hold_write: HoldWrite) -> None:
        """Note that a write of the bucket did what was drawn.

        Its answer may come long after its instant: other writes have taken blocks since.
        """
        if self._is_cut():
            return
        with self._lock, self._change:
            self._look(self.now())
            if hold_write.block is not None and hold_write.block.terms == self.terms:
                self._blocks.append(hold_write.block)
                life_ms = self.terms.life_ms
                self._renew_ms = hold_write.block.taken_ms + life_ms - life_ms // EIGHTH
                self._look_at_blocks()
                self._low = {name: amount // EIGHTH for name, amount in self._left.items()}
                self.due = False

    def renews(self, now_ms: int) -> None:
        """Note that a renewal is on its way: if it brings no block, the next is due after a part of a block's life."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._renew_ms = now_ms + max(1, self.terms.life_ms // EIGHTH)
            self._look(now_ms)
            self._low = dict.fromkeys(self._left, 0)
            self.due = False

    @property
    def is_used(self) -> bool:
        """Whether it has a block, or something to count."""
        return bool(self._blocks or self._served)

    def reminder(self) -> float | None:
        """Return the seconds until a write of its own has to end the hold; ``None`` if it has nothing, or one is on its
        way.
        """
        if self._is_cut():
            return None
        with self._lock, self._change:
            if self.reminded or not self.is_used:
                return None
            self.reminded = True
            ends = [block.until - elapsed_ms() + 1 for block in self._blocks]
            return max(1, max(ends, default=self.terms.life_ms)) / 1000

    def void(self) -> None:
        """Drop what is held, but for the count of what was served: the bucket is full without it."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._tell_blocks()
            self.drop_blocks()

    # blocks

    def _go_by(self, config: Config, now_ms: int) -> None:
        """Drop the blocks of other limits."""
        self._changed_ms = now_ms if self.terms.limits else 0
        life_ms = round(min(config.ahead.values(), default=0) * 1000)
        self._tell_blocks()
        self.terms = Terms(config.limits, config.declared, config.ahead, life_ms)
        self.drop_blocks()

    def _pace_with(self, used: Mapping[str, int], events: int, now_ms: int) -> Pace:
        """Return the pace with what acquires have used that a block can serve: those of a write that names other limits
        are not.
        """
        if not used.keys() <= self.terms.ahead.keys():
            used, events = NOTHING, 0
        if served := self._served:
            used, events = sums(used, served.amounts), events + served.events
        return self._pace.after(used, events, now_ms, self.terms.life_ms)

    def _wanted(
        self, pace: Pace, limits: Mapping[str, ShardLimit], there: Mapping[str, int], now_ms: int
    ) -> Mapping[str, int] | None:
        """Return the size of the next block: what was used in the life of a block, less what is held.

        It leaves at least what is minted in the time ahead, so that others find their next block, too. Nothing if too
        few acquires would be served by it, or the limits have just changed.
        """
        ahead, least = self.terms.ahead, 1.0
        if pace.events < self._least or now_ms - self._changed_ms < max(self.terms.life_ms, SETTLED_MS):
            return None
        used = {name: round(amount) for name, amount in pace.used.items() if name in ahead}
        wanted = {name: max(0, amount - self._left.get(name, 0)) for name, amount in used.items()}
        if not wanted.keys() <= limits.keys():  # a shard that has just lost a limit is written the ordinary way
            return None
        for name, amount in wanted.items():
            limit = limits[name]
            floor = limit.minted(now_ms + round(ahead[name] * 1000)) - limit.minted(now_ms) + 1
            if amount and amount > (free := there[name] - floor):
                least = min(least, max(0, free) / amount)
        whole = {name: int(amount * least) // MILLI * MILLI for name, amount in wanted.items()}
        return whole if pace.events * least >= self._least and any(whole.values()) else None

    def _look(self, now_ms: int) -> None:
        """Tell the blocks what was spent, and end those whose time is over."""
        if not (self._blocks or self._left):
            return  # a limit whose tokens are all asked for leaves none to hold, at each of its writes
        self._tell_blocks()
        ended = [block for block in self._blocks if not block.lives(now_ms)]
        self._end(ended)
        self._blocks = [block for block in self._blocks if block not in ended]
        if self._blocks and now_ms >= self._renew_ms:
            self.due, self._renew_ms = True, self._blocks[-1].taken_ms + 2 * self.terms.life_ms
        self._look_at_blocks()

    def _end(self, blocks: Iterable[Block]) -> None:
        """Keep blocks that have ended, whose rest a write brings back: the last ones, if there are many."""
        self._ended = (*self._ended, *blocks)[-MOST_ENDED:]

    def _tell_blocks(self) -> None:
        """Take what was spent from the blocks, the oldest first; what came back goes to the newest first."""
        for name, left in self._left.items():
            change = sum(block.left.get(name, 0) for block in self._blocks) - left
            if change:
                self._served.add_amounts({name: change})
            for block in self._blocks if change > 0 else reversed(self._blocks):
                free, taken = block.left.get(name, 0), block.taken.get(name, 0)
                part = min(change, free) if change > 0 else max(change, free - taken)
                if part:
                    block.left[name] = free - part
                    change -= part

    def _look_at_blocks(self) -> None:
        """Sum up the blocks, and note when to look again."""
        self._left, self._taken = {}, {}
        for block in self._blocks:
            self._left, self._taken = sums(self._left, block.left), sums(self._taken, block.taken)
        self._low = {name: self._low.get(name, 0) for name in self._left}
        from_ms = max((block.taken_ms for block in self._blocks), default=0) - BACKWARD_MS
        until_ms = min((block.taken_ms for block in self._blocks), default=0) + self.terms.life_ms
        until = min((block.until for block in self._blocks), default=0.0)
        self._served_between = from_ms, min(self._renew_ms, until_ms), until

    def _is_cut(self) -> bool:
        """Return whether a signal handler cuts through a call of its own thread; a child process begins again."""
        if self._generation != forks.generation:
            self._begin_again()
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def drop_blocks(self) -> None:
        """Drop what is held; also if a signal has cut through a change of it, so that nobody knows how much that is."""
        self._blocks.clear()
        self._ended = ()
        self._look_at_blocks()


class Change:
    """A change of a hold, in its lock. What a signal handler's exception cuts through is dropped by the next one."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self.torn = False

    def __enter__(self) -> None:
        if self.torn:
            self._hold.drop_blocks()
        self.torn = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.torn = False


class Holds:
    """The holds of one process, one a bucket. ``in_use``: those that have something, each with what ends it.
    ``least``: the acquires that each of their blocks has to serve.
    """

    least = LEAST_ACQUIRES

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._by_bucket: WeakValueDictionary[tuple[str, str], Hold] = WeakValueDictionary()
        self.in_use: dict[Hold, Any] = {}

    def of(self, entity_id: str, resource: str) -> Hold:
        """Return the hold of a bucket: that which is in use, also if the process has forgotten the bucket since."""
        return self._by_bucket.setdefault((entity_id, resource), Hold(self._now, self.least))


def _come_back(ended: Sequence[Block], limits: Mapping[str, ShardLimit], now_ms: int) -> dict[str, int]:
    """Return what is left of blocks, less what was minted since they were taken: the bucket may have that again."""
    back: dict[str, int] = {}
    for block in ended:
        for name, left in block.left.items():
            if left and name in limits:
                minted = limits[name].minted(now_ms) - limits[name].minted(block.taken_ms)
                minted += limits[name].unit > 0  # by another fraction it may have been one more
                back[name] = back.get(name, 0) + max(0, left - max(0, minted))
    return {name: amount for name, amount in back.items() if amount}


def _pay(blocks: Iterable[Block], amounts: Mapping[str, int]) -> list[Payment]:
    """Take the amounts from blocks that have them, the oldest first."""
    payments = list[Payment]()
    for name, amount in amounts.items():
        rest = amount
        for block in blocks:
            if part := min(rest, block.left.get(name, 0)):
                block.left[name] -= part
                rest -= part
                payments.append((block, name, part))
    return payments


def _to_pay(there: Mapping[str, int], used: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return what blocks pay of a write for the limits of which the bucket has too little: all that it uses, if that
    much is held, else what is short, as far as it is held. The little that is there is what all other writes reckon
    with, too.
    """
    paid: dict[str, int] = {}
    for name, left in there.items():
        if left < 0 < (most := held.get(name, 0)):
            whole = used.get(name, 0)
            paid[name] = whole if -left <= whole <= most else min(-left, most)
    return paid
