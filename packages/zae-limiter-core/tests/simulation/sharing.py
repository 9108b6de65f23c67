"""What processes let through by their shares while the table is away, as the oracle keeps it.

Why the bound holds: docs/design/admission.md ("Shares"). The oracle has the admissions as their callers saw them, and
the part that each process may have at most: its part of what all of them consumed in the window that every process
goes by, which is the last but one before the table is lost.

Lives here: admissions without the table, what is paid for them, and the bound over every interval. Never: what is in a
bucket (oracle), what the limiter itself knows of its shares.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple
from unittest.mock import patch

from zae_limiter.flows.acquire.outage import Owed
from zae_limiter.flows.bucket_queue import BucketRequest, RunQueue
from zae_limiter.operations.errors import NotApplied, StoreError

from .application import Application
from .bucket_items import LimitState, Rule
from .kernel import Violation
from .ledger import Ledger
from .oracle import Oracle
from .plan import Plan
from .reservations import Served

WINDOW_MS: Final = 30_000
MARGIN_MS: Final = 1_000
TIMELY_MS: Final = 1_000  # what a write takes at most, for a process to see it in its window

Amounts = Mapping[str, int]


class Outage(NamedTuple):
    """The table is away in ``[from_ms, until_ms)``: for all processes if it is ``whole``, else for some."""

    from_ms: int
    until_ms: int
    whole: bool


class ByShare(NamedTuple):
    """What a process, told by its link, let through without the table when ``instant`` writes had taken effect.

    ``amounts`` by limit; negative where they came back. ``checked``: only because its share had them.
    ``asked_ms``: when its caller asked.
    """

    process: object
    bucket: str
    instant: int
    at_ms: int
    amounts: Amounts
    events: int
    checked: bool
    asked_ms: int


class Debt(NamedTuple):
    """What a process owes for its share from the end of the outage until it pays.

    What the share mints meanwhile is ``forgiven``, although others may take it from the bucket, too. A block that was
    taken before is served for its life.
    """

    since_ms: int
    until_ms: float
    most: int
    forgiven: int

    def at(self, at_ms: int) -> int:
        """What may have been admitted on top, up to an instant. The write that pays may serve others beside."""
        if at_ms < self.since_ms:
            return 0
        return self.most if at_ms <= self.until_ms else self.forgiven


class Sharing:
    """What processes let through, and what they paid; by process, bucket and limit."""

    def __init__(self) -> None:
        self.outages: list[Outage] = []
        self.admitted: list[ByShare] = []
        self.kept: list[tuple[object, str, Amounts]] = []  # corrections that an outage cut off
        self.payments: list[tuple[object, Application]] = []
        self._requests: dict[int, tuple[BucketRequest, Amounts]] = {}
        self._paid = Counter[tuple[object, str, str]]()  # the limit "" has the acquires
        self._taken = Counter[tuple[object, str, str]]()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note meanwhile which requests pay."""
        pay = Owed.pay

        def noted(owed: Owed, queue: RunQueue, now_ms: int) -> BucketRequest:
            request = pay(owed, queue, now_ms)
            self._requests[id(request)] = request, request.net
            return request

        with patch.object(Owed, "pay", noted):
            yield

    def is_payment(self, request: object) -> bool:
        """Whether a request pays for what shares let through, or for corrections that an outage cut off."""
        return id(request) in self._requests

    def paid(self, process: object, write: Application, request: BucketRequest) -> None:
        """A confirmed write paid."""
        self._count(process, write.bucket, request)
        self.payments.append((process, write))
        for amounts, sign in ((request.unchecked, 1), (request.given, -1)):
            for name, amount in amounts.items():
                write.paid[name] = write.paid.get(name, 0) + sign * amount
                self._taken[process, write.bucket, name] += max(0, sign * amount)

    def failed(self, process: object, pk: str, request: BucketRequest, error: StoreError | None) -> None:
        """A payment has no answer: it may have been made, and is not made again. Or a correction was not written: the
        process keeps it.
        """
        bucket = pk.rpartition("#")[0]
        if self.is_payment(request):
            if not isinstance(error, NotApplied):
                self._count(process, bucket, request)
        elif isinstance(error, NotApplied):
            self.kept.append((process, bucket, request.net))

    def _count(self, process: object, bucket: str, request: BucketRequest) -> None:
        _, net = self._requests[id(request)]
        self._paid.update({(process, bucket, name): amount for name, amount in net.items()})
        self._paid[process, bucket, ""] += request.counts.events

    def check_paid(self, alive: Collection[object]) -> None:
        """Judge, when all is at rest, what each process that is alive has paid. Raises ``Violation``.

        It paid for what it let through, net, and for each such acquire, once. It took no more from a bucket for it.
        """
        due, most = Counter[tuple[object, str, str]](), Counter[tuple[object, str, str]]()
        for each in self.admitted:
            most.update({(each.process, each.bucket, name): max(0, n) for name, n in each.amounts.items()})
            due.update({(each.process, each.bucket, name): amount for name, amount in each.amounts.items()})
            due[each.process, each.bucket, ""] += each.events
        for process, bucket, amounts in self.kept:
            most.update({(process, bucket, name): max(0, n) for name, n in amounts.items()})
            due.update({(process, bucket, name): amount for name, amount in amounts.items()})
        for key in due.keys() | self._paid.keys():
            process, bucket, name = key
            if self._taken[key] > most[key]:
                raise Violation(f"{self._taken[key]} of {name} taken from {bucket} for {most[key]} that a share gave")
            if process in alive and due[key] != self._paid[key]:
                what = f"{due[key]} millitokens of {name}" if name else f"{due[key]} acquires"
                raise Violation(
                    f"a process let through {what} of {bucket} by its share, and paid for {self._paid[key]}"
                )

    def given_late(self, bucket: str, name: str) -> int:
        """What comes back to a share that has ended, or to the bucket when it is paid for: later than it is noted."""
        late = [each.amounts for each in self.admitted if each.bucket == bucket and not self._is_away(each.at_ms)]
        late += [amounts for _, of, amounts in self.kept if of == bucket]
        return sum(max(0, -amounts.get(name, 0)) for amounts in late)

    def was_away(self, since_ms: int, until_ms: int) -> bool:
        """Whether the table was away for anybody at some time between."""
        return any(outage.from_ms <= until_ms and since_ms < outage.until_ms for outage in self.outages)

    def _is_away(self, at_ms: int) -> bool:
        return any(outage.from_ms <= at_ms < outage.until_ms for outage in self.outages)


