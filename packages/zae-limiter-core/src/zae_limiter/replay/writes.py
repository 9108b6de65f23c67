"""Decide the calls of a bucket again, write by write, by other limits.

The problem: the stream of the table has one record for each write of a bucket: what it took of each limit, how many
calls it admitted, how many were refused since the write before. It has neither the single calls of a write that served
several, nor the amounts of the refused ones, nor who held a lease. The choice: each bucket is decided alone, because
its records have all that was asked of it, by its own entity and by those below. The calls of a write are of one size.
Those refused since the write before are of the size of the last admitted ones, and come right behind that write, when
the bucket had least: so the limits of then refuse them again. What leases put back or take at their end counts in the
proportion in which the last calls were admitted.

What a bucket had before its first write is unknown: it is decided from a full one and from an empty one, until both
have come to the same balance. docs/decisions/replay.md has what all this leaves out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..runtime.named_tuple import NamedTuple
from ..values.limits import Limit
from .balances import Balance, balance_of

DISABLED: Final = "(disabled)"
"""The name in place of a limit's, of a switch that refuses every call; no limit has such a name."""

ANY: Final = ""
"""The name in place of a limit's, for the calls that any limit refuses."""

LATELY: Final = 64
"""After so many calls, older ones count half in the proportion that corrections go by."""

COMPARE_EVERY: Final = 8
"""The number of writes after which a full and an empty begin are compared."""

Charged = Sequence[tuple[Balance, int]]
"""The limits of a bucket that are asked, each with the place of its amount."""

Size = tuple[tuple[str, ...], Sequence[int], int]
"""Names of limits, and what so many calls took of them."""


class BucketLimits(NamedTuple):
    """The limits that hold for one bucket. ``disabled``: every call is refused; ``bypass``: no limit refuses."""

    entity_id: str
    resource: str
    limits: tuple[Limit, ...]
    disabled: bool = False
    bypass: bool = False


class Judged(NamedTuple):
    """How many of the ``calls`` were refused ``before``, and would be, ``least`` and ``most``; ``limits`` has the last
    two for each limit, also for shadow limits, which refuse no call.
    """

    calls: int
    before: int
    least: int
    most: int
    limits: Mapping[str, tuple[int, int]]


