"""The invariant where tokens are prefetched, over every interval of one limit; and the usage when all is at rest.

Why. A token is admitted at most ``prefetch`` (``L``) after it left the table. What is left of a reservation comes back
less what was minted since, so the table, and what may come back to it, never have more than the ceiling. So in every
interval ``[a, b]``: admitted(a, b) - given back by leases in (a - L, b] <= lowered ceiling + minted(a - L, b), and that
is at most the declared burst + minted(a, b). A quota that is changed gives or takes what it was changed by: that counts
as minted, too.

Never: what a process has (reservations), one write (oracle).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from .application import NOTHING_DRAWN, Application
from .kernel import Violation
from .ledger import fastest
from .reservations import Served


class Event(NamedTuple):
    """What was admitted, and what leases gave back, at one instant, behind so many writes.

    ``checked``: the part of it that had to be there; ``owed``: the debts of shards, which are taken and not there yet.
    """

    at_ms: int
    behind: float
    admitted: int
    returned: int
    checked: int
    owed: int


class Bound(NamedTuple):
    """How a limit is prefetched: for ``life_ms``; its declared ``burst``, if it was one, and what clocks allow."""

    life_ms: int
    burst: int | None
    allowance_ms: int


def check_interval(name: str, writes: Sequence[Application], served: Iterable[Served], bound: Bound) -> None:
    """Judge one limit of a bucket by the instants of its admissions. Raises ``Violation``."""
    minted = _Minted(name, writes, bound)
    events = [_of_write(name, place, write) for place, write in enumerate(writes)]
    instants = [write.instant for write in writes]
    events += [
        _of_served(name, bisect_right(instants, each.instant - 1), each, writes)
        for each in served
        if name in each.amounts
    ]
    events.sort(key=lambda event: event.behind)
    at = [event.at_ms for event in events]
    returned = [0, *accumulate(event.returned for event in events)]
    slack_ms, admitted = bound.allowance_ms, 0
    lowered: Fraction | None = None
    declared: Fraction | None = None
    for number, event in enumerate(events):
        if event.admitted:
            begin_ms = event.at_ms - bound.life_ms
            before = admitted - returned[bisect_right(at, begin_ms - slack_ms - 1)]
            most = before - minted.until(begin_ms) - minted.least_gained(begin_ms)
            most += minted.ceiling(begin_ms, event.at_ms)
            lowered = most if lowered is None else min(lowered, most)
            if bound.burst is not None:
                most = before - minted.until(event.at_ms) - minted.gained(event) + bound.burst
                declared = most if declared is None else min(declared, most)
        if event.checked:
            taken = admitted + event.checked - returned[number + 1] - event.owed
            net = taken - minted.until(event.at_ms) - minted.gained(event)
            for what, bound_of_all in (("the lowered ceiling", lowered), ("the declared burst", declared)):
                over = 0 if bound_of_all is None else net - bound_of_all - slack_ms * minted.fastest
                if over >= 1:
                    raise Violation(f"{float(over):.0f} millitokens of {name} more than {what} allows were admitted")
        admitted += event.admitted


def _of_write(name: str, place: int, write: Application) -> Event:
    """A write whose sender had no answer admitted nobody; what it gave back may be taken again."""
    change, drawn = write.changes[name], write.drawn or NOTHING_DRAWN
    owed = change.owed
    if not write.confirmed:
        net = change.net - drawn.taken.get(name, 0) + drawn.back.get(name, 0) + drawn.paid.get(name, 0)
        return Event(write.applied_ms, place + 0.5, 0, max(0, -net), 0, owed)
    checked = write.checked.get(name, 0)
    admitted = checked + write.unchecked.get(name, 0)
    return Event(write.applied_ms, place + 0.5, admitted, write.given.get(name, 0), checked, owed)


def _of_served(name: str, behind: int, served: Served, writes: Sequence[Application]) -> Event:
    amount = served.amounts[name]
    last = {write.pk: write.changes[name].state for write in writes[:behind]}
    owed = sum(max(0, -state.known_balance(served.at_ms)) for state in last.values())
    taken = max(0, amount)
    return Event(served.at_ms, behind, taken, max(0, -amount), taken, owed)


class _Minted:
    """What is minted of a limit from its first write on, by the fastest rule that may be in force."""

    def __init__(self, name: str, writes: Sequence[Application], bound: Bound) -> None:
        rules = list(fastest(writes, name, bound.allowance_ms + bound.life_ms, most=True))
        self.fastest = max(rule.rate() for rule in rules)
        self._at = [write.applied_ms for write in writes]
        self._rates = [rule.rate() for rule in rules]
        self._sums: list[Fraction] = []
        self._ceilings = [write.changes[name].whole for write in writes]
        self._gained = [0, *accumulate(write.changes[name].gained for write in writes)]
        self._allowance_ms = bound.allowance_ms
        total, before = Fraction(0), None
        for place, write in enumerate(writes):
            change = write.changes[name]
            if place:
                total += self._rates[place - 1] * (self._at[place] - self._at[place - 1])
            if before is not None:
                total += max(0, change.whole - before.whole) if change.new else 0
                total += change.new or before.state.rule != change.state.rule
            total += write.drawn is not None and name in write.drawn.back  # rounded once more
            self._sums.append(total)
            before = change

    def until(self, at_ms: int) -> Fraction:
        """What was minted until then."""
        place = bisect_right(self._at, at_ms) - 1
        return Fraction(0) if place < 0 else self._sums[place] + self._rates[place] * (at_ms - self._at[place])

    def gained(self, event: Event) -> int:
        """What changes of quotas have given by then, less what they took."""
        return self._gained[int(event.behind + 0.5)]

    def least_gained(self, at_ms: int) -> int:
        """The least that they may have given by an instant, as clocks allow."""
        first = bisect_right(self._at, at_ms - self._allowance_ms - 1)
        return min(self._gained[first : bisect_right(self._at, at_ms) + 1])

    def ceiling(self, from_ms: int, to_ms: int) -> int:
        """The highest ceiling in that time."""
        first = max(0, bisect_right(self._at, from_ms - self._allowance_ms - 1) - 1)
        return max(self._ceilings[first : max(first + 1, bisect_right(self._at, to_ms))])


def check_usage(writes: Sequence[Application], served: Sequence[Served], acquires: int) -> None:
    """Judge what a bucket has counted when all is at rest, where every answer came. Raises ``Violation``.

    The bucket counts what its writes served, and what was served between them; as many ``acquires`` as there were.
    """
    names = {name for write in writes for name in write.changes}
    for name in names:
        counted = due = 0
        for write in writes:
            if name in write.changes:
                counted += write.changes[name].net + write.changes[name].counted
                due += write.checked.get(name, 0) + write.unchecked.get(name, 0) - write.given.get(name, 0)
                due += write.counted.get(name, 0)
        due += sum(each.amounts.get(name, 0) + each.counted.get(name, 0) for each in served)
        if counted != due:
            raise Violation(f"{writes[0].bucket} counts {counted} millitokens of {name}, and {due} were admitted")
    events = sum(write.events for write in writes) + sum(each.events for each in served)
    if acquires != events:
        raise Violation(f"{writes[0].bucket} counts {acquires} acquires, and {events} were admitted")


def check_beside(
    writes: Sequence[Application], served: Sequence[Served], consumed: Mapping[tuple[str, str], int]
) -> None:
    """Judge the counts of names that the bucket never limited, in the same way."""
    counts = [each.counted for each in writes] + [each.counted for each in served]
    for name in {name for each in counts for name in each}.difference(*(write.changes for write in writes)):
        due = sum(each.get(name, 0) for each in counts)
        if (counted := consumed[writes[0].bucket, f"b_{name}_tc"]) != due:
            raise Violation(f"{writes[0].bucket} counts {counted} millitokens of {name} beside its limits, not {due}")
