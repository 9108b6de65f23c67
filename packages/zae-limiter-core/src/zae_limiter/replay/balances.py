"""One limit of a bucket, as a number that time and calls change.

The problem: a stored balance has an anchor, so that many processes can write it; a replay has one writer, decides
millions of calls, and has to come to the same headroom, to the millitoken. The choice: keep ``base``, which is the
balance at the anchor less what was minted up to it. Then the headroom at any instant is ``min(ceiling, base +
minted(now))``, and no anchor has to move: by the definition in ``rules.balances`` that is the same number. There are
three forms: of a rule that depends on time alone, of windows that begin with the first use, and of values that change
by a schedule.
"""

from ..rules.balances import ShardLimit, is_quota
from ..rules.registry import rule_of
from ..rules.rule import FOREVER_MS
from ..rules.schedules import carry, follow
from ..values.limits import Limit
from ..values.timetables import timetable_of


class Balance:
    """A limit of one bucket; amounts in millitokens. ``look`` comes before ``take`` at the same instant.

    ``free`` is the headroom at the last look. ``shadow``: the limit refuses no call.
    """

    __slots__ = ("_base", "_fraction", "_minted", "_now", "_slow", "ceiling", "free", "initial", "name", "shadow")

    def __init__(self, limit: Limit, *, shadow: bool) -> None:
        rule = limit._rule
        self.name, self.shadow = limit.name, shadow or limit.shadow
        by = rule_of(rule)
        self._minted, self._slow = by.minted, by if by.unit(1) else None
        self.ceiling, self.initial = rule._ceiling_milli, rule._initial_milli
        self._base = self._now = self._fraction = 0
        self.free = self.initial

    def open(self, at_ms: int) -> None:
        """Begin as a limit of a new bucket."""
        self._begin_whole(at_ms)
        self._base = self.initial - self._minted(at_ms)

    def _begin_whole(self, at_ms: int) -> None:
        """Count from an instant on: what a slow limit had minted beyond whole millitokens is no longer its."""
        if self._slow is not None:
            self._fraction = self._slow.remainder(at_ms, 0, 1)
            self._minted = self._slow.on_shard(0, 1, self._fraction).minted
            self._now = self._minted(at_ms)

    def look(self, at_ms: int) -> int:
        """Return the headroom at an instant."""
        self._now = minted = self._minted(at_ms)
        free = self._base + minted
        if free > self.ceiling:
            free = self.ceiling
        self.free = free
        return free

    def take(self, at_ms: int, cost: int) -> None:
        """Take an amount, even into debt; a negative one comes back, up to the ceiling."""
        if self._slow is not None and cost > 0 and self.free == self.ceiling:
            self._begin_whole(at_ms)
        left = self.free - cost
        if left > self.ceiling:
            left = self.ceiling
        self._base = left - self._now

    def correct(self, at_ms: int, change: int) -> None:
        """Take what the end of a lease takes beside its amounts, even into debt, or give it back; it looks first."""
        self.look(at_ms)
        self.take(at_ms, change)

    def state(self) -> tuple[int | None, ...]:
        """Return what decides of the calls to come."""
        return (self._base,)


class WindowBalance(Balance):
    """A limit whose windows begin with the first use: a take after the end of one begins another."""

    __slots__ = ("_begun_ms", "_length_ms", "_whole")

    def __init__(self, limit: Limit, *, shadow: bool) -> None:
        super().__init__(limit, shadow=shadow)
        self._whole, self._length_ms = rule_of(limit._rule), limit.refill_period * 1000
        self._begun_ms: int | None = None

    def open(self, at_ms: int) -> None:
        """Begin as a limit of a new bucket, whose first window no take has begun."""
        self._minted, self._begun_ms = self._whole.since(at_ms).minted, None
        super().open(at_ms)

    def take(self, at_ms: int, cost: int) -> None:
        """Take an amount, which begins a window if none lasts; a negative one comes back."""
        if cost > 0 and (self._begun_ms is None or at_ms >= self._begun_ms + self._length_ms):
            self._begun_ms, self._minted = at_ms, self._whole.since(at_ms).minted
            self._now = self._minted(at_ms)
        super().take(at_ms, cost)

    def correct(self, at_ms: int, change: int) -> None:
        """Take or give back: that begins no window, but of a bucket that had none."""
        self.look(at_ms)
        if self._begun_ms is None:
            self.take(at_ms, change)
        else:
            super().take(at_ms, change)

    def state(self) -> tuple[int | None, ...]:
        """Return what decides of the calls to come."""
        return (self._base, self._begun_ms)


