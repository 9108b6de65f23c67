"""Tokens held ahead: what this process took of a bucket before it admits by it.

The problem: an acquire is a request, whose milliseconds and write unit are the price of exact limits. The choice: a
write takes once more what this process used of the bucket within the last ``ahead`` seconds, and the next acquires are
served from this block without a request. A block is void ``ahead`` seconds after the instant of its write, so an
admission comes at most that long after its tokens left the table. Every process lowers the ceiling by what is minted in
that time, so the burst holds strictly, though nobody knows who holds what. What is left of a block comes back with a
later write, less what was minted since: the bucket may have refilled behind it, and would have it twice. The price is a
lower burst, tokens that a crash loses, and usage that is counted with the next write.
docs/design/admission.md ("Tokens held ahead") has the proof.

This module keeps the tokens; ``bucket.commit_run`` takes them, ``acquire.ahead`` admits by them.
"""

from collections import deque
from collections.abc import Callable, Container, Mapping
from threading import RLock
from types import TracebackType
from typing import Final, Literal

from ..operations.values import NOTHING, sums
from ..runtime import forks
from ..runtime.elapsed import elapsed_ms
from ..values.limits import MILLI, Limit
from ..values.resolution import Config
from .blocks import Block, Draw, Pace, Shard, Terms, come_back, pay, pay_back, to_pay

LEAST_ACQUIRES: Final = 3  # in the life of a block: fewer are not worth one
EIGHTH: Final = 8  # a block is renewed when so small a part of it, or of its life, is left
BACKWARD_MS: Final = 1000  # the most that the clock may be corrected backwards behind a block
MOST_ENDED: Final = 16
SETTLED_MS: Final = 1000  # after a change of the limits no block is taken, as long as this or as a block lives

Purpose = Literal["renew", "count", "end"]


