"""The part that this process has in the consumption of one bucket shard, by windows of time.

The problem: in an outage each process goes on with its part of a limit, and the parts of all processes, which see the
table at different times, must not add up to more than one. The choice:

- All processes use the same windows, half a minute long by the corrected clock. A process counts its own amounts in the
  window of the write's instant. An answer shows what the others consumed since the answer before; that counts in every
  window which the time between the two answers touches, widened by a second for the clocks and for writes under way. So
  the part of a process, ``own / (own + others)``, is at most its part of all consumption in that window.
- The part is the smaller one of the two windows before that of the last answer, less that second. Two processes that
  lose the table at the same time had their last answers in the same window or in adjacent ones, as a part does not hold
  if the last answer is older than that. So they have one of these windows in common, and in it the parts add up to at
  most one.

The price: a process without a full minute behind it has no part, and the parts of processes with uneven traffic add up
to less than one. A part could be too large only next to a process that gave back more in a window than it took.

An answer that shows no write of another process costs one comparison here: own consumption follows from the items at
the ends of a window. docs/design/admission.md ("Shares"). ``acquire.outage`` has the tokens that follow.
"""

from collections.abc import Mapping
from typing import Final

from ...runtime import forks
from ...schema.items import WRITES, BucketState

RECENT_ANSWERS: Final = 0xFF
KEPT: Final = 0.75  # of the sums behind ``demand``, with each answer
WINDOW_MS: Final = 30_000
MARGIN_MS: Final = 1_000
WINDOWS: Final = 2  # the part is the smallest of so many
MILLION: Final = 1_000_000


def window_of(at_ms: int) -> int:
    """Return the number of the window of an instant."""
    return at_ms // WINDOW_MS


def window_end(at_ms: int) -> int:
    """Return the end of the window of an instant, in epoch ms."""
    return (window_of(at_ms) + 1) * WINDOW_MS


def is_void(since_ms: int, now_ms: int) -> bool:
    """Return whether a part no longer holds that was last confirmed, by an answer or its use, at ``since_ms``.

    ``now_ms`` goes without the margin: another process, whose clock is fast, may be in the next window already.
    """
    return abs(window_of(now_ms) - window_of(since_ms - MARGIN_MS)) > 1


class Consumption:
    """What this process and all others consumed of a shard, in millitokens by window and limit.

    ``_before``: the counts as they were last seen before the ``_current`` window. ``_since``: the first whole window.
    ``_inside``: what others consumed in the current window between answers that touch no other window, ``_across``:
    between those that do.
    """

    __slots__ = (
        "_across",
        "_before",
        "_current",
        "_from_ms",
        "_generation",
        "_inside",
        "_others",
        "_own",
        "_since",
        "_to_ms",
    )

    def __init__(self, before: BucketState, first_ms: int) -> None:
        self._before = _counts(before)
        self._generation = forks.generation
        self._since = window_of(first_ms + MARGIN_MS) + 1
        self._own: dict[int, dict[str, int]] = {}
        self._others: dict[int, dict[str, int]] = {}
        self._begin(window_of(first_ms))

    def _begin(self, window: int) -> None:
        self._current = window
        self._from_ms, self._to_ms = window * WINDOW_MS + MARGIN_MS, (window + 1) * WINDOW_MS - MARGIN_MS
        self._inside: dict[str, int] = {}
        self._across: dict[str, int] = {}

    @property
    def is_inherited(self) -> bool:
        """Whether it is that of the process that forked this one."""
        return self._generation != forks.generation

    def enter(self, last: BucketState, at_ms: int) -> None:
        """Begin the window of ``at_ms``; ``last`` was seen last before it."""
        window = window_of(at_ms)
        if window <= self._current:  # the clock went back
            return
        counts, own = _counts(last), {}
        for name, consumed in counts.items():
            inside, across = self._inside.get(name, 0), self._across.get(name, 0)
            own[name] = consumed - self._before.get(name, 0) - inside - across
            self._add(self._current, name, inside)
        self._own[self._current] = own
        self._before = counts
        self._begin(window)
        self._own = {each: self._own[each] for each in self._own if each >= window - WINDOWS - 1}
        self._others = {each: self._others[each] for each in self._others if each >= window - WINDOWS - 1}

    def see_others(
        self, last: BucketState, state: BucketState, own: Mapping[str, int], since_ms: int, at_ms: int
    ) -> None:
        """Count what others consumed between two answers; ``own`` has the changes of this process by attribute."""
        now, before = state.item, last.item
        is_inside = self._from_ms <= since_ms and at_ms < self._to_ms
        seen = self._inside if is_inside else self._across
        for name, _, consumed, *_ in state.limit_states:
            change = now[consumed] - before.get(consumed, 0) - own.get(consumed, 0)
            seen[name] = seen.get(name, 0) + change
            if not is_inside:
                first = max(window_of(since_ms - MARGIN_MS), window_of(at_ms) - WINDOWS - 1)
                for window in range(first, window_of(at_ms + MARGIN_MS) + 1):
                    self._add(window, name, change)

    def _add(self, window: int, name: str, change: int) -> None:
        if change > 0:
            others = self._others.setdefault(window, {})
            others[name] = others.get(name, 0) + change

    def part(self, limit: str, seen_at_ms: int) -> int:
        """Return the part of this process in millionths, by the windows that the answer at ``seen_at_ms`` completed.

        It is 0 without two whole windows, and in a forked child.
        """
        last = window_of(seen_at_ms - MARGIN_MS)
        windows = range(last - WINDOWS, last)
        if windows[0] < self._since or self.is_inherited:
            return 0
        return min(self._part_in(window, limit) for window in windows)

    def _part_in(self, window: int, limit: str) -> int:
        own = self._own.get(window, {}).get(limit, 0)
        others = self._others.get(window, {}).get(limit, 0)
        return own * MILLION // (own + others) if own > 0 else 0


