"""The callers of this process that wait for tokens of one bucket, in their order.

Callers that sleep until their own tokens are due wake together, and most are refused; and one that needs many tokens is
overtaken by those that need few, for ever. So each caller has a place, and counts on the tokens that remain after all
callers before it: the amounts are summed up along the line once, and a caller finds its sum by bisection. Who comes
before whom, ``fair_order`` says: the children of a bucket take turns, and each has its callers in order of arrival.

Callers of two children of one child share two lines, which may not agree about them. Two that wait for each other would
do so for ever, so there the one that came first goes first (``Turn.waits_for``).

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
from typing import Any, Final

from ...operations.values import NOTHING
from ...runtime import forks
from ...runtime.named_tuple import NamedTuple
from ..bucket_queue import BucketRequest
from .fair_order import OWN, FairOrder, Waiting, Way

LOOKS_AGAIN_MS: Final = 1000  # no caller sleeps longer without a look at the line, unless that is long
LONGEST_LOOK_MS: Final = 5000
GONE_MS: Final = 10_000  # behind its time, a caller is gone: its event loop or its process is
OVERDUE_MS: Final = 100
EIGHTH: Final = 8  # a caller that acquires for so long already is looked at again after so small a part of that time
SEEDS: Final = 1 << 32
MIX: Final = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)  # of SplitMix64: Steele, Lea and Flood, OOPSLA 2014
WORD: Final = (1 << 64) - 1
A_SORT: Final = 50_000  # what a line sorts in a millisecond, of the square of its length


class Turn:
    """The place of one caller in all lines that it waits in: the number of its arrival.

    While it is ``awake``, it acquires: ``requests`` has what it has entered last, by line. Otherwise it sleeps until
    ``due_ms``. ``parts``: the number of shards among which it lets one amount be divided, without need. ``behind``: the
    callers that it lets go first, while it waits for nothing else.
    """

    __slots__ = ("awake", "behind", "due_ms", "number", "parts", "requests", "waker")

    def __init__(self, number: int, now_ms: int) -> None:
        self.number = number
        self.awake = False
        self.behind: Sequence[Turn] = ()
        self.requests: dict[WaitingLine, Sequence[BucketRequest]] = {}
        self.due_ms = now_ms
        self.parts = 1.0
        self.waker: Any = None  # of the driver, while the caller may be woken

    def wake(self, now_ms: int) -> None:
        """Note that the turn has come: its caller acquires."""
        self.requests, self.awake, self.due_ms, self.behind = {}, True, now_ms, ()

    def sleep(self) -> None:
        """Note that the tokens were not there: the caller waits again, in its place."""
        self.awake = False

    def asks(self, line: "WaitingLine", requests: Sequence[BucketRequest]) -> None:
        """Note the requests that the caller has made, one for each shard that it asks."""
        self.requests[line] = requests

    def moves_to(self, line: "WaitingLine", rank: "Rank") -> None:
        """Note the rank in what the caller has entered: when others leave unserved, all behind them have lower ones,
        and the next caller must not pass it by that.
        """
        for request in self.requests.get(line, ()) if self.awake else ():
            if request.turn:
                request.turn = rank

    @property
    def is_blocked(self) -> bool:
        """Whether a request that the caller has entered was refused with another one, before it in the line."""
        return any(request.blocked for requests in self.requests.values() for request in requests)

    @property
    def is_refused(self) -> bool:
        """Whether a bucket has refused what the caller has entered last."""
        outcomes = [request.outcome for requests in self.requests.values() for request in requests]
        return any(outcome is not None and outcome.verdict == "refused" for outcome in outcomes)

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

    def waits_for(self, other: "Turn") -> bool:
        """Return whether it lets another one go first, or one that does so, and so on."""
        seen, found = {self}, [self]
        for turn in found:
            if other in turn.behind:
                return True
            found += [each for each in turn.behind if each not in seen]
            seen.update(turn.behind)
        return False

    def is_served(self, line: "WaitingLine") -> bool:
        """Return whether the amounts are taken from the bucket of a line."""
        requests = self.requests.get(line)
        return requests is not None and all(request.admitted for request in requests)


class Blocker(NamedTuple):
    """A caller that has to be served first: when to look at it again; its distance."""

    turn: Turn
    due_ms: int
    distance: int


Rank = tuple[int, int]  # when it is done, in the virtual time of the line; the number of its arrival


class _Place(NamedTuple):
    """One turn of a sorted line; ``sums`` has the amounts of all up to it."""

    rank: Rank
    turn: Turn
    amounts: Mapping[str, int]
    sums: Mapping[str, int]


class WaitingLine:
    """The turns of those that wait, with their amounts in millitokens by limit.

    Threads may share it. A forked child begins with an empty line.

    ``seed``: of the moments at which a crowd acquires, so that those of two processes do not coincide.
    ``asked``: what those that are awake ask of each shard, where the bucket has several, also before they are in line.
    """

    __slots__ = (
        "_fair",
        "_generation",
        "_in_order",
        "_is_sorted",
        "_ranks",
        "_sorted_ms",
        "_waiting",
        "asked",
        "seed",
    )

    def __init__(self) -> None:
        self.seed = 0
        self._begin()

    def _begin(self) -> None:
        self._generation = forks.generation
        self._waiting: dict[Turn, Waiting] = {}
        self._ranks: dict[Turn, Rank] = {}
        self._fair = FairOrder()
        self.asked: dict[Turn, Mapping[int, Mapping[str, int]]] = {}
        self._in_order: list[_Place] = []
        self._is_sorted = True
        self._sorted_ms = 0

    def _leave_parent(self) -> None:
        """Begin anew in a forked child, where none of the callers waits."""
        if self._generation != forks.generation:
            self._begin()

    def __len__(self) -> int:
        return len(self._waiting) if self._generation == forks.generation else 0

    @property
    def is_crowded(self) -> bool:
        """Whether others wait, or ask several shards."""
        self._leave_parent()
        return bool(self._waiting or self.asked)

    def __contains__(self, turn: Turn) -> bool:
        return turn in self._waiting and self._generation == forks.generation

    def join(
        self, turn: Turn, amounts: Mapping[str, int], way: Way = (OWN,), prices: Mapping[str, int] = NOTHING
    ) -> None:
        """Wait for these amounts; keep a place that exists already. ``prices``: what a token of each limit counts for
        between children.
        """
        self._leave_parent()
        if turn in self._waiting:
            return
        cost = max((amount * prices.get(name, 1) for name, amount in amounts.items()), default=1)
        waiting = Waiting(turn.number, turn, amounts, way, max(1, cost))
        self._waiting[turn] = waiting
        rank = self._ranks[turn] = self._fair.enter(way, waiting.cost), turn.number
        self._is_sorted = False
        last = self._in_order[-1] if self._in_order else None
        if last is None or last.rank < rank:  # any other one has its place by the next sort
            self._in_order.append(_behind(last, rank, waiting))

    def leave(self, turn: Turn) -> None:
        """End the wait; charge who was served to its child."""
        waiting = self._waiting.pop(turn, None)
        self._ranks.pop(turn, None)
        if waiting is None:
            return
        self._is_sorted = False
        if not self._waiting:
            self._fair, self._in_order = FairOrder(), []
        elif turn.is_served(self):
            self._fair.took(waiting.way, waiting.cost)

    def order_of(self, turn: Turn) -> Rank:
        """Return the rank in a write: those that are not in line come before all others, in order of arrival."""
        return self._ranks.get(turn, (0, turn.number))

    def moment(self, due_ms: int, length_ms: int) -> int:
        """Return the first common moment of the crowd, within ``length_ms`` from ``due_ms`` on.

        Where it lies within that length changes each time: no process is always the first behind another one.
        """
        return due_ms + (_mixed(self.seed << 32 ^ due_ms // length_ms) - due_ms) % length_ms

    @property
    def look_ms(self) -> int:
        """The longest sleep without a look at the line: a thousand looks a second at most."""
        return min(max(LOOKS_AGAIN_MS, len(self)), LONGEST_LOOK_MS)

    def is_first(self, turn: Turn, now_ms: int) -> bool:
        """Return whether this turn is the first."""
        return next(self._before(turn, now_ms), None) is None

    def blocker(self, turn: Turn, now_ms: int) -> Blocker | None:
        """Return the first caller before this one that is neither served nor waits for the same write; ``None`` if
        there is none.

        A caller that oversleeps blocks no one: its process is too busy, and a crowd must not wait for it one by one.
        """
        for each in self._before(turn, now_ms):
            blocks = not each.lets_pass(self) if each.awake else now_ms - each.due_ms <= OVERDUE_MS
            if blocks and not (turn.number < each.number and each.waits_for(turn)):
                places = self._in_order
                own, other = (bisect_left(places, self._rank(one), key=_rank_of) for one in (turn, each))
                due_ms = now_ms + (now_ms - each.due_ms) // EIGHTH if each.awake else each.due_ms
                return Blocker(each, due_ms, max(1, own - other))
        return None

    def sleeping(self, now_ms: int, *, most: int) -> list[Turn]:
        """Return the first ``most`` callers that sleep: what they wait for is there earlier than it was due."""
        turns = (place.turn for place in self._places(now_ms) if place.turn in self._waiting)
        return list(islice((turn for turn in turns if not turn.awake), most))

    def up_to(self, turn: Turn, now_ms: int) -> dict[str, int]:
        """Return the amounts of this caller and of all before it that are not served. The last seen state has the
        others.
        """
        places = self._places(now_ms)
        rank, own = self._rank(turn), self._waiting.get(turn)
        behind = bisect_right(places, rank, key=_rank_of)
        sums = dict(places[behind - 1].sums) if behind else {}
        if own is not None and not (behind and places[behind - 1].turn is turn):  # it has no place yet
            for name, amount in own.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        for place in places:
            has_left = place.turn not in self._waiting
            if place.rank > rank or not (has_left or place.turn.awake):
                break  # the next sort removes what has left behind a sleeping caller
            if has_left or place.turn.is_served(self):
                for name, amount in place.amounts.items():
                    sums[name] -= amount
        return sums

    def _before(self, turn: Turn, now_ms: int) -> Iterator[Turn]:
        """Yield the turns before this one; if it has no place here yet, those that came before it."""
        places, rank = self._places(now_ms), self._ranks.get(turn)
        for place in places:
            if rank is not None and place.rank >= rank:
                return
            if place.turn in self._waiting and (rank is not None or place.turn.number < turn.number):
                yield place.turn

    def _rank(self, turn: Turn) -> Rank:
        """Return the rank of a turn; one that is not in line counts as the next."""
        rank = self._ranks.get(turn)
        return (self._fair.clock, turn.number) if rank is None else rank

    def _places(self, now_ms: int) -> list[_Place]:
        """Return the turns in order, without callers that are gone. Sort a long line again only some time after
        somebody left.
        """
        self._leave_parent()
        age_ms, is_due = now_ms - self._sorted_ms, not self._is_sorted
        if (is_due and age_ms >= len(self._in_order) ** 2 // A_SORT) or not 0 <= age_ms < LOOKS_AGAIN_MS:
            for turn in [each for each in list(self._waiting) if now_ms - each.due_ms > GONE_MS]:
                self._waiting.pop(turn, None)
            in_order: list[_Place] = []
            for done, number, waiting in self._fair.of(self._waiting.copy().values()):
                in_order.append(_behind(in_order[-1] if in_order else None, (done, number), waiting))
            for place in in_order:
                self._ranks[place.turn] = place.rank
                place.turn.moves_to(self, place.rank)
            for turn in [turn for turn in list(self._ranks) if turn not in self._waiting]:  # by another thread
                self._ranks.pop(turn, None)
            self._in_order, self._is_sorted, self._sorted_ms = in_order, True, now_ms
        return self._in_order


def _behind(last: _Place | None, rank: Rank, waiting: Waiting) -> _Place:
    before, amounts = {} if last is None else last.sums, waiting.amounts
    sums = {name: before.get(name, 0) + amounts.get(name, 0) for name in {**before, **amounts}}
    return _Place(rank, waiting.turn, amounts, sums)


def _rank_of(place: _Place) -> Rank:
    return place.rank


def _mixed(number: int) -> int:
    """Return a number in which each bit depends on all of this one's."""
    for bits, times in MIX:
        number = ((number ^ number >> bits) * times) & WORD
    return number ^ number >> 31
