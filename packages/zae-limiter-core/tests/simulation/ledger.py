"""The invariant, over every interval of the writes of one limit.

Lives here: net admitted <= ceiling + minted, kept as one sweep. Never: how a write is made or read (oracle).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, pairwise

from .application import Application
from .bucket_items import Rule
from .kernel import Violation

FAR_FUTURE_MS = 60_000


class Ledger:
    """The writes of one limit, in the order in which they took effect.

    For all ``i <= j``: what the writes from ``i`` to ``j`` took is at most the ceiling at ``i``, plus what was minted
    between their instants, plus ``allowance_ms`` once. With ``taken`` and ``minted`` counted from the start, that is
    ``taken_j - minted_j <= min over i of (taken_before_i - minted_i + ceiling_i)``.

    Of a bucket of several shards, what is ``owed`` by shards in debt is not taken yet: it blocks no other shard.
    """

    def __init__(self, allowance_ms: int, rules: Iterable[Rule] = ()) -> None:
        """``rules``: all that the limit has had, of which some are not the fastest at any time."""
        self._allowance_ms = allowance_ms
        self._had = {*rules}
        self._rule: Rule | None = None
        self._anchor_ms: int | None = None
        self._moved_ms, self._since_moved = 0, Fraction(0)
        self._rules: set[Rule] = set()
        self._latest_ms = self._behind_ms = 0
        self._at_ms = 0
        self._taken = 0
        self._minted = Fraction(0)
        self._marks: list[tuple[int, Fraction, Rule]] = []
        self._most: Fraction | None = None

    def allow(self, more_ms: int) -> None:
        """Somebody whose clock is behind has begun anew with what was there: others mint the difference once more."""
        self._allowance_ms += more_ms

    def enter(
        self,
        at_ms: int,
        rule: Rule,
        *,
        net: int,
        wanted: int | None,
        new: bool,
        owed: int = 0,
        beside: int = 0,
        ruled: Rule | None = None,
        anchor_ms: int | None = None,
    ) -> None:
        """A write that took ``net``; ``wanted`` of it only if it was there, or ``beside``. Raises ``Violation``.

        ``ruled``: by which rule the time before counted, if it was not that of the write before. ``anchor_ms``: of the
        bucket that it left, whose values hold before that, too, whatever the schedule says.
        """
        self._latest_ms = max(self._latest_ms, at_ms)
        self._behind_ms = max(self._behind_ms, self._latest_ms - at_ms)
        moves = anchor_ms != self._anchor_ms
        self._mint(at_ms, rule, ruled, new=new, moves=moves)
        if moves:
            self._anchor_ms, self._moved_ms, self._since_moved = anchor_ms, self._at_ms, Fraction(0)
        bound = self._taken - owed - self._minted
        if net > 0:
            most = bound + rule.ceiling
            self._most = most if self._most is None else min(self._most, most)
        if wanted is not None and self._most is not None:
            over = bound + wanted - self._most - self._slack() - beside
            # Two floors differ by less than a millitoken. Slow limits are exact, except that a relative write keeps the
            # part of a millitoken above the ceiling: a write that it overtook may still take that.
            exact = all(each.is_slow for each in self._rules)
            if over > min(Fraction(1), rule.most_within(self._behind_ms)) if exact else over >= 1:
                much = float(over) if over < 1 else round(over)
                raise Violation(f"{much} millitokens more than the ceiling and what was minted were admitted")
        self._taken += net

    def give(self, amount: int) -> None:
        """A write that only gave back: it counts at no time, and what is minted until then the next one says."""
        self._taken -= amount

    def _mint(self, at_ms: int, rule: Rule, ruled: Rule | None, *, new: bool, moves: bool) -> None:
        """Up to here the rule before was in force; the floors of a change of rule, or a start, are worth a millitoken.
        A write that moves the anchor counts all time since the anchor, whatever others counted in it that left it.

        A bucket that expired, or a limit that left it, full, under a lower ceiling starts full under the higher one: no
        promise forbids it. Where an anchor far in the future is brought back, the time until it was never there.
        """
        if self._at_ms - at_ms > FAR_FUTURE_MS:
            self._marks = [mark for mark in self._marks if mark[0] <= at_ms] or self._marks[:1]
            self._at_ms, self._minted, self._rule = self._marks[-1]
        goes_back = self._rule is not None and at_ms < self._at_ms  # of a write on its way, decided before the others
        before = (None if goes_back else ruled) or self._rule or rule
        self._rules |= {before, rule}  # one that was fast has left no part of a millitoken
        passed = self._between(before, self._at_ms, at_ms) if self._rule else Fraction(0)
        if self._rule and moves and not goes_back:
            passed += max(Fraction(0), self._between(before, self._moved_ms, self._at_ms) - self._since_moved)
        self._since_moved += passed
        self._minted += passed
        self._minted += 1 if (new or before != rule) and not (before.is_slow and rule.is_slow) else 0
        self._minted += max(0, rule.ceiling - before.ceiling) if new else 0
        self._at_ms, self._rule = at_ms, rule
        self._marks.append((at_ms, self._minted, rule))

    def _between(self, rule: Rule, since_ms: int, at_ms: int) -> Fraction:
        if self._anchor_ms is None or not rule.times:
            return rule.minted(since_ms, at_ms)
        return self._since_anchor(rule, at_ms) - self._since_anchor(rule, since_ms)

    def _since_anchor(self, rule: Rule, at_ms: int) -> Fraction:
        assert self._anchor_ms is not None, "only then it counts"
        rule = rule._replace(times=()) if at_ms < self._anchor_ms else rule
        return rule.minted(self._anchor_ms, at_ms)

    def _slack(self) -> Fraction:
        return max(rule.most_within(self._allowance_ms) for rule in self._rules | self._had)


def fastest(writes: Sequence[Application], name: str, allowance_ms: int, *, most: bool = False) -> Iterator[Rule]:
    """The fastest rule of a limit on any shard from each write until the next one, as clocks and delays may see it.

    ``most``: of a schedule counts the most that it ever has, not what it has between the two.
    """
    held: dict[str, tuple[Rule, ...]] = {}
    held_from: list[tuple[Rule, ...]] = []
    for write, counted in zip(writes, _counted(writes, name), strict=True):
        held[write.pk] = counted
        held_from.append(tuple({*chain.from_iterable(held.values())}))
    at = [write.applied_ms for write in writes]
    own = [write.changes[name].state.rule for write in writes]
    begun = dict[int, int]()  # a window begins with a write, by whose clock its begin is noted
    for write, rule in zip(writes, own, strict=True):
        begun.setdefault(rule.begin_ms, min(rule.begin_ms, write.applied_ms))
    kinds = {rule.window_ms for rules in held_from for rule in rules}  # a rate is for the window
    if not most and (len(kinds) > 1 or any(rule.times for rules in held_from for rule in rules)):
        several = len({write.pk for write in writes}) > 1
        found = _fastest_between(held_from, own, at, allowance_ms, several=several)
    else:
        found = _fastest_ever(held_from, own, at, allowance_ms)
    return (rule._replace(begin_ms=begun.get(rule.begin_ms, rule.begin_ms)) for rule in found)


def _counted(writes: Sequence[Application], name: str) -> list[tuple[Rule, ...]]:
    """The rules by which the time behind each write counts: the next write of its shard tells, and the next one that
    moves the anchor, which counts it anew.
    """
    found: list[tuple[Rule, ...]] = []
    following, moving = dict[str, Rule](), dict[str, Rule]()
    for write in reversed(writes):
        change, pk = write.changes[name], write.pk
        counted = following.pop(pk, change.state.rule)
        found.append((counted, moving.get(pk, counted)))
        if write.moved:
            moving.pop(pk, None)
        if change.ruled is not None:
            following[pk] = change.ruled.rule
            if write.moved:
                moving[pk] = change.ruled.rule
    return found[::-1]


def _fastest_ever(
    held: Sequence[Sequence[Rule]], own: Sequence[Rule], at: Sequence[int], allowance_ms: int
) -> Iterator[Rule]:
    rules = [max(each, key=Rule.rate) for each in held]
    by_rate = sorted({*rules}, key=Rule.rate)
    ranks = [by_rate.index(rule) for rule in rules]
    for rule, (begin_ms, end_ms) in zip(own, pairwise([*at, at[-1]]), strict=True):
        first = max(0, bisect_left(at, begin_ms - allowance_ms) - 1)
        found = by_rate[max(ranks[first : bisect_right(at, end_ms + allowance_ms)])]
        yield found._replace(begin_ms=rule.begin_ms)  # its windows are those that the write knows


def _fastest_between(
    held: Sequence[Sequence[Rule]], own: Sequence[Rule], at: Sequence[int], allowance_ms: int, *, several: bool
) -> Iterator[Rule]:
    """Of ``several`` shards each has windows of its own, if their limit has become one of the first use."""
    for rule, (begin_ms, end_ms) in zip(own, pairwise([*at, at[-1]]), strict=True):
        first = max(0, bisect_left(at, begin_ms - allowance_ms) - 1)
        around = {each for rules in held[first : bisect_right(at, end_ms + allowance_ms)] for each in rules}
        found = max(around, key=lambda each: (each.minted(begin_ms, end_ms), each.rate()))
        yield found if several else found._replace(begin_ms=rule.begin_ms)
