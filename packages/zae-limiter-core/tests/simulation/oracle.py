"""The oracle: it checks every write to a bucket, and the totals of every limit, with arithmetic of its own.

Lives here: what must be true of each write by itself. Never: intervals of writes (ledger), callers (accounts).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket.batch import Batch
from zae_limiter.operations.values import NOTHING, Get, Item, Key
from zae_limiter.values.limits import Limit

from .application import Application, Change
from .bucket_items import (
    WRITES,
    LimitState,
    Times,
    check_readable,
    limit_state_of,
    limits_of,
    net_of,
    only_anchored,
)
from .kernel import Kernel, Violation
from .ledger import Ledger, fastest
from .levels import Levels
from .prefetch import Bound, check_beside, check_interval, check_usage
from .quotas import Uses
from .reservations import Served, drawn
from .schedules import Planned, Schedules, check_times
from .shadows import Noted, least_known, was_short, was_there
from .slots import SlotBook, counts_of

BEHIND_MS = 1_100  # of a process with a slow network
REPEATED_MS = 10_000  # behind the first copy of a write that is sent again
RECENT_WRITES = 8  # by whose answers a process tells whether others write; one that tells a bucket looks like another


class Oracle:
    """Sees the table before and after every write.

    ``lossless``: one process, so that nothing may be lost. ``forgetful``: a process may not know its own last write.
    """

    def __init__(
        self, kernel: Kernel, table: MemoryTable, *, skew_ms: int, lossless: bool, forgetful: bool = False
    ) -> None:
        self._kernel = kernel
        self._table = table
        self._skew_ms = skew_ms
        self._lossless = lossless
        self.forgetful = forgetful
        self._anchors: dict[str, set[int]] = {}  # that an item of the same key had, since it was made
        self._former: dict[str, set[int]] = {}  # and before it was deleted
        self.schedules = Schedules()
        self._plans: Mapping[str, Planned] = NOTHING
        self._states: dict[str, tuple[Item, dict[str, LimitState]]] = {}  # of the item seen last, by key
        self._contended: Counter[str] = Counter()  # the writes to a shard by which its process still knows of another's
        self._reshapes = 0
        self._deletions: Counter[str] = Counter()
        self._most_shards: Counter[str] = Counter()  # that any shard of a bucket knew of; shard 0 learns of it last
        self._disturbed: set[str] = set()
        self._merged_pks: set[str] = set()
        self._births: dict[tuple[str, str], int] = {}
        self.applications: list[Application] = []
        self.levels = Levels()
        self.from_calls: Mapping[str, set[Limit]] = NOTHING  # the limits of a name that calls may bring
        self.refused: Counter[tuple[str, str]] = Counter()  # that the items of each bucket have counted, by attribute
        self.shadowed: Counter[str] = Counter()
        self._not_taken: list[tuple[Application, str, int]] = []
        self.noted = Noted()
        self._looked: dict[Key, Item] = {}
        self._uses = Uses()
        self.slots = SlotBook(kernel, skew_ms)
        self._batches: Mapping[str, Batch] = NOTHING
        self.served: list[Served] = []
        self.acquires: Counter[str] = Counter()  # that the items of each bucket have counted
        self.consumed: Counter[tuple[str, str]] = Counter()  # as they have, by bucket and attribute

    def look(self, key: Key) -> Item | None:
        """The item as it is, which nobody may change: for as long as it is the same, the same copy."""
        item: Item | None = self._table.execute(Get(key))
        if item is None:
            return None
        known = self._looked.get(key)
        if known != item:
            self._looked[key] = known = item
        return known

    def saw(
        self,
        items: Mapping[Key, Item | None],
        decided_ms: int,
        batches: Mapping[str, Batch] = NOTHING,
        plans: Mapping[str, Planned] = NOTHING,
    ) -> list[Application]:
        """Judge what has just taken effect on items that were so before it. Raises ``Violation``.

        ``batches``: those of writes that count or prefetch, by shard; ``plans``: how writes were planned.
        """
        self._batches, self._plans = batches, plans
        for key, item in items.items():
            appeared = limits_of(self.look(key)) - limits_of(item)
            self._births |= {(key.pk, name): self.instant for name in appeared}
        [bucket] = {key.pk.rpartition("#")[0] for key in items} if len(items) == 1 else [""]
        if self._deletions[bucket] and None in items.values():
            return [self._saw(key, None, decided_ms) for key in items]
        new = {key for key, item in items.items() if item is None and self.look(key) is not None}
        born = [key for key in new if not key.pk.endswith("#0")]
        if born and self._made(items, born[0]):
            return [self._saw(key, before, decided_ms) for key, before in items.items()]
        if born:
            return self._saw_split(items, born[0], decided_ms)
        merging = [key for key, item in items.items() if item is not None and self._counts_fewer(key, item)]
        if merging:
            return [self._saw_merge(items, merging[0], decided_ms)]
        return [self._saw(key, before, decided_ms) for key, before in items.items()]

    def _made(self, items: Mapping[Key, Item | None], born: Key) -> bool:
        """Whether a shard was made that is gone. Raises ``Violation`` if nobody deleted it."""
        others = [(item, self.look(key)) for key, item in items.items() if key != born]
        if not all(item and after and item["shard_count"] == after["shard_count"] for item, after in others):
            return False
        if not self._deletions[born.pk.rpartition("#")[0]]:
            raise Violation(f"{born.pk} was made anew, and nobody had deleted it")
        return True

    def _counts_fewer(self, key: Key, before: Item) -> bool:
        after = self.look(key)
        return after is not None and after["shard_count"] < before["shard_count"]

    @property
    def instant(self) -> int:
        """How many writes of buckets there were: finer than time, in which much happens at once."""
        return len(self.applications)

    def was_absent(self, pk: str, name: str, since: int) -> bool:
        """Whether a shard was missing, or lacked a limit, at any instant since so many writes."""
        born = self._births.get((pk, name))
        return born is None or born >= since or name not in limits_of(self.look(Key(pk, "#STATE")))

    def never_had(self, pk: str) -> bool:
        """Whether a bucket has never had so many shards."""
        bucket, _, shard = pk.rpartition("#")
        return int(shard) >= self._most_shards[bucket] > 0

    def has_merged(self, pk: str, name: str, since: int) -> bool:
        """Whether a shard that is gone merged with another one, and its bucket was there since so many writes."""
        home = f"{pk.rpartition('#')[0]}#0"
        is_gone = pk in self._merged_pks and self.look(Key(pk, "#STATE")) is None
        return is_gone and not self._deletions[pk.rpartition("#")[0]] and not self.was_absent(home, name, since)

    def differs(self, skew_ms: int) -> None:
        """A clock may be so far off by now: one that followed a slow answer alone may be further than others."""
        self._skew_ms = max(self._skew_ms, skew_ms)
        self.slots.differs(self._skew_ms)

    def disturbed(self, bucket: str) -> None:
        """Somebody whose clock was fast anchored a shard of a bucket."""
        self._disturbed.add(bucket)

    def deleted(self, bucket: str) -> None:
        """Somebody deleted shards of a bucket by hand: what comes in their place may begin full."""
        self._deletions[bucket] += 1

    def close(self) -> None:
        """Judge all writes together, once it is known whom they served. Raises ``Violation``."""
        buckets: dict[tuple[str, int, str], list[Application]] = {}
        for not_taken in self._not_taken:
            self._check_not_taken(*not_taken)
        for write in self.applications:
            self._check_tried(write)
            for name, change in write.changes.items():
                self._check_served(write, name, change)
                buckets.setdefault((write.bucket, write.life, name), []).append(write)
        for (bucket, _, name), writes in buckets.items():
            self._close_shards(writes, name)
            self._close_bucket(writes, name)
            if not (self._deletions[bucket] or bucket in self._disturbed):
                self._close_prefetch(bucket, writes, name)

    def allowance_ms(self, writes: Sequence[Application]) -> int:
        """What clocks and delays may differ by."""
        worst_ms = max(abs(write.applied_ms - write.decided_ms) for write in writes)
        return worst_ms + 2 * self._skew_ms + self._reshapes

    def _close_shards(self, writes: Sequence[Application], name: str) -> None:
        """Judge a limit of each shard by the instants at which its writes were decided."""
        ledgers: dict[str, Ledger] = {}
        for write in writes:
            change = write.changes[name]
            if write.splits:
                ledgers[write.pk] = Ledger(0)
            exact = ledgers.setdefault(write.pk, Ledger(0))
            if write.repairs:
                exact.allow(2 * self._skew_ms)
            wanted = write.wanted(name)
            if change.net < 0 and not (write.moved or write.checked.get(name) or write.unchecked.get(name)):
                exact.give(-change.net)
                continue
            exact.give(change.gained)
            ruled = change.ruled and change.ruled.part
            exact.enter(
                write.instant_ms,
                change.state.part,
                net=change.net,
                wanted=wanted,
                new=change.new,
                ruled=ruled,
                anchor_ms=change.state.anchor_ms,
            )

    def _close_bucket(self, writes: Sequence[Application], name: str) -> None:
        """Judge a limit of all shards together by the instants at which their writes took effect."""
        allowance_ms = self.allowance_ms(writes)
        ledger = Ledger(allowance_ms, (write.changes[name].state.rule for write in writes))
        for write, rule in zip(writes, fastest(writes, name, allowance_ms), strict=True):
            change = write.changes[name]
            ledger.give(change.gained)
            ledger.enter(
                write.applied_ms,
                rule.with_ceiling(change.whole),
                net=change.net,
                wanted=write.wanted(name),
                new=change.new,
                owed=change.owed,
            )

    def _close_prefetch(self, bucket: str, writes: Sequence[Application], name: str) -> None:
        """Judge a limit of all shards by the instants of its admissions, if any was prefetched."""
        served = [each for each in self.served if each.bucket == bucket]
        if not served and not any(write.drawn for write in writes):
            return
        _, entity, resource = bucket.split("#")
        declared = self.levels.ever((entity, resource), name) | self.from_calls.get(name, set())
        life_ms = max((round(1000 * limit.prefetch) for limit in declared), default=0)
        bursts = {limit.burst for limit in declared} if not any(limit.schedule for limit in declared) else set()
        burst = 1000 * bursts.pop() if len(bursts) == 1 else None
        check_interval(name, writes, served, Bound(life_ms, burst, self.allowance_ms(writes)))

    def check_usage(self) -> None:
        """Judge what every bucket has counted, where every request was answered. Raises ``Violation``."""
        for bucket in {write.bucket for write in self.applications}:
            served = [each for each in self.served if each.bucket == bucket]
            writes = self._writes_of(bucket)
            check_usage(writes, served, self.acquires[bucket])
            check_beside(writes, served, self.consumed)

    def was_short(
        self,
        bucket: str,
        limit: str,
        wanted: int,
        since_ms: int,
        until_ms: int,
        *,
        behind_ms: int,
    ) -> bool:
        """Whether at some instant the bucket held less, as seen by a process that is ``behind_ms`` behind."""
        writes, behind_ms = self._writes_of(bucket), behind_ms + 2 * self._skew_ms
        return was_short(writes, limit, wanted, since_ms, until_ms, behind_ms=behind_ms, debts=False)

    def _writes_of(self, bucket: str) -> list[Application]:
        return [write for write in self.applications if write.bucket == bucket]

    def not_taken(self, write: Application, limit: str, amount: int) -> None:
        """A shadow limit would have refused a request that the write served; all are judged in the end."""
        self._not_taken.append((write, limit, amount))

    def _check_not_taken(self, write: Application, limit: str, amount: int) -> None:
        """A shadow limit would have refused only what was not there beside what the write took for others.

        What overflowed when others gave it back was not there, nor what came back of reservations by the write, nor
        more than the write leaves a bucket to hold. Of other shards a process knows what it saw of them last, whenever
        that was: it adds a debt that has been paid since to what its own shard has now. Nothing is known of one that
        forgets buckets, and of shards that have other rules than the one written, or had an anchor in the future.
        """
        writes = self._writes_of(write.bucket)
        before = writes[: writes.index(write)]
        latest = {each.shard: each.changes.get(limit) for each in (*before, write)}
        if any(each.merged for each in before):
            return  # who takes what is there of shards that merge meanwhile, a process may have seen twice or never
        rules = {change and change.state.rule for change in latest.values()}
        if self.forgetful or len(rules) > 1 or (len(latest) > 1 and write.bucket in self._disturbed):
            return
        since_ms = writes[0].applied_ms + 1
        if write.shards == 1:
            since_ms = 0 if write.follows is None else write.follows.applied_ms
        change = write.changes[limit]
        overflow = max(0, write.given_of(limit) - max(0, change.ceiling - change.before))
        back = 0 if write.drawn is None else write.drawn.back.get(limit, 0)
        taken, behind_ms = max(0, change.net + max(overflow, back)), BEHIND_MS + 2 * self._skew_ms
        looks = ((*before, write), amount), (before, amount + taken)
        if change.whole >= amount + taken and not any(
            was_short(seen, limit, wanted, since_ms, write.applied_ms, behind_ms=behind_ms, debts=True)
            for seen, wanted in looks
        ):
            if write.shards > 1 and least_known(before, limit, write) < amount + taken:
                return
            raise Violation(f"{amount} of {limit} would have been refused, and was there since {since_ms}")

    def _check_tried(self, write: Application) -> None:
        """A shadow limit gave only what its process knew to be there: so its debt has a bound."""
        writes = self._writes_of(write.bucket) if write.tried else []
        if self.forgetful or any(change.state.shards > 1 for each in writes for change in each.changes.values()):
            return
        for name, tried in write.tried.items():
            wanted = tried + write.checked_of(name) - write.given_of(name)
            if not was_there(writes, name, wanted, write):
                raise Violation(f"a shadow limit gave {wanted} of {name}, and it was not there")

    def _saw(self, key: Key, before: Item | None, decided_ms: int) -> Application:
        after = self._after(key, before)
        if before is not None and before["rf"] > max(after["rf"], self._kernel.now_ms + 2 * self._skew_ms):
            return self._saw_repair(key, before, after, decided_ms)
        if before is not None and before["shard_count"] != after["shard_count"]:
            raise Violation("a shard was split, but nothing was split off")
        instant = self._instant(before, after, decided_ms)
        self._note_anchor(key.pk, before, after)
        if before is not None:
            _check_dropped(before, after, instant)
            if key.pk not in self._plans and only_anchored(before, after):
                self._contended[key.pk] = RECENT_WRITES + 1
                _check_nothing_lost(before, after, instant)
        moved, planned = before is not None and before["rf"] != after["rf"], self._plans.get(key.pk)
        counting = self.schedules.counting(key.pk, before, planned, moved=moved)
        self._reshaped(key.pk, before, planned)
        changes = {name: self._change(name, before, after, instant, counting) for name in limits_of(after)}
        if planned is not None and planned.shapes and planned.config is not None:
            for name in changes.keys() & planned.config.by_name.keys():
                check_times(name, changes[name].state.rule, after["rf"])
        self._contended[key.pk] -= 1
        write = self._enter(key, decided_ms, instant, changes, moved=moved, splits=False)
        write.dropped = limits_of(before) - limits_of(after)
        return write

    def _reshaped(self, pk: str, before: Item | None, planned: Planned | None) -> None:
        """A shard has other schedules by now; one that is made anew, by nobody's plan, has those of shard 0."""
        if before is None and planned is None:
            self.schedules.inherits(pk, f"{pk.rpartition('#')[0]}#0")
        self.schedules.wrote(pk, planned)

    def _note_anchor(self, pk: str, before: Item | None, after: Item) -> None:
        if before is None:
            self._former.setdefault(pk, set()).update(self._anchors.pop(pk, ()))
        self._anchors.setdefault(pk, set()).add(after["rf"])

    def _is_mistakable(self, before: Item) -> bool:
        """Whether the item, deleted and made anew at an anchor that it had, can be taken for the one before it."""
        return before["rf"] in self._former.get(before["PK"], ())

    def _saw_repair(self, key: Key, before: Item, after: Item, decided_ms: int) -> Application:
        """An anchor far in the future was brought back. Raises ``Violation`` where that made a token."""
        instant = int(after["rf"])
        if not 0 <= decided_ms - instant <= REPEATED_MS:  # it may have been sent before, and its answer was lost
            raise Violation("an anchor was brought back to an instant that is not now")
        if limits_of(before) != limits_of(after):
            raise Violation("an anchor was brought back, and the limits are others")
        changes = {}
        for name in limits_of(after):
            old, state = limit_state_of(before, name), self._state(after, name)
            whole, owed = self._family(after, name)
            if state.tokens != min(old.tokens, 0) or net_of(before, after, name):
                raise Violation(f"{old.tokens} of {name} were stored, {state.tokens} when the anchor was brought back")
            changes[name] = Change(state.tokens, 0, state.ceiling, state, whole, owed, new=False, ruled=old)
        repair = self._enter(key, decided_ms, instant, changes, moved=True, splits=False)
        repair.repairs = True
        return repair

    def _after(self, key: Key, before: Item | None) -> Item:
        after = self.look(key)
        if after is None:
            raise Violation("a write of a bucket left no item")
        check_readable(after)
        if after[WRITES] - (before or {}).get(WRITES, 0) != 1000:
            raise Violation("a write did not count itself once")
        counts = counts_of(after)
        if counts is not None:
            counts.check()
        if after["shard_count"] > 1 and "ttl" in after:
            raise Violation("a shard is to expire")
        bucket = key.pk.rpartition("#")[0]
        self._most_shards[bucket] = max(self._most_shards[bucket], after["shard_count"])
        self.acquires[bucket] += after.get("ev", 0) - (before or {}).get("ev", 0)
        self.shadowed[bucket] += after.get("sj", 0) - (before or {}).get("sj", 0)
        for name in {**(before or {}), **after}:
            if name == "rj" or name.startswith("rj_"):
                self.refused[bucket, name] += after.get(name, 0) - (before or {}).get(name, 0)
            elif name.endswith("_tc"):
                self.consumed[bucket, name] += after.get(name, 0) - (before or {}).get(name, 0)
        return after

    def _enter(
        self, key: Key, decided_ms: int, instant: int, changes: dict[str, Change], *, moved: bool, splits: bool
    ) -> Application:
        now = self._kernel.now_ms
        application = Application(key.pk, decided_ms, now, instant, changes, moved=moved, splits=splits)
        application.life = self._deletions[application.bucket]
        batch = self._batches.get(key.pk)
        application.drawn = (
            None if batch is None or batch.prefetch_write is None else drawn(batch, self.noted.config_of(batch))
        )
        application.instant = self.instant
        application.slots = counts_of(self.look(key))
        self.applications.append(application)
        return application

    def _saw_split(self, items: Mapping[Key, Item | None], born: Key, decided_ms: int) -> list[Application]:
        """One shard became two. Raises ``Violation`` unless they hold what it held."""
        [(key, before)] = [(key, item) for key, item in items.items() if key != born]
        if before is None:
            raise Violation(f"{born.pk} was split off from nothing")
        after, other = self._after(key, before), self._after(born, None)
        instant = self._instant(before, after, decided_ms)
        if not after["rf"] == other["rf"] > before["rf"]:
            raise Violation("the halves of a shard do not begin together")
        if not after["shard_count"] == other["shard_count"] == 2 * before["shard_count"]:
            raise Violation("the halves of a shard do not know of each other")
        if not limits_of(before) == limits_of(after) == limits_of(other):
            raise Violation("the halves of a shard have other limits than the shard had")
        self.schedules.inherits(born.pk, key.pk)
        mine, others = {}, {}
        for name in limits_of(before):
            mine[name], others[name] = self._halved(name, before, after, other, (decided_ms, instant))
        applications = [(key, mine), (born, others)]
        return [self._enter(place, decided_ms, instant, part, moved=True, splits=True) for place, part in applications]

    def _halved(
        self, name: str, before: Item, after: Item, other: Item, instants: tuple[int, int]
    ) -> tuple[Change, Change]:
        decided_ms, instant = instants
        old, mine, others = limit_state_of(before, name), self._state(after, name), self._state(other, name)
        if mine.ceiling + others.ceiling != old.ceiling:
            raise Violation(f"the halves of {name} may hold {mine.ceiling} and {others.ceiling} of {old.ceiling}")
        if net_of(before, after, name) or net_of(None, other, name):
            raise Violation(f"a split consumed {name}")
        self._uses.split(after["PK"], other["PK"], name)
        had, left = old.balance(instant), mine.balance(instant) + others.balance(instant)
        late = 0  # what comes until the new anchor overflows with the next write, whatever schedule there is
        if limit_state_of(after, name).part.is_slow:
            late = had - old.balance(min(decided_ms, instant))
        if abs(had - left - max(0, had - old.ceiling)) > max(old.blur, mine.blur, late):
            raise Violation(f"a shard held {had} of {name}, its halves hold {left} of {old.ceiling}")
        halves = [(mine, *self._family(after, name)), (others, *self._family(other, name))]
        first, second = (
            Change(half.balance(instant), 0, half.ceiling, half, whole, owed, new=False, ruled=old)
            for half, whole, owed in halves
        )
        return first, second

    def _saw_merge(self, items: Mapping[Key, Item | None], key: Key, decided_ms: int) -> Application:
        """Two shards became one. Raises ``Violation`` unless it holds what they held."""
        before, gone = items[key], [(other, item) for other, item in items.items() if other != key]
        assert before is not None, "it merges with another one"
        if not gone:
            raise Violation(f"{key.pk} merged with none, and has half of the shards")
        other = gone[0][1]  # of one that was deleted by hand nothing is left
        after, instant = self._after(key, before), 0
        instant = self._instant(before, after, decided_ms)
        self._note_anchor(key.pk, before, after)
        self._forget_counts(key.pk.rpartition("#")[0], other or {})
        halves = [before] if other is None else [before, other]
        if not all(each["shard_count"] == 2 * after["shard_count"] and each["rf"] < after["rf"] for each in halves):
            raise Violation("two shards merged that are not halves of one, or were not of one time")
        place, mine = (int(each.pk.rpartition("#")[2]) for each in (gone[0][0], key))
        if self.look(gone[0][0]) is not None or place - mine != after["shard_count"]:
            raise Violation("a shard merged with one that is not its other half")
        if limits_of(after) != frozenset[str]().union(*map(limits_of, halves)):
            raise Violation("two shards merged, and have other limits than before")
        newest = max(halves, key=lambda each: (each["cv"], each["rf"]))
        self.schedules.inherits(key.pk, newest["PK"])
        changes = {name: self._merged(name, halves, after, gone[0][0].pk, instant) for name in limits_of(after)}
        write = self._enter(key, decided_ms, instant, changes, moved=True, splits=True)
        write.merged = gone[0][0].pk
        self._merged_pks.add(write.merged)
        return write

    def _merged(self, name: str, halves: Sequence[Item], after: Item, gone: str, instant: int) -> Change:
        state, had, gained = self._state(after, name), 0, 0
        if len(halves) == 1:  # nothing is left of the other one
            self._uses.begin(gone, name)
        for item in halves:
            if name not in limits_of(item):
                had += state._replace(shard=int(item["PK"].rpartition("#")[2]), shards=item["shard_count"]).initial
                continue
            old = limit_state_of(item, name)
            as_ruled, there = old._replace(rule=state.rule), min(old.ceiling, old.balance(instant))
            kept = self._uses.changed(item["PK"], name, old, as_ruled, instant)
            had += min(there, as_ruled.ceiling) if kept is None else kept
            gained += 0 if kept is None else kept - there
        self._uses.merge(after["PK"], gone, name, instant)
        slow = any(limit_state_of(each, name).part.is_slow for each in halves if name in limits_of(each))
        left, lost = state.balance(instant), 3 if slow else 0
        if not had - lost - state.blur <= left <= had + state.blur:
            raise Violation(f"two shards held {had} of {name}, and one holds {left}")
        consumed = sum(int(item.get(f"b_{name}_tc", 0)) for item in halves)
        if after[f"b_{name}_tc"] != consumed:
            raise Violation(f"two shards had counted {consumed} of {name}, and one has {after[f'b_{name}_tc']}")
        whole, owed = self._family(after, name)
        ruled = limit_state_of(halves[0], name) if name in limits_of(halves[0]) else None
        return Change(left, 0, state.ceiling, state, whole, owed, new=False, ruled=ruled, gained=gained)

    def _forget_counts(self, bucket: str, gone: Item) -> None:
        """What a shard had counted is counted; the one that it merged with has it now."""
        self.shadowed[bucket] -= gone.get("sj", 0)
        for name in gone:
            if name == "rj" or name.startswith("rj_"):
                self.refused[bucket, name] -= gone[name]
            elif name.endswith("_tc") and name != WRITES:
                self.consumed[bucket, name] -= gone[name]

    def _family(self, item: Item, name: str) -> tuple[int, int]:
        """The ceilings of all shards of a bucket, and what the others owe.

        One that was not written since the boundary of a schedule may hold what the values behind it allow.
        """
        bucket, _, own = item["PK"].rpartition("#")
        if self._most_shards[bucket] == 1:
            return self._state(item, name).ceiling, 0
        keys = [Key(f"{bucket}#{shard}", item["SK"]) for shard in range(self._most_shards[bucket])]
        items = [shard for key in keys if (shard := self.look(key)) is not None]
        states = [self._state(shard, name) for shard in items if f"b_{name}_tk" in shard]
        others = [state.known_balance(self._kernel.now_ms) for state in states if state.shard != int(own)]
        now_ms = self._kernel.now_ms
        ceilings = (max(each.ceiling, each.ceiling_at(now_ms)) for each in states)
        return sum(ceilings), sum(max(0, -balance) for balance in others)

    def _state(self, item: Item, name: str) -> LimitState:
        """The state of a limit in an item. The table never changes an item, so of the last one it is known already."""
        seen, states = self._states.get(item["PK"], (None, {}))
        if seen is not item:
            self._states[item["PK"]] = item, (states := {})
        if name not in states:
            states[name] = limit_state_of(item, name, self.schedules.of(item["PK"], name))
        return states[name]

    def _instant(self, before: Item | None, after: Item, decided_ms: int) -> int:
        """When the write counts: as decided, or, where it moves the anchor, at the new one."""
        if before is not None and before["rf"] == after["rf"]:
            return decided_ms
        self._reshapes += 1
        later_ms = after["rf"] - self._kernel.now_ms
        follows = (
            before is not None and after["rf"] == before["rf"] + 1
        )  # an anchor that is less than a minute in the future
        if later_ms > self._skew_ms + self._reshapes and not follows:
            raise Violation(f"an anchor is {later_ms} ms in the future by all clocks")
        if before is not None and after["rf"] < before["rf"]:
            raise Violation("an anchor went back")
        return int(after["rf"])

    def _change(
        self, name: str, before: Item | None, after: Item, instant: int, counting: Mapping[str, Times]
    ) -> Change:
        batch = self._batches.get(after["PK"])
        counted = 0 if batch is None else batch.counts.amounts.get(name, 0)
        state, net = self._state(after, name), net_of(before, after, name) - counted
        balance, (whole, owed) = state.balance(instant), self._family(after, name)
        if before is not None and before["rf"] == after["rf"] and state.rule.times:
            balance = limit_state_of(after, name, counting.get(name, ())).balance(instant)
        if before is None or name not in limits_of(before):
            if balance + net != state.initial:
                raise Violation(f"{name} is new, and holds {balance} after {net} of {state.initial}")
            self._uses.begin(after["PK"], name)
            return Change(state.initial, net, state.ceiling, state, whole, owed, new=True, counted=counted)
        old = limit_state_of(before, name, counting.get(name, ()))
        if (there := self._uses.changed(after["PK"], name, old, state, instant)) is not None:
            if abs(there - balance - net) > old.part.is_slow + state.part.is_slow:
                raise Violation(f"{there} of {name} are left of what was used, and a change left {balance + net}")
            gained = there - min(old.balance(instant), old.ceiling)
            change = Change(there, net, state.ceiling, state, whole, owed, new=False, ruled=old, counted=counted)
            return change._replace(gained=gained)
        ceiling = old.ceiling_at(instant) if old.rule.times else min(state.ceiling, old.ceiling)
        alone = self._lossless and self._contended[after["PK"]] <= 0
        slack = 0 if alone or not (old.rule.is_even and state.rule.is_even) else ceiling // 20
        if self._is_mistakable(before):
            slack = max(0, old.balance(instant) - balance - net)
        self._check_conserved(name, old.balance(instant), balance + net, ceiling, slack, max(old.blur, state.blur))
        late = (
            state.part.is_slow and before["rf"] != after["rf"]
        )  # it was full before the new anchor, and has minted since
        if net > 0 and balance + net > ceiling + max(old.blur, state.blur, int(late)):
            raise Violation(f"{name} was consumed, and {balance + net - ceiling} that overflowed were not forgotten")
        held_to = ceiling if old.rule.times else state.ceiling
        return Change(old.balance(instant), net, held_to, state, whole, owed, new=False, ruled=old, counted=counted)

    def _check_conserved(self, name: str, old: int, left: int, ceiling: int, slack: int, blur: int) -> None:
        lost, overflow = old - left, max(0, old - ceiling)
        if lost < -blur:
            raise Violation(f"{-lost} millitokens of {name} came from nowhere")
        if lost > overflow + slack + blur:
            raise Violation(f"{lost} millitokens of {name} were lost, {overflow} overflowed")

    def _check_served(self, write: Application, name: str, change: Change) -> None:
        checked, given = write.checked_of(name), write.given_of(name)
        if write.confirmed and change.net != checked + write.unchecked.get(name, 0) - given:
            raise Violation(
                f"a write took {change.net} of {name}; those it served: +{checked} -{given} {write.unchecked}"
            )
        if write.drawn is not None and write.drawn.taken.get(name):
            self._check_floor(write, name, change)
        if write.confirmed and change.counted != write.counted_of(name):
            raise Violation(f"a write counted {change.counted} of {name}; those it served: {write.counted}")
        there = change.before
        if write.moved and not write.splits and change.ruled is not None:  # what a new anchor brings is not there yet
            times = change.ruled.rule.times
            decided_ms = max(write.decided_ms, change.ruled.anchor_ms) if times else write.decided_ms
            there = min(there, change.ruled.balance(decided_ms) + max(0, change.gained))
        if write.confirmed and checked > max(0, min(change.ceiling, there) + given):
            raise Violation(f"{checked} of {name} admitted, {there} were there")

    def _check_floor(self, write: Application, name: str, change: Change) -> None:
        """A reservation leaves others theirs: what is minted in the life of one, by the rule that the bucket has. A
        process alone knows what is there.
        """
        assert write.drawn is not None
        there = min(change.ceiling, change.before + write.given_of(name)) - write.tried.get(name, 0)
        floor = change.state.part._replace(times=()).rate() * write.drawn.life_ms
        if self._lossless and there - write.checked_of(name) < floor - 2:
            raise Violation(f"a reservation of {write.drawn.taken} left {there - write.checked_of(name)} of {name}")


def _check_dropped(before: Item, after: Item, instant: int) -> None:
    """Raises ``Violation`` where a limit went that was not full at the write's instant, or went only in part.

    One that comes back starts full: it may go only where it is, under the rule that it had.
    """
    for name in limits_of(before) - limits_of(after):
        old = limit_state_of(before, name)
        missing = old.ceiling - old.balance(instant)
        if missing > 0:
            raise Violation(f"a write dropped {name}, which was {missing} millitokens short of its ceiling")
        if before["rf"] == after["rf"]:
            raise Violation(f"a write dropped {name}, and left the anchor where it was")
        left = [attribute for attribute in after if attribute.startswith(f"b_{name}_")]
        if left:
            raise Violation(f"a write dropped {name}, but for {', '.join(left)}")


def _check_nothing_lost(before: Item, after: Item, instant: int) -> None:
    """Raises ``Violation`` where a new anchor changed a balance by a millitoken, or forgot what overflowed."""
    for name in limits_of(after):
        lost = limit_state_of(before, name).balance(instant) - limit_state_of(after, name).balance(instant)
        if lost:
            raise Violation(f"a new anchor alone lost {lost} millitokens of {name}")