def check_shares(plan: Plan, sharing: Sharing, oracle: Oracle, alive: Collection[object]) -> None:
    """Judge everything that was let through without the table. Raises ``Violation``."""
    sharing.check_paid(alive)
    if plan.network.longest_ms >= TIMELY_MS:
        return
    names = {(each.bucket, name) for each in sharing.admitted for name in each.amounts}
    for each in sharing.admitted:
        if each.checked and not sharing.was_away(each.asked_ms, each.at_ms):
            raise Violation(f"a share let {each.amounts} of {each.bucket} through, and the table was there")
    for bucket, name in sorted(names):
        _Bucket(plan, sharing, oracle, bucket, name).check()


class _Bucket:
    """One limit of a bucket whose shares processes went by."""

    def __init__(self, plan: Plan, sharing: Sharing, oracle: Oracle, bucket: str, name: str) -> None:
        self._sharing = sharing
        self._name = name
        self._skew_ms = plan.skew_ms
        self._writes = [write for write in oracle.applications if write.bucket == bucket and name in write.changes]
        self._served = [each for each in oracle.served if each.bucket == bucket and name in each.amounts]
        self._admitted = [each for each in sharing.admitted if each.bucket == bucket and name in each.amounts]
        self._allowance_ms = oracle.allowance_ms(self._writes)
        _, entity, resource = bucket.split("#")
        held = [limit for limit in oracle.levels.ever((entity, resource), name) if limit.prefetch]
        bursts = {1000 * limit.burst for limit in held}
        self._life_ms = max((round(1000 * limit.prefetch) for limit in held), default=0)
        self._rule = self._writes[-1].changes[name].state.rule
        self._ceiling = max(self._rule.ceiling, *bursts, 0)
        self._given_late = sharing.given_late(bucket, name)
        if bursts:  # what came back to a block may be served again at once, or later
            self._given_late += sum(max(0, -each.amounts[name]) for each in self._served)
            self._given_late += sum(write.given.get(name, 0) for write in self._writes)

    def check(self) -> None:
        """Raise ``Violation`` if a process, or all of them together, let through more than the bound allows."""
        unseen = Fraction(0)
        ends = [*(outage.from_ms for outage in self._sharing.outages), inf]
        for outage, (_, end_ms) in zip(self._sharing.outages, pairwise(ends), strict=True):
            let = [each for each in self._admitted if outage.from_ms <= each.at_ms < end_ms]
            for process in {each.process for each in let}:
                mine = [each for each in let if each.process is process]
                window, late_ms = self._window(outage.from_ms), max(each.at_ms for each in mine)
                self._check_process(window, window, [each for each in mine if each.at_ms < outage.until_ms])
                late = [each for each in mine if each.at_ms >= outage.until_ms]
                self._check_process(window, self._window(late_ms), late)
                unseen += self._unseen(outage, process)
        if all(outage.whole for outage in self._sharing.outages):
            self._check_all(int(unseen))

    def _window(self, lost_ms: int) -> int:
        """The window that all processes go by which lose the table at that time."""
        return (lost_ms + self._skew_ms - MARGIN_MS) // WINDOW_MS - 2

    def _check_process(self, first: int, last: int, let: Sequence[ByShare]) -> None:
        """By its share, a process lets through what a bucket of its part of the limit would.

        Its part is that of the ``first`` window. A call that fails when the table is back may go by a later one.
        """
        if not let:
            return
        part, rule = max(self._part(let[0].process, window) for window in range(first, last + 1)), self._rule
        own = Rule(1 + int(part * rule.ceiling), rule.refill * part.numerator, rule.period * part.denominator)
        ledger = Ledger(2 * self._skew_ms)
        for each in let:
            amount = each.amounts[self._name]
            wanted = amount if each.checked and amount > 0 else None
            try:
                ledger.enter(each.at_ms, own, net=amount, wanted=wanted, new=False, beside=self._given_late)
            except Violation as violation:
                raise Violation(f"by a share of at most {float(part):.3f}: {violation}") from violation

    def _part(self, process: object, window: int) -> Fraction:
        """The part that a process may have at most by a window.

        One that has not seen a bucket since it was split knows fewer shards.
        """
        shards = 1 + max(write.shard for write in self._writes)
        parts = [self._part_of_shard(process, shard, window) for shard in range(shards)]
        return max(sum(parts[:count], Fraction(0)) / count for count in (1, 2, 4, 8, 16, 32) if count <= shards)

    def _part_of_shard(self, process: object, shard: int, window: int) -> Fraction:
        near = [write for write in self._writes if write.shard == shard]
        here = [(write, self._consumed(write)) for write in near if write.decided_ms // WINDOW_MS == window]
        own = sum(net for write, net in here if write.confirmed and write.sender is process)
        gave = sum(write.given_of(self._name) for write in near if abs(write.decided_ms // WINDOW_MS - window) <= 1)
        everybody = max(own, sum(net for _, net in here) - gave)
        return Fraction(own, everybody) if own > 0 else Fraction(0)

    def _consumed(self, write: Application) -> int:
        change = write.changes[self._name]
        return change.net + change.counted

    def _unseen(self, outage: Outage, process: object) -> Fraction:
        """The part that a process may think is there of what others took between its last answer and the outage."""
        unseen = Fraction(0)
        for shard in {write.shard for write in self._writes}:
            before = [write for write in self._writes if write.shard == shard and write.applied_ms <= outage.from_ms]
            mine = [place for place, write in enumerate(before) if write.confirmed and write.sender is process]
            others = before[1 + max(mine, default=-1) :]
            taken = sum(max(0, write.changes[self._name].net) for write in others)
            unseen += taken * self._part_of_shard(process, shard, self._window(outage.from_ms))
        return unseen

    def _check_all(self, unseen: int) -> None:
        """Over every interval: admitted <= burst + minted + what was not seen; until all have paid, a burst more."""
        ledger, owing = Ledger(self._allowance_ms), [*self._owing()]
        rule = self._rule.with_ceiling(self._ceiling + unseen)
        shards: dict[str, LimitState] = {}
        course: list[Application | ByShare | Served] = [*self._writes, *self._admitted, *self._served]
        course.sort(key=lambda each: each.instant + 0.5 * isinstance(each, Application))
        for number, each in enumerate(course):
            at_ms = each.applied_ms if isinstance(each, Application) else each.at_ms
            net, wanted = self._of_write(each) if isinstance(each, Application) else self._without_table(each)
            beside = self._given_late + min(self._ceiling, sum(debt.at(at_ms) for debt in owing))
            debts = sum(max(0, -state.balance(at_ms)) for state in shards.values())
            owed = debts if len(shards) > 1 else 0
            beside += debts if isinstance(each, ByShare) else 0  # of corrections: they block no share
            try:
                ledger.enter(at_ms, rule, net=net, wanted=wanted, new=number == 0, owed=owed, beside=beside)
            except Violation as violation:
                raise Violation(f"with shares, {self._name}: {violation}") from violation
            if isinstance(each, Application):
                shards[each.pk] = each.changes[self._name].state

    def _of_write(self, write: Application) -> tuple[int, int | None]:
        """What a write admitted, and what of it had to be there. Without an answer it admitted nobody."""
        name = self._name
        if not write.confirmed:
            return min(0, write.changes[name].net), None
        checked, given = write.checked.get(name, 0), write.given.get(name, 0)
        net = checked + write.unchecked.get(name, 0) - given - write.paid.get(name, 0)
        return net, checked - given if checked else None

    def _without_table(self, each: ByShare | Served) -> tuple[int, int | None]:
        amount = each.amounts[self._name]
        is_checked = amount > 0 and (not isinstance(each, ByShare) or each.checked)
        return amount, amount if is_checked else None

    def _owing(self) -> Iterator[Debt]:
        """The debt of each process, by outage; one that crashes never pays.

        Its last payment before the next outage is for the share: corrections may have been paid for before.
        """
        begins = [outage.from_ms for outage in self._sharing.outages]
        let = Counter[tuple[int, object]]()
        for each in self._admitted:
            let[bisect_right(begins, each.at_ms), each.process] += max(0, each.amounts[self._name])
        paid: dict[tuple[int, object], int] = {}
        for process, write in self._sharing.payments:
            if write in self._writes:
                paid[bisect_right(begins, write.applied_ms), process] = write.applied_ms
        for key, most in let.items():
            outage, until_ms = self._sharing.outages[key[0] - 1], paid.get(key, inf)
            part = self._part(key[1], self._window(outage.from_ms))
            meanwhile_ms = 0 if until_ms == inf else int(until_ms) - outage.until_ms
            minted = 1 + int(part * self._rule.rate() * max(0, meanwhile_ms))
            yield Debt(outage.until_ms, until_ms + self._life_ms, most, min(most, minted))