class ScheduledBalance(WindowBalance):
    """A limit that has other values at other times; of those with windows, too."""

    __slots__ = ("_anchor_ms", "_declared", "_end_ms", "_excess", "_rule")

    def __init__(self, limit: Limit, *, shadow: bool) -> None:
        super().__init__(limit, shadow=shadow)
        self._declared, self._rule, self._anchor_ms, self._end_ms = limit, limit._rule, 0, 0
        self._excess = (0, FOREVER_MS)  # of a quota: what was used beside what the balance shows, until when

    def _go_by(self, at_ms: int) -> None:
        piece = timetable_of(self._declared).at(at_ms)
        self._rule, self._end_ms = piece.limit, piece.end_ms
        self._whole = whole = rule_of(piece.limit)
        self._slow = whole if whole.unit(1) else None
        self._minted = self._whole.since(self._anchor_ms if self._begun_ms is None else self._begun_ms).minted
        self.ceiling, self.initial = piece.limit._ceiling_milli, piece.limit._initial_milli

    def open(self, at_ms: int) -> None:
        """Begin as a limit of a new bucket, with the values of this instant."""
        self._anchor_ms = at_ms
        self._go_by(at_ms)
        super().open(at_ms)

    def look(self, at_ms: int) -> int:
        """Return the headroom at an instant, over all boundaries since the last take."""
        if at_ms >= self._end_ms:
            left = self._over_boundaries(at_ms)
            self._anchor_ms = at_ms
            self._go_by(at_ms)
            self._begin_whole(at_ms)
            self._base = left - self._minted(at_ms)
        return super().look(at_ms)

    def _over_boundaries(self, at_ms: int) -> int:
        excess, until_ms = self._excess
        before = ShardLimit(
            self._rule,
            self._anchor_ms,
            begun_ms=self._begun_ms,
            fraction=self._fraction,
            excess=excess,
            excess_until_ms=until_ms,
        )
        tokens = self._base + before.minted_at_anchor
        if is_quota(self._rule):
            after, left = follow(before, tokens, self._declared, at_ms)
            self._excess = after.excess, after.excess_until_ms
            return left
        over = carry(before, self._declared, at_ms)
        return min(tokens + over.minted, over.ceiling)

    def take(self, at_ms: int, cost: int) -> None:
        """Take an amount, even into debt; a negative one comes back, up to the ceiling."""
        if self._rule.kind == "first_use":
            super().take(at_ms, cost)
        else:
            Balance.take(self, at_ms, cost)
        self._anchor_ms = at_ms

    def correct(self, at_ms: int, change: int) -> None:
        """Take or give back; what comes back behind a boundary goes over it with what was left before."""
        if change < 0 and at_ms >= self._end_ms:
            self._base -= change
            return
        self.look(at_ms)
        if self._rule.kind == "first_use":
            super().correct(at_ms, change)
        else:
            Balance.take(self, at_ms, change)

    def state(self) -> tuple[int | None, ...]:
        """Return what decides of the calls to come."""
        return (self._base, self._begun_ms, self._anchor_ms, *self._excess)


def balance_of(limit: Limit, *, shadow: bool = False) -> Balance:
    """Return a limit of a bucket that is not there yet; ``shadow``: whatever the limit says, it refuses no call.

    Slots have none: they are held until their lease ends, and time brings none back.
    """
    if limit.schedule:
        return ScheduledBalance(limit, shadow=shadow)
    return (WindowBalance if limit.kind == "first_use" else Balance)(limit, shadow=shadow)