class Hold:
    """What this process holds of one bucket, over all its shards. Threads may share it; a child process begins again.

    ``limits`` are the rules by which its blocks were taken. ``due``: a block should be renewed. ``reminded``: a
    reminder is on its way.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self._begin_again()

    def _begin_again(self) -> None:
        self._generation = forks.generation
        self._lock = RLock()  # its `with` cannot be cut through by a signal
        self._change = Change(self)
        self.torn = False
        self.limits: tuple[Limit, ...] = ()
        self._terms: Terms = ((), ())
        self._ahead: Mapping[str, float] = NOTHING
        self.due = False
        self.reminded = False
        self._life_ms = self._changed_ms = 0
        self._blocks: list[Block] = []
        self._ended: deque[Block] = deque(maxlen=MOST_ENDED)
        self._spent: dict[str, int] = {}
        self._events = self._below = 0
        self._pace = Pace()
        self._low: Mapping[str, int] = NOTHING
        self._from_ms = self._until_ms = self._look_ms = self._renew_ms = 0
        self._until = 0.0
        self._left: dict[str, int] = {}  # of all blocks
        self._known: Mapping[str, int] = NOTHING  # the same, as the blocks know it
        self._taken: Mapping[str, int] = NOTHING

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
        if not self._left or self._is_cut():
            return False
        with self._lock:
            if self.torn or not (self._from_ms <= now_ms < self._look_ms and elapsed_ms() < self._until):
                with self._change:
                    self._look(now_ms)
            left, low, some = self._left, self._low, 0
            for name, amount in amounts.items():
                some = some or amount
                if name not in left or amount > left[name] or (amount < 0 and left[name] - amount > self._taken[name]):
                    return False
            for name, amount in amounts.items():
                left[name] = rest = left[name] - amount
                if rest < low.get(name, 0):
                    self.due = True
            if counted:
                self._spent = sums(self._spent, counted)
            if some or counted:
                self._events += events
                self._below += below
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
        return _terms(config) == self._terms

    # write

    def draw(
        self, config: Config, shard: Shard, used: Mapping[str, int], events: int, now_ms: int, purpose: Purpose
    ) -> Draw | None:
        """Return what the next write does for the hold; ``None`` if it has nothing to do.

        ``used``: what the write takes for acquires, of which it has ``events``.
        """
        if self._is_cut():
            return None
        with self._lock, self._change:
            if not self.goes_by(config):
                self._go_by(config, now_ms)
            self._look(now_ms)
            if purpose == "end":
                self._ended.extend(self._blocks)
                self._blocks.clear()
                self._look_at_blocks()
            if purpose == "count" and self._blocks:
                return None
            self._note_pace(used, events, now_ms)
            settled = now_ms - self._changed_ms >= max(self._life_ms, SETTLED_MS)
            wanted = self._wanted(config, shard, now_ms) if purpose == "renew" and settled else None
            ended = tuple(each for each in self._ended if each.source == shard.source)
            others = [each for each in self._ended if each.source.number != shard.source.number]
            self._ended = deque(others, MOST_ENDED)  # of this shard, nothing more can ever come back
            back = come_back(ended, shard.limits, now_ms)
            if payments := pay(self._blocks, to_pay(shard.left, used, self._left)):
                self._look(now_ms)
            spent, self._spent = self._to_count(shard.limits), {}
            if not (wanted or back or spent or payments or self._events or self._below):
                return None
            block = None
            if wanted:
                until = elapsed_ms() + self._life_ms
                block = Block(wanted, now_ms, until, shard.source, self._terms)
            draw = Draw(block, ended, back, spent, self._events, payments, self._below)
            self._events = self._below = 0
            return draw

    def count(self, names: Container[str], now_ms: int) -> Draw | None:
        """Return what a write does that only counts what was spent of these limits; others have left the bucket."""
        if self._is_cut():
            return None
        with self._lock, self._change:
            self._look(now_ms)
            spent = self._to_count(names)
            some = spent or self._events or self._below  # which a give-back may leave alone
            draw = Draw(None, (), NOTHING, spent, self._events, (), self._below) if some else None
            self._spent, self._events, self._below = {}, 0, 0
            return draw

    def _to_count(self, names: Container[str]) -> dict[str, int]:
        """Return what was spent of these limits, and of names without a limit."""
        gone = {limit.name for limit in self.limits if limit.name not in names}
        return {name: amount for name, amount in self._spent.items() if amount and name not in gone}

    def is_left_alone(self, used: Mapping[str, int], events: int, now_ms: int) -> bool:
        """Return whether a write needs not care for the hold, because this process has not used the bucket for the life
        of a block, and holds nothing; then note what it uses now.
        """
        if self._is_cut():
            return False
        with self._lock, self._change:
            if self.is_used or self._ended or now_ms - self._pace.at_ms < self._life_ms:
                return False
            self._note_pace(used, events, now_ms)
            return self._life_ms > 0

    def put_back(self, draw: Draw) -> None:
        """Take back what a write was to do that was not applied."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._spent = sums(self._spent, draw.spent)
            self._events += draw.events
            self._below += draw.below
            self._tell_blocks()
            pay_back(draw.payments)
            self._look(self.now())
            self._ended.extend(block for block in draw.ended if block.terms == self._terms)

    def written(self, draw: Draw | None) -> None:
        """Note that a write of the bucket did what was drawn, if anything was.

        Its answer may come long after its instant: other writes have taken blocks since.
        """
        if self._is_cut():
            return
        with self._lock, self._change:
            self._look(self.now())
            if draw is not None and draw.block is not None and draw.block.terms == self._terms:
                self._blocks.append(draw.block)
                self._look_at_blocks()
                self._low = {name: amount // EIGHTH for name, amount in self._left.items()}
                self._renew_ms = draw.block.taken_ms + self._life_ms - self._life_ms // EIGHTH
                self._look_ms = min(self._renew_ms, self._until_ms)
                self.due = False

    def renews(self, now_ms: int) -> None:
        """Note that a renewal is on its way: if it brings no block, the next is due after a part of a block's life."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._low, self._renew_ms = NOTHING, now_ms + max(1, self._life_ms // EIGHTH)
            self._look_ms = min(self._renew_ms, self._until_ms)
            self.due = False

    @property
    def is_used(self) -> bool:
        """Whether it has a block, or something to count."""
        return bool(self._blocks or self._events or self._spent)

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
            return max(1, max(ends, default=self._life_ms)) / 1000

    def void(self) -> None:
        """Drop what is held, but for the count of what was spent: the bucket is full without it."""
        if self._is_cut():
            return
        with self._lock, self._change:
            self._tell_blocks()
            self.drop_blocks()

    # blocks

    def _go_by(self, config: Config, now_ms: int) -> None:
        """Drop the blocks of other limits, also of another time ahead or schedule, which the rules do not tell."""
        self._changed_ms = now_ms if self.limits else 0
        self.limits, self._terms = config.limits, _terms(config)
        self._ahead = config.ahead
        self._life_ms = round(min(config.ahead.values(), default=0) * 1000)  # as long as every limit lets it
        self._tell_blocks()
        self.drop_blocks()

    def _note_pace(self, used: Mapping[str, int], events: int, now_ms: int) -> None:
        """Note what acquires have used that a block can serve: those of a write that names other limits are not."""
        if not used.keys() <= self._ahead.keys():
            used, events = NOTHING, 0
        self._pace.add(sums(used, self._spent), events + self._events, now_ms, self._life_ms)

    def _wanted(self, config: Config, shard: Shard, now_ms: int) -> dict[str, int] | None:
        """Return the size of the next block: what was used in the life of a block, less what is held.

        It leaves at least what is minted in the time ahead, so that others find their next block, too. Nothing if too
        few acquires would be served by it.
        """
        ahead, least = config.ahead, 1.0
        pace = {name: round(used) for name, used in self._pace.used.items() if name in ahead}
        wanted = {name: max(0, used - self._left.get(name, 0)) for name, used in pace.items()}
        for name, amount in wanted.items():
            limit = shard.limits[name]
            floor = limit.minted(now_ms + round(ahead[name] * 1000)) - limit.minted(now_ms) + 1
            if amount and amount > (there := shard.left[name] - floor):
                least = min(least, max(0, there) / amount)
        whole = {name: int(amount * least) // MILLI * MILLI for name, amount in wanted.items()}
        return whole if self._pace.events * least >= LEAST_ACQUIRES and any(whole.values()) else None

    def _look(self, now_ms: int) -> None:
        """Tell the blocks what was spent, and end those whose time is over."""
        if not (self._blocks or self._left or self._known):
            return  # a limit whose tokens are all asked for leaves none to hold, at each of its writes
        self._tell_blocks()
        real, live = elapsed_ms(), []
        for block in self._blocks:
            ends_ms = block.taken_ms + self._life_ms
            if block.taken_ms - BACKWARD_MS <= now_ms < ends_ms and real < block.until:
                live.append(block)
            else:
                self._ended.append(block)
        self._blocks = live
        self._look_at_blocks()
        if live and now_ms >= self._renew_ms:
            self.due = True
        self._look_ms = self._until_ms if now_ms >= self._renew_ms else min(self._renew_ms, self._until_ms)

    def _tell_blocks(self) -> None:
        """Take what was spent from the blocks, the oldest first; what came back goes to the newest first."""
        for name, before in self._known.items():
            change = before - self._left[name]
            if change:
                self._spent[name] = self._spent.get(name, 0) + change
            for block in self._blocks if change > 0 else reversed(self._blocks):
                free, taken = block.left.get(name, 0), block.taken.get(name, 0)
                part = min(change, free) if change > 0 else max(change, free - taken)
                if part:
                    block.left[name] = free - part
                    change -= part
        self._known = dict(self._left)

    def _look_at_blocks(self) -> None:
        """Sum up the blocks."""
        self._left, self._taken = {}, {}
        for block in self._blocks:
            self._left = sums(self._left, block.left)
            self._taken = sums(self._taken, block.taken)
        self._known = dict(self._left)
        self._from_ms = max((block.taken_ms for block in self._blocks), default=0) - BACKWARD_MS
        self._until_ms = self._look_ms = min((block.taken_ms for block in self._blocks), default=0) + self._life_ms
        self._until = min((block.until for block in self._blocks), default=0.0)

    def _is_cut(self) -> bool:
        """Return whether a signal handler cuts through a call of its own thread; a child process begins again."""
        if self._generation != forks.generation:
            self._begin_again()
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def drop_blocks(self) -> None:
        """Drop what is held; also if a signal has cut through a change of it, so that nobody knows how much that is."""
        self._blocks.clear()
        self._ended.clear()
        self._look_at_blocks()


class Change:
    """A change of a hold, in its lock. What a signal handler's exception cuts through is dropped by the next one."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def __enter__(self) -> None:
        if self._hold.torn:
            self._hold.drop_blocks()
        self._hold.torn = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._hold.torn = False


def _terms(config: Config) -> Terms:
    """Return what a block is taken by: the rules of the moment, and the limits as they are declared."""
    return config.limits, config.declared
