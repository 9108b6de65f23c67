"""Watches every write to a bucket, and the books of every limit, with arithmetic of its own.

Lives here: what must be true of each write by itself. Never: intervals of writes (ledger), callers (accounts).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from zae_limiter.operations.memory import MemoryStore
from zae_limiter.operations.values import Get, Item, Key
from zae_limiter.schema.items import read_bucket

from .kernel import Kernel, Violation
from .ledger import Ledger, Rule

WRITES = "b_wcu_tc"


class Change(NamedTuple):
    """One limit across one write: ``before`` is its uncapped balance at that instant, ``net`` what ``tc`` grew by."""

    before: int
    net: int
    ceiling: int
    rule: Rule
    new: bool


class Application:
    """One write that took effect, and, where its sender was told so, whom it served."""

    def __init__(
        self, pk: str, decided_ms: int, applied_ms: int, instant_ms: int, changes: dict[str, Change], *, reshaped: bool
    ) -> None:
        self.pk = pk
        self.decided_ms = decided_ms
        self.applied_ms = applied_ms
        self.instant_ms = instant_ms
        self.changes = changes
        self.reshaped = reshaped
        self.confirmed = False
        self.checked: dict[str, int] = {}
        self.unchecked: dict[str, int] = {}
        self.given: dict[str, int] = {}

    def carry(self, checked: Mapping[str, int], unchecked: Mapping[str, int], given: Mapping[str, int]) -> None:
        """The write served this request, too."""
        for total, part in ((self.checked, checked), (self.unchecked, unchecked), (self.given, given)):
            for limit, amount in part.items():
                total[limit] = total.get(limit, 0) + amount


class Oracle:
    """Sees the table before and after every write. ``lonely``: one process, so that nothing may be lost."""

    def __init__(self, kernel: Kernel, table: MemoryStore, *, skew_ms: int, lonely: bool) -> None:
        self._kernel = kernel
        self._table = table
        self._skew_ms = skew_ms
        self._lonely = lonely
        self._reshapes = 0
        self.applications: list[Application] = []

    def look(self, key: Key) -> Item | None:
        """The item as it is."""
        item: Item | None = self._table.execute(Get(key))
        return item

    def saw(self, key: Key, before: Item | None, decided_ms: int) -> Application:
        """Judge a write that has just taken effect. Raises ``Violation``."""
        after = self.look(key)
        if after is None:
            raise Violation("a write of a bucket left no item")
        check_readable(after)
        instant = self._instant(before, after, decided_ms)
        changes = {name: self._change(name, before, after, instant) for name in limits_of(after)}
        if before is not None and not limits_of(before) <= changes.keys():
            raise Violation("a write dropped a limit")
        if after[WRITES] - (before or {}).get(WRITES, 0) != 1000:
            raise Violation("a write did not count itself once")
        reshaped = before is not None and before["rf"] != after["rf"]
        application = Application(key.pk, decided_ms, self._kernel.now_ms, instant, changes, reshaped=reshaped)
        self.applications.append(application)
        return application

    def close(self) -> None:
        """Judge all writes together, once it is known whom they served. Raises ``Violation``."""
        worst_ms = max((abs(write.applied_ms - write.decided_ms) for write in self.applications), default=0)
        allowance_ms = worst_ms + 2 * self._skew_ms + self._reshapes
        rules = [(name, change.rule) for write in self.applications for name, change in write.changes.items()]
        fastest = {name: max((rule for limit, rule in rules if limit == name), key=Rule.rate) for name, _ in rules}
        ledgers: dict[tuple[str, str], tuple[Ledger, Ledger]] = {}
        for write in self.applications:
            for name, change in write.changes.items():
                self._check_served(write, name, change)
                wanted = write.checked.get(name, 0) - write.given.get(name, 0) if write.checked.get(name) else None
                exact, timed = ledgers.setdefault((write.pk, name), (Ledger(0), Ledger(allowance_ms)))
                exact.enter(write.instant_ms, change.rule, net=change.net, wanted=wanted, new=change.new)
                timed.enter(
                    write.applied_ms,
                    change.rule.as_fast_as(fastest[name]),
                    net=change.net,
                    wanted=wanted,
                    new=change.new,
                )

    def was_short(self, pk: str, limit: str, wanted: int, since_ms: int, until_ms: int, *, behind_ms: int) -> bool:
        """Whether at some instant the bucket held less, in the eyes of one who is ``behind_ms`` behind."""
        short = True  # of a bucket that was never there, nothing is known
        for write in self.applications:
            change = write.changes.get(limit) if write.pk == pk else None
            if change is None or write.applied_ms > until_ms:
                continue
            rate = change.rule.rate()
            left = min(change.before, change.ceiling) - change.net
            grown = rate * (max(0, since_ms - write.applied_ms) - 2 * self._skew_ms - behind_ms)
            falls_short = wanted > min(Fraction(change.rule.ceiling), left + grown)
            begins = change.new or write.applied_ms < since_ms
            short = falls_short if begins else short or falls_short
        return short

    def _instant(self, before: Item | None, after: Item, decided_ms: int) -> int:
        """When the write counts: as decided, or, where it moves the anchor, at the new one."""
        if before is not None and before["rf"] == after["rf"]:
            return decided_ms
        self._reshapes += 1
        ahead = after["rf"] - self._kernel.now_ms
        if ahead > self._skew_ms + self._reshapes:
            raise Violation(f"an anchor is {ahead} ms ahead of all clocks")
        if before is not None and after["rf"] < before["rf"]:
            raise Violation("an anchor went back")
        return int(after["rf"])

    def _change(self, name: str, before: Item | None, after: Item, instant: int) -> Change:
        rule = rule_of(after, name)
        balance = balance_of(after, name, instant)
        if before is None or f"b_{name}_tk" not in before:
            net = after.get(f"b_{name}_tc", 0)
            if balance + net != rule.ceiling:
                raise Violation(f"{name} is new, and holds {balance} after {net} of {rule.ceiling}")
            return Change(rule.ceiling, net, rule.ceiling, rule, new=True)
        net = after.get(f"b_{name}_tc", 0) - before.get(f"b_{name}_tc", 0)
        stood, ceiling = balance_of(before, name, instant), min(rule.ceiling, rule_of(before, name).ceiling)
        self._check_conserved(name, stood, balance + net, ceiling, net)
        return Change(stood, net, ceiling, rule, new=False)

    def _check_conserved(self, name: str, stood: int, left: int, ceiling: int, net: int) -> None:
        lost, overflow = stood - left, max(0, stood - ceiling)
        if lost < 0:
            raise Violation(f"{-lost} millitokens of {name} came from nowhere")
        if lost > overflow + (0 if self._lonely else ceiling // 20):
            raise Violation(f"{lost} millitokens of {name} were lost, {overflow} overflowed")
        if net > 0 and left > ceiling:
            raise Violation(f"{name} was consumed, and {left - ceiling} that overflowed were not forgotten")

    def _check_served(self, write: Application, name: str, change: Change) -> None:
        checked, given = write.checked.get(name, 0), write.given.get(name, 0)
        if write.confirmed and change.net != checked + write.unchecked.get(name, 0) - given:
            raise Violation(
                f"a write took {change.net} of {name}; those it served: +{checked} -{given} {write.unchecked}"
            )
        if checked and checked > min(change.ceiling, change.before) + given:
            raise Violation(f"{checked} of {name} admitted, {change.before} were there")


def limits_of(item: Item) -> set[str]:
    """The limits that a bucket item has."""
    return {name[2:-3] for name in item if name.startswith("b_") and name.endswith("_tk")}


def rule_of(item: Item, name: str) -> Rule:
    """The rule of a limit as the item has it."""
    capacity: int = item[f"b_{name}_cp"]
    return Rule(item.get(f"b_{name}_bx", capacity), item[f"b_{name}_ra"], item[f"b_{name}_rp"])


def balance_of(item: Item, name: str, instant_ms: int) -> int:
    """What is there at an instant, were there no ceiling."""
    rule = rule_of(item, name)
    anchor_ms, tokens = int(item["rf"]), int(item[f"b_{name}_tk"])
    return tokens + rule.refill * instant_ms // rule.period - rule.refill * anchor_ms // rule.period


def check_readable(item: Item) -> None:
    """Raises ``Violation`` for a ghost: an item that a reader cannot read."""
    try:
        view = read_bucket(item)
        complete = {"cv", "ev", "rf", "shard_count", WRITES, "GSI2PK", "entity_id"} <= item.keys()
        counted: list[Any] = [view.tokens_milli(name) for name in view.shapes]
    except Exception as error:
        raise Violation(f"an item that nobody can read: {item}") from error
    if not (complete and counted):
        raise Violation(f"an item that is not complete: {item}")