def _counts(state: BucketState) -> dict[str, int]:
    """Return what all processes have consumed of each limit, since the bucket is there."""
    return {each.name: state.item.get(each.consumed, 0) for each in state.limit_states}


class Others:
    """What the answers about a shard show of other processes: whether they write to it, how much all consume, and what
    part of that is this process's.

    ``are_away``: the last eight answers showed no write of another process. ``window_ends_ms``: the end of the window
    of the consumption. ``_first_ms``: since when every answer has shown a bucket.
    """

    __slots__ = ("_consumption", "_first_ms", "_flow", "_wrote", "are_away", "window_ends_ms")

    def __init__(self) -> None:
        self.are_away = True
        self.window_ends_ms = self._first_ms = self._wrote = 0
        self._flow: dict[str, tuple[float, float]] = {}
        self._consumption: Consumption | None = None

    def watch_from(self, at_ms: int) -> None:
        """Forget the consumption: the bucket of this answer has no history, or none that this process knows."""
        self._consumption = None
        self._first_ms, self.window_ends_ms = at_ms, window_end(at_ms)

    def enter(self, before: BucketState, at_ms: int) -> None:
        """Begin the window of ``at_ms``; ``before`` was seen last before it."""
        self._since_first_look(before, at_ms).enter(before, at_ms)
        self.window_ends_ms = window_end(at_ms)

    def see(
        self, before: BucketState, state: BucketState, own: Mapping[str, int], since_ms: int, at_ms: int, *, wrote: bool
    ) -> None:
        """Note an answer after others ``wrote``, or lately did; ``own`` has the changes of this process."""
        if state.item[WRITES] < before.item[WRITES]:  # the bucket was made anew
            self.watch_from(at_ms)
        elif wrote:
            self._since_first_look(before, at_ms).see_others(before, state, own, since_ms, at_ms)
        self._wrote = (self._wrote << 1 | wrote) & RECENT_ANSWERS
        self.are_away = self._wrote == 0
        if self.are_away:
            return
        for each, shard_limit in zip(state.limit_states, state.shard_limits.values(), strict=True):
            consumed, minted = self._flow.get(each.name, (0.0, 0.0))
            self._flow[each.name] = (
                consumed * KEPT + state.item[each.consumed] - before.item.get(each.consumed, 0),
                minted * KEPT + shard_limit.minted(at_ms) - shard_limit.minted(since_ms),
            )

    def demand(self, limit: str) -> float:
        """Return how much all processes have consumed recently, as a part of the tokens minted meanwhile."""
        consumed, minted = self._flow.get(limit, (0, 0))
        return consumed / minted if minted > 0 else 0.0

    def part(self, limit: str, seen_at_ms: int, now_ms: int) -> int:
        """Return this process's part of the recent consumption of a limit, in millionths; 0 if its last look is too
        old.
        """
        if self._consumption is None or is_void(seen_at_ms, now_ms):
            return 0
        return self._consumption.part(limit, seen_at_ms)

    def _since_first_look(self, before: BucketState, at_ms: int) -> Consumption:
        """Return the consumption that this process has seen since its first look, or since it was forked."""
        found = self._consumption
        if found is None or found.is_inherited:
            self._consumption = found = Consumption(before, self._first_ms if found is None else at_ms)
        return found