class Decider:
    """Decides single calls on one bucket, as a limiter with these limits does; slots are left out.

    ``counted`` has the calls that each limit refuses, and those that ``ANY`` does.
    """

    __slots__ = (
        "_asked",
        "_begins_empty",
        "_by_names",
        "_charged",
        "_is_open",
        "_names",
        "_refused",
        "balances",
        "counted",
    )

    def __init__(self, found: BucketLimits, *, empty: bool = False) -> None:
        self.counted: Counter[str] = Counter()
        self.balances = {
            limit.name: balance_of(limit, shadow=found.bypass) for limit in found.limits if not limit._has_slots
        }
        self._by_names: dict[tuple[str, ...], Charged] = {}
        self._names: tuple[str, ...] | None = None  # the last ones, with what they charge
        self._charged: Charged = ()
        self._begins_empty, self._is_open = empty, False
        self._asked = self._refused = 0

    def begin(self) -> None:
        """Begin again, as a bucket that is not there yet."""
        self._begins_empty = self._is_open = False

    def charged(self, names: tuple[str, ...]) -> Charged:
        """Return the limits with these names, as far as the bucket has them."""
        if names is self._names:
            return self._charged
        found = self._by_names.get(names)
        if found is None:
            known = ((self.balances.get(name), place) for place, name in enumerate(names))
            found = self._by_names[names] = [(balance, place) for balance, place in known if balance is not None]
        self._names, self._charged = names, found
        return found

    def call(self, at_ms: int, charged: Charged, costs: Sequence[int]) -> Sequence[Balance]:
        """Decide a call for millitokens of each limit of ``charged``, and return the limits that are short.

        The instant is not before those of earlier calls. Nothing of a limit is not a call for it; what is below 0 came
        back beside the call, from leases, and comes back.
        """
        if not self._is_open:
            self._open(at_ms)
        fits = True
        for balance, place in charged:
            if 0 < costs[place] > balance.look(at_ms):
                fits = False
        if not fits:
            return self._short(at_ms, charged, costs)
        self._is_open = True
        for balance, place in charged:
            if (cost := costs[place]) > 0:
                balance.take(at_ms, cost)
            elif cost:
                self._correct(balance, at_ms, cost)
        return ()

    def _short(self, at_ms: int, charged: Charged, costs: Sequence[int]) -> Sequence[Balance]:
        """Return the limits that are short. If only shadow limits are, take from the others."""
        short = [balance for balance, place in charged if costs[place] > 0 and costs[place] > balance.free]
        is_admitted = all(balance.shadow for balance in short)
        self._is_open = self._is_open or is_admitted
        for balance, place in charged:
            if costs[place] < 0:
                self._correct(balance, at_ms, costs[place])
            elif costs[place] and is_admitted and balance not in short:
                balance.take(at_ms, costs[place])
        return short

    def again(self, at_ms: int, charged: Charged, costs: Sequence[int], *, counts: bool) -> None:
        """Decide a call that was refused then, and if it ``counts`` count the limits that are short."""
        if short := self.call(at_ms, charged, costs):
            self._count(short, counts=counts)

    def _count(self, short: Sequence[Balance], *, counts: bool) -> bool:
        """Return whether a call is admitted for which these limits are short."""
        is_admitted = all(balance.shadow for balance in short)
        if counts:
            for balance in short:
                self.counted[balance.name] += 1
            self.counted[ANY] += not is_admitted
        return is_admitted

    def admitted(self, at_ms: int, charged: Charged, amounts: Sequence[int], number: int, *, counts: bool) -> None:
        """Decide calls that were admitted then, of one size."""
        for place in range(number):
            costs = [each * (place + 1) // number - each * place // number for each in amounts]
            self.admitted_one(at_ms, charged, costs, counts=counts)

    def admitted_one(self, at_ms: int, charged: Charged, amounts: Sequence[int], *, counts: bool) -> None:
        """Decide a call that was admitted then."""
        short = self.call(at_ms, charged, amounts)
        if short and not self._count(short, counts=counts):
            self._refused += 1
        self._asked += 1
        if self._asked > LATELY:
            self._asked, self._refused = self._asked // 2, self._refused // 2

    def correct(self, at_ms: int, charged: Charged, changes: Sequence[int]) -> None:
        """Take what leases took or gave back beside their calls, in the proportion of the calls that are admitted."""
        if not self._is_open:
            self._open(at_ms)
            self._is_open = True
        for balance, place in charged:
            if changes[place]:
                self._correct(balance, at_ms, changes[place])

    def _correct(self, balance: Balance, at_ms: int, change: int) -> None:
        part = change * (self._asked - self._refused) // self._asked if self._refused else change
        balance.correct(at_ms, part)

    def state(self) -> list[tuple[int | None, ...]]:
        """Return what decides of the calls to come."""
        return [(self._is_open, *balance.state()) for balance in self.balances.values()]

    def _open(self, at_ms: int) -> None:
        for balance in self.balances.values():
            balance.open(at_ms)
            if self._begins_empty:
                balance.look(at_ms)
                balance.take(at_ms, balance.ceiling)
        self._is_open = self._begins_empty


class BucketReplay:
    """Decides the writes of one bucket, in the order of time, and counts those from ``since_ms`` on."""

    __slots__ = (
        "_at_ms", "_before", "_calls", "_deciders", "_disabled", "_gap", "_is_settled", "_since_ms", "_size",
        "_unknown", "_writes",
    )  # fmt: skip

    def __init__(self, found: BucketLimits, since_ms: int) -> None:
        self._deciders = [Decider(found), Decider(found, empty=True)]
        self._is_settled = False  # there is one decider, which decides
        self._gap: Counter[str] = Counter()  # what the second has counted more than the first, while there were two
        self._since_ms, self._disabled = since_ms, found.disabled
        self._calls = self._before = self._unknown = self._writes = 0
        self._at_ms = 0  # of the last write
        self._size: Size | None = None  # of the last calls that were admitted

    def write(self, at_ms: int, names: tuple[str, ...], write: Sequence[Any]) -> None:
        """Decide the calls of a ``TracedWrite`` at an instant, which is not before that of the last one; its amounts
        are of the limits ``names``.
        """
        admitted, amounts = write[3], write[7]
        counts = at_ms >= self._since_ms
        if admitted == 1 and self._is_settled and not (write[4] or write[6]):  # nearly all of them
            self._calls += counts
            self._at_ms, self._size = at_ms, (names, amounts, 1)
            decider = self._deciders[0]
            decider.admitted_one(at_ms, decider.charged(names), amounts, counts=counts)
            return
        own = write[4] - write[5]
        if counts:
            self._calls += admitted + own
            self._before += own
        if self._disabled:
            return
        self._decide(at_ms, names, write, own, counts=counts)

    def _decide(self, at_ms: int, names: tuple[str, ...], write: Sequence[Any], own: int, *, counts: bool) -> None:
        """Decide the calls of a write, ``own`` of which were refused, and what leases took or gave back."""
        admitted, is_new, amounts = write[3], write[6], write[7]
        size = (names, amounts, admitted) if admitted else self._size
        if is_new:
            self._deciders[0].begin()
            self._go_on_with_one()
        elif own and self._at_ms:
            self._refused(self._at_ms, own, self._size or size, counts=counts)
            own = 0
        for each in self._deciders:
            if admitted:
                each.admitted(at_ms, each.charged(names), amounts, admitted, counts=counts)
            else:
                each.correct(at_ms, each.charged(names), amounts)
        if own:
            self._refused(at_ms, own, size, counts=counts)
        self._at_ms, self._size = at_ms, size
        if len(self._deciders) > 1:
            self._writes += 1
            if not self._writes % COMPARE_EVERY:
                full, empty = self._deciders
                if full.state() == empty.state():
                    self._go_on_with_one()

    def judged(self) -> Judged:
        """Return what was found."""
        if self._disabled:
            every = (self._calls, self._calls)
            return Judged(self._calls, self._before, *every, {DISABLED: every})
        self._go_on_with_one()
        (decider,) = self._deciders
        found = {}
        for name in (ANY, *decider.balances):
            least, most = sorted((decider.counted[name], decider.counted[name] + self._gap[name]))
            found[name] = (least, most + self._unknown)
        return Judged(self._calls, self._before, *found.pop(ANY), found)

    def _refused(self, at_ms: int, number: int, size: Size | None, *, counts: bool) -> None:
        """Decide calls that were refused then; of what size is unknown before the first one that was admitted."""
        if size is None:
            self._unknown += number if counts else 0
            return
        names, amounts, calls = size
        costs = [max(0, each // calls) for each in amounts]
        for each in self._deciders:
            charged = each.charged(names)
            for _ in range(number):
                each.again(at_ms, charged, costs, counts=counts)

    def _go_on_with_one(self) -> None:
        if len(self._deciders) > 1:
            full, empty = self._deciders
            self._gap = Counter({name: empty.counted[name] - full.counted[name] for name in (ANY, *full.balances)})
            self._deciders, self._is_settled = [full], not self._disabled
