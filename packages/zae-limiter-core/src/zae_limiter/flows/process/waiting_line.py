"""The callers of this process that wait for tokens of one bucket, in their order.

Callers that sleep until their own tokens are due wake together, and most are refused; and one that needs many tokens is
overtaken by those that need few, for ever. So each caller has the number of its arrival, and counts on the tokens that
remain after all callers before it: the amounts are summed up along the line once, and a caller finds its sum by
bisection.

No caller wakes another one, so one that is cancelled, or whose event loop ends, leaves nothing behind that others wait
for. Instead every caller looks again by itself each second, or every few in a long line, passes over one that
oversleeps, and forgets one that is long gone. The price is a little work for each sleeper, so a long line is sorted
only now and then. Who left it stays in the sums until then; ``up_to`` leaves out those at the front.

Processes do not know of each other: among them, the order is that of their writes. docs/design/admission.md ("Waiting
lines"), docs/limiter.md ("Waiting"). This module knows who comes before whom, as plain data; ``acquire.waiting`` has
the pauses of a caller.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from ...runtime import forks
from ..bucket_queue import BucketRequest

LOOKS_AGAIN_MS: Final = 1000  # no caller sleeps longer without a look at the line, unless that is long
LONGEST_LOOK_MS: Final = 5000
GONE_MS: Final = 10_000  # behind its time, a caller is gone: its event loop or its process is
OVERDUE_MS: Final = 100
EIGHTH: Final = 8  # a caller that acquires for so long already is looked at again after so small a part of that time
A_SORT: Final = 50_000  # what a line sorts in a millisecond, of the square of its length


class Turn:
    """The place of one caller in all lines that it waits in: the number of its arrival.

    While it is ``awake``, it acquires: ``requests`` has what it has entered last, by line. Otherwise it sleeps until
    ``due_ms``. ``parts``: the number of shards among which it lets one amount be divided, without need.
    """

    __slots__ = ("awake", "due_ms", "number", "parts", "requests", "waker")

    def __init__(self, number: int, now_ms: int) -> None:
        self.number = number
        self.awake = False
        self.requests: dict[WaitingLine, Sequence[BucketRequest]] = {}
        self.due_ms = now_ms
        self.parts = 1.0
        self.waker: Any = None  # of the driver, while the caller may be woken

    def wake(self, now_ms: int) -> None:
        """Note that the turn has come: its caller acquires."""
        self.requests, self.awake, self.due_ms = {}, True, now_ms

    def sleep(self) -> None:
        """Note that the tokens were not there: the caller waits again, in its place."""
        self.awake = False

    def asks(self, line: "WaitingLine", requests: Sequence[BucketRequest]) -> None:
        """Note the requests that the caller has entered, one for each shard that it asks."""
        self.requests[line] = requests

    @property
    def is_blocked(self) -> bool:
        """Whether a request that the caller has entered was refused with another one, before it in the line."""
        return any(request.blocked for requests in self.requests.values() for request in requests)

    def lets_pass(self, line: "WaitingLine") -> bool:
        """Return whether the next caller in a line need not wait, because what this one asked for there is not refused.

        If the write under way refuses this one, it also refuses what the next one has queued behind it
        (``BucketRequest.blocked``). Before this one asks there, it asks another bucket: the next one asks that behind
        it, and looks again.
        """
        requests = self.requests.get(line)
        if requests is None:
            return bool(self.requests)
        outcomes = [request.outcome for request in requests]
        return None in outcomes or all(outcome is None or outcome.verdict == "admitted" for outcome in outcomes)

    def is_served(self, line: "WaitingLine") -> bool:
        """Return whether the amounts are taken from the bucket of a line."""
        requests = self.requests.get(line)
        return requests is not None and all(request.admitted for request in requests)


class Blocker(NamedTuple):
    """A caller that has to be served first: when to look at it again; its distance."""

    due_ms: int
    distance: int


class _Place(NamedTuple):
    """One turn of a sorted line; ``sums`` has the amounts of all up to it."""

    number: int
    turn: Turn
    amounts: Mapping[str, int]
    sums: Mapping[str, int]


class WaitingLine:
    """First come, first served: the turns of those that wait, with their amounts in millitokens by limit.

    Threads may share it. A forked child begins with nobody in line.

    ``phase_ms`` shifts the moments at which a crowd acquires, so that those of two processes do not coincide.
    ``asked``: what those that are awake ask of each shard, where the bucket has several.
    """

    __slots__ = ("_amounts", "_generation", "_in_order", "_is_sorted", "_sorted_ms", "asked", "phase_ms")

    def __init__(self) -> None:
        self.phase_ms = 0
        self._begin()

    def _begin(self) -> None:
        self._generation = forks.generation
        self._amounts: dict[Turn, Mapping[str, int]] = {}
        self.asked: dict[Turn, Mapping[int, Mapping[str, int]]] = {}
        self._in_order: list[_Place] = []
        self._is_sorted = True
        self._sorted_ms = 0

    def __len__(self) -> int:
        return len(self._amounts) if self._generation == forks.generation else 0

    def join(self, turn: Turn, amounts: Mapping[str, int]) -> None:
        """Wait for these amounts; keep a place that exists already."""
        if self._generation != forks.generation:
            self._begin()
        if turn in self._amounts:
            return
        self._amounts[turn] = amounts
        self._is_sorted = False
        last = self._in_order[-1] if self._in_order else None
        if last is None or last.number < turn.number:  # any other one has its place by the next sort
            self._in_order.append(_behind(last, turn, amounts))

    def leave(self, turn: Turn) -> None:
        """End the wait."""
        if self._amounts.pop(turn, None) is not None:
            self._is_sorted = False

    @property
    def look_ms(self) -> int:
        """The longest sleep without a look at the line: a thousand looks a second at most."""
        return min(max(LOOKS_AGAIN_MS, len(self)), LONGEST_LOOK_MS)

    def is_first(self, turn: Turn, now_ms: int) -> bool:
        """Return whether nobody is before this turn."""
        return next(self._before(turn, now_ms), None) is None

    def blocker(self, turn: Turn, now_ms: int) -> Blocker | None:
        """Return the first caller before this one that is neither served nor waits for the same write; ``None`` if
        there is none.

        A caller that oversleeps blocks nobody: its process is too busy, and a crowd must not wait for it one by one.
        """
        for each in self._before(turn, now_ms):
            blocks = not each.lets_pass(self) if each.awake else now_ms - each.due_ms <= OVERDUE_MS
            if blocks:
                places = self._in_order
                own, other = (bisect_left(places, number, key=_number_of) for number in (turn.number, each.number))
                due_ms = now_ms + (now_ms - each.due_ms) // EIGHTH if each.awake else each.due_ms
                return Blocker(due_ms, max(1, own - other))
        return None

    def sleeping(self, now_ms: int, *, most: int) -> list[Turn]:
        """Return the first ``most`` callers that sleep: what they wait for is there earlier than it was due."""
        turns = (place.turn for place in self._places(now_ms) if place.turn in self._amounts)
        return list(islice((turn for turn in turns if not turn.awake), most))

    def up_to(self, turn: Turn, now_ms: int) -> dict[str, int]:
        """Return the amounts of this caller and of all before it that are not served. The last seen state has the
        others.
        """
        places = self._places(now_ms)
        behind = bisect_right(places, turn.number, key=_number_of)
        sums = dict(places[behind - 1].sums) if behind else {}
        for place in places:
            has_left = place.turn not in self._amounts
            if place.number > turn.number or not (has_left or place.turn.awake):
                break  # the next sort removes what has left behind a sleeping caller
            if has_left or place.turn.is_served(self):
                for name, amount in place.amounts.items():
                    sums[name] -= amount
        return sums

    def _before(self, turn: Turn, now_ms: int) -> Iterator[Turn]:
        for place in self._places(now_ms):
            if place.number >= turn.number:
                return
            if place.turn in self._amounts:
                yield place.turn

    def _places(self, now_ms: int) -> list[_Place]:
        """Return the turns by number, without callers that are gone. Sort a long line again only some time after
        somebody left.
        """
        if self._generation != forks.generation:
            self._begin()
        since_ms = now_ms - self._sorted_ms
        if (
            not self._is_sorted and since_ms >= len(self._in_order) ** 2 // A_SORT
        ) or not 0 <= since_ms < LOOKS_AGAIN_MS:
            for turn in [each for each in list(self._amounts) if now_ms - each.due_ms > GONE_MS]:
                self._amounts.pop(turn, None)
            in_order: list[_Place] = []
            for turn, amounts in sorted(self._amounts.copy().items(), key=lambda entry: entry[0].number):
                in_order.append(_behind(in_order[-1] if in_order else None, turn, amounts))
            self._in_order, self._is_sorted, self._sorted_ms = in_order, True, now_ms
        return self._in_order


def _behind(last: _Place | None, turn: Turn, amounts: Mapping[str, int]) -> _Place:
    before = {} if last is None else last.sums
    sums = {name: before.get(name, 0) + amounts.get(name, 0) for name in {**before, **amounts}}
    return _Place(turn.number, turn, amounts, sums)


def _number_of(place: _Place) -> int:
    return place.number
