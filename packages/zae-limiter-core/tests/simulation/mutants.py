"""Deliberate faults, to prove that the simulation finds them: each changes what passes a seam, and names the promise
that it breaks.

Lives here: the list of faults, and the search for a history that finds one. Never: a name of how the library is made.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from zae_limiter.operations.values import NOTHING, Delete, Item, Operation, Put, Transact, Update
from zae_limiter.values.refusal import RateLimitExceeded

from .kernel import Violation
from .seams import (
    BALANCE,
    COUNT,
    SOUND,
    SWITCHES,
    Seams,
    adding,
    as_at_first,
    asking,
    ending,
    gives_back,
    hides,
    merges,
    puts,
    reads,
    requests,
    reshapes,
    setting,
    splits,
    takes,
    tells,
    unasked,
    updates,
    updates_as_seen,
    without,
)
from .world import simulate


class Mutant(NamedTuple):
    """One fault, the sentence that it breaks, a pattern of what is found, and the seed of a history that finds it."""

    name: str
    breaks: str
    finds: str
    seams: Seams
    found_by: int = 1
    scenario: str = "any"


def _set_as_seen(update: Update, seen: Item) -> Update:
    """The balance that was seen and the change are set, whatever others have written since."""
    changed = {name: seen.get(name, 0) + amount for name, amount in ending(update.add, BALANCE).items()}
    if not reshapes(update) or not seen:
        return update
    return update._replace(add=without(update.add, BALANCE), set={**update.set, **changed})


def _early_anchor(update: Update) -> Update:
    early = update.set.get("rf", 0) - 200
    if early > update.when.equals.get("rf", early):
        return update._replace(set={**update.set, "rf": early})
    return update


def _same_anchor(update: Update) -> Update:
    """The anchor stays almost where it was, and what was minted since is added."""
    return update._replace(set={**update.set, "rf": update.when.equals["rf"] + 1}) if tells(update) else update


def _others_dropped(update: Update, seen: Item) -> Update:
    """A reshape drops the limits that it does not name."""
    named = {name[:-3] for name in ending(update.set, "_cp")}
    gone = {name[:-3] for name in ending(seen, "_cp")} - named
    if not named or not gone:
        return update
    removed = tuple(name for name in seen if name.rpartition("_")[0] in gone)
    add, kept = (
        {name: value for name, value in each.items() if name.rpartition("_")[0] not in gone}
        for each in (update.add, update.set)
    )
    return update._replace(add=add, set=kept, remove=(*update.remove, *removed))


def _with_a_token(item: Item) -> Item:
    return {**item, **{name: amount + 1000 for name, amount in ending(item, BALANCE).items()}}


def _to_shard_0(operation: Operation[object]) -> Operation[object]:
    if not isinstance(operation, Update) or not gives_back(operation):
        return operation
    key = operation.key
    return operation._replace(key=key._replace(pk=key.pk.rpartition("#")[0] + "#0"))


def _gone_stays(operation: Operation[object]) -> Operation[object]:
    if not isinstance(operation, Transact) or not merges(operation):
        return operation
    return Transact(tuple(each for each in operation.writes if not isinstance(each, Delete)), operation.request_token)


def _token_unset(update: Update) -> Update:
    return update._replace(set={name: value for name, value in update.set.items() if name not in update.when.below})


def _sets_balance(update: Update) -> bool:
    return bool(ending(update.set, BALANCE)) and not reshapes(update)


def _without_longest_pattern(item: Item) -> Item:
    """The other patterns of an item that has several."""
    patterns = item.get("patterns", {})
    kept = sorted(patterns, key=len)[:-1] or patterns
    return {**item, "patterns": {pattern: patterns[pattern] for pattern in kept}} if patterns else item


def _patterns_lost(operation: Operation[object]) -> Operation[object]:
    """Whoever writes limits of the system writes none of patterns."""

    def lost(write: Any) -> Any:
        return Put(without(write.item, "patterns"), write.when) if isinstance(write, Put) else write

    events = (
        [str(each.item) for each in operation.writes if isinstance(each, Put)]
        if isinstance(operation, Transact)
        else []
    )
    if not isinstance(operation, Transact) or not any("$SYSTEM" in event for event in events):
        return operation
    return Transact(tuple(map(lost, operation.writes)), operation.request_token)


def _clock(fast_ms: int) -> Seams:
    return Seams(now_ms=lambda now_ms: now_ms + fast_ms)


def _counted_given_back(update: Update) -> Update:
    """What a write takes out of the count comes back as tokens."""
    counted = {f"{name[:-3]}_tk": -n for name, n in ending(update.add, COUNT).items() if n < 0}
    return update._replace(add={**counted, **update.add})


def _not_halved(update: Update) -> Update:
    return update._replace(add=without(update.add, BALANCE))


def _split_unasked(update: Update) -> Update:
    return asking(update, equals=NOTHING)


def _a_token_more(update: Update) -> Update:
    return update._replace(set=_with_a_token(dict(update.set)))


def _merged_as_seen(update: Update) -> Update:
    return asking(update, at_least=NOTHING, at_most=NOTHING, equals=ending(update.when.equals, "rf"))


def _expiring_shards(update: Update) -> Update:
    return update if update.key.pk.endswith("#0") else update._replace(set={**update.set, "ttl": 10**10})


def _for_every_limit(refusal: RateLimitExceeded) -> RateLimitExceeded:
    return RateLimitExceeded([replace(each, exceeded=True) for each in refusal.statuses], refusal.entity_id)


def _with_less(item: Item) -> Item:
    return {**item, **{name: amount - 1000 for name, amount in ending(item, BALANCE).items()}}


def _refusals(change: Callable[[str, int], int]) -> Seams:
    """A write that counts other refusals."""

    def changed(update: Update) -> Update:
        counted = {name: change(name, n) for name, n in update.add.items() if name.startswith("rj")}
        return update._replace(add={**update.add, **counted})

    return updates(changed)


def _all_in_shadow(item: Item) -> Item:
    """One shadow limit makes shadow limits of all."""
    in_shadow = {f"{name[:-3]}_sh": True for name in ending(item, "_cp")}
    return {**item, **in_shadow} if ending(item, "_sh") else item


def _endless(item: Item) -> Item:
    until = ending(item, "override_until")
    return {**item, **{name: until_ms + 10**7 for name, until_ms in until.items()}}


def _without_override(item: Item) -> Item | None:
    kept = {name: value for name, value in item.items() if not name.startswith(("o_", "override"))}
    return kept if ending(kept, "_cp", *SWITCHES) else None


def _frees_slots(update: Update) -> bool:
    return any(n < 0 for n in ending(update.add, "_he", "_ho").values())


def _renewed_and_kept(update: Update) -> Update:
    """A renewal counts in the new epoch, and stays in the former one."""
    counts = ending(update.add, "_he", "_ho")
    if min(counts.values(), default=0) >= 0 or max(counts.values()) <= 0:
        return update
    return update._replace(add={name: n for name, n in update.add.items() if name not in counts or n > 0})


def _nothing_consumed(item: Item) -> Item:
    """Whoever reads a bucket sees nothing that others consumed."""
    return {**item, **dict.fromkeys(ending(item, COUNT), 0)}


def _debts(operation: Operation[object]) -> bool:
    """Whether a write takes what nobody asks to be there: a correction, or what a share gave."""
    if not isinstance(operation, Update) or reshapes(operation) or operation.when.at_least:
        return False
    return any(n < 0 for n in ending(operation.add, BALANCE).values()) and not ending(operation.add, "_he", "_ho")


PROMISE = "net admitted <= burst + minted in the interval"
NOTHING_CREATES = "nothing creates tokens"
NOTHING_LOST = "only a crash, a lost answer, a compensation that never ran, or slack may lose tokens"
SLOTS_COUNTED = "the slots of leases that know themselves as holders are at most the capacity"

MUTANTS: tuple[Mutant, ...] = (
    # One write
    Mutant("no upper bound", NOTHING_CREATES, "overflowed were not forgotten", unasked("at_most"), found_by=9),
    Mutant("no lower bound", PROMISE, "admitted, .* were there", unasked("at_least", of=(BALANCE,))),
    Mutant(
        "no rf",
        "a write that was decided by another shape fails",
        "anchor was brought back",
        unasked("equals"),
        found_by=2,
    ),
    Mutant(
        "wrong rf", NOTHING_CREATES, "a new anchor alone lost -|came from nowhere", updates(_early_anchor), found_by=4
    ),
    Mutant(
        "SET of the seen balance at reshape",
        "a write adds to what others have written since",
        "came from nowhere|lost",
        updates_as_seen(_set_as_seen),
        found_by=2,
    ),
    Mutant("a SET that credits", NOTHING_CREATES, "came from nowhere", setting(lambda n: n + 1, BALANCE), found_by=5),
    Mutant(
        "a SET that forgets more than its slack",
        NOTHING_LOST,
        "were lost",
        setting(lambda n: n - 20_000, BALANCE, where=_sets_balance),
        found_by=2,
    ),
    Mutant(
        "a lower bound that a SET has not",
        NOTHING_CREATES,
        "came from nowhere",
        unasked("at_least", of=(BALANCE,), where=_sets_balance),
        found_by=8,
    ),
    Mutant("a new bucket with a token more", PROMISE, "is new, and holds", puts(_with_a_token)),
    Mutant("a process whose clock is fast", "an admission counts at its now", "were there|in the future", _clock(300)),
    Mutant(
        "a process behind its own clock",
        "an admission counts at its now",
        "not forgotten|lost",
        _clock(-300),
        found_by=2,
    ),
    Mutant(
        "wrong dates for longer than they are doubted",
        "a wrong date moves no clock",
        "in the future|were there|back",
        Seams(dates=9),
        found_by=15,
    ),
    # Slow limits
    Mutant(
        "a fraction that is forgotten",
        "a refill never comes before its instant",
        "came from nowhere|were there",
        setting(lambda _: 0, "_fr"),
        found_by=9,
    ),
    # Give-backs
    Mutant(
        "a give-back of a token more",
        "a give-back is a negative admission",
        "came from nowhere",
        adding(lambda n: n + 1000, BALANCE, where=gives_back),
    ),
    Mutant(
        "give-back without the existence condition",
        "a give-back goes to a bucket that is there",
        "nobody can read",
        unasked("exists", "equals", of=("shard_count",), where=lambda update: bool(update.when.exists)),
        found_by=221,
    ),
    Mutant("give-back dropped", NOTHING_LOST, "were dropped|returned|came back|counts", Seams(undoes=gives_back)),
    Mutant("a give-back on shard 0", "each part goes to its half", "were dropped", requests(_to_shard_0), found_by=12),
    Mutant(
        "what was only counted, given back",
        NOTHING_CREATES,
        "came from nowhere",
        updates(_counted_given_back),
        found_by=2,
    ),
    Mutant(
        "a call that gave everything back, counted",
        "ev counts the calls that took place",
        "acquires, and|calls, ",
        updates(
            lambda update: update._replace(add=without(update.add, "ev")) if update.add.get("ev", 0) < 0 else update
        ),
    ),
    # Lost answers
    Mutant(
        "a slot that nobody asks for",
        "a write takes effect once",
        "took effect|two writes|came from",
        updates(lambda update: asking(update, below=NOTHING)),
        scenario="signed",
        found_by=2,
    ),
    Mutant(
        "a token that is not set",
        "a write takes effect once",
        "took effect|two writes",
        updates(_token_unset),
        scenario="signed",
        found_by=2,
    ),
    # Splits and merges
    Mutant(
        "halves set at a split", NOTHING_LOST, "its halves hold", updates_as_seen(_set_as_seen, splits), found_by=48
    ),
    Mutant("a split without halving", NOTHING_CREATES, "its halves hold", updates(_not_halved, splits), found_by=2),
    Mutant(
        "a split of what was not seen",
        NOTHING_CREATES,
        "halves of a shard",
        updates(_split_unasked, splits),
        found_by=2,
    ),
    Mutant(
        "a new shard with a token more",
        "the shares add up to x",
        "its halves hold",
        puts(lambda item: item if item["PK"].endswith("#0") else _with_a_token(item)),
        found_by=2,
    ),
    Mutant(
        "a merge that adds a token",
        NOTHING_CREATES,
        "two shards held",
        updates(_a_token_more, merges),
        scenario="merges",
    ),
    Mutant(
        "a merge of shards as they once were",
        NOTHING_CREATES,
        "two shards held",
        updates(_merged_as_seen, merges),
        scenario="merges",
        found_by=23,
    ),
    Mutant(
        "a merge that forgets what was counted",
        "tc is the net total",
        "had counted",
        adding(lambda _: 0, COUNT, within=merges),
        scenario="merges",
    ),
    Mutant(
        "a merge that leaves the other shard",
        NOTHING_CREATES,
        "merged with none",
        requests(_gone_stays),
        scenario="merges",
    ),
    Mutant(
        "what comes back to a shard that has merged, dropped",
        NOTHING_LOST,
        "which merged|were dropped",
        Seams(undoes=gives_back),
        scenario="merges",
    ),
    # Limits of a bucket
    Mutant(
        "a ttl that ignores debt",
        "a bucket expires when it is full",
        "more than the ceiling",
        setting(lambda s: s - 3600, "ttl"),
        found_by=39,
    ),
    Mutant(
        "ttl on shards", "a bucket of several shards has no ttl", "is to expire", updates(_expiring_shards), found_by=2
    ),
    Mutant(
        "a limit dropped in debt",
        "a limit that leaves is full",
        "dropped",
        updates_as_seen(_others_dropped),
        found_by=9,
    ),
    Mutant(
        "a told bucket that mints twice",
        NOTHING_CREATES,
        "a new anchor alone lost -",
        updates(_same_anchor),
        found_by=2,
    ),
    Mutant(
        "a told bucket that forgets what overflowed",
        "whoever tells a bucket changes no balance",
        "a new anchor alone lost",
        adding(lambda n: n - 1, BALANCE, where=tells),
        found_by=2,
    ),
    # Refusals
    Mutant(
        "a refusal for what is there",
        "a refusal names what was short",
        "refused for what was there",
        Seams(refuses=_for_every_limit),
        found_by=89,
    ),
    Mutant("refusals counted twice", "rj counts each refusal once", "refusals, ", _refusals(lambda _, n: 2 * n)),
    Mutant(
        "refusals forgotten",
        "rj counts each refusal once",
        "refusals, ",
        _refusals(lambda name, n: n if "_" in name else 0),
    ),
    Mutant(
        "refusals by a parent that nobody counts",
        "rj_ counts what an ancestor refused",
        "refusals, ",
        _refusals(lambda name, n: 0 if "_" in name else n),
    ),
    Mutant(
        "a refusal beside what comes back, told at once",
        "nobody is refused for what is about to come back",
        "about to come back",
        reads("#STATE", _with_less),
        scenario="siblings",
    ),
    # Shadow limits
    Mutant(
        "a shadow limit that refuses",
        "a shadow limit refuses nobody",
        "not in force",
        hides("#CONFIG", "_sh"),
        found_by=4,
    ),
    Mutant(
        "a shadow limit beside which none is enforced",
        PROMISE,
        "not in force",
        reads("#CONFIG", _all_in_shadow),
        found_by=4,
    ),
    Mutant(
        "what shadow limits would have refused, not counted",
        "sj counts what shadow limits would have refused",
        "shadow limits would have refused",
        updates(lambda update: update._replace(add=without(update.add, "sj"))),
        found_by=18,
    ),
    Mutant(
        "a shadow limit that gives a token more than there is",
        "a shadow limit takes what is there",
        "a shadow limit gave",
        reads("#STATE", _with_a_token),
        found_by=18,
    ),
    # Callers that wait
    Mutant(
        "waiting beyond the budget",
        "nobody waits for longer than max_wait",
        "it was to wait",
        Seams(asks=lambda asked: replace(asked, max_wait=asked.max_wait + 1) if asked.max_wait else asked),
        found_by=19,
    ),
    Mutant(
        "no second try",
        "a caller waits for what comes within its budget",
        "of the budget were left",
        Seams(asks=lambda asked: replace(asked, max_wait=0.0)),
        found_by=18,
    ),
    Mutant(
        "a caller whom nobody wakes",
        "a slot that comes back wakes who waits",
        "was woken|waits|sleep",
        Seams(wakes=False),
        scenario="mixed",
        found_by=2574,
    ),
    # Overrides and configs
    Mutant("an override that never ends", "an override ends", "not in force", reads("#CONFIG", _endless), found_by=8),
    Mutant(
        "an override that nobody heeds",
        "an override holds until its end",
        "not in force",
        reads("#CONFIG", _without_override),
        found_by=13,
    ),
    Mutant(
        "an override on all resources that nobody heeds",
        "an override holds until its end",
        "not in force",
        reads("#CONFIG", lambda item: _without_override(item) if item["SK"] == "#CONFIG#_default_" else item),
        found_by=13,
    ),
    Mutant(
        "a config that is read once",
        "limits hold for everybody after config_ttl",
        "not in force",
        as_at_first("#CONFIG"),
        found_by=13,
    ),
    # Paths
    Mutant(
        "an ancestor counted twice",
        "an ancestor is drawn on once",
        "came from nowhere|took",
        adding(lambda n: 2 * n, BALANCE, where=lambda update: "eb" in update.add),
        scenario="paths",
    ),
    Mutant(
        "a further parent forgotten",
        "an acquire takes from all ancestors",
        "has to draw on",
        hides("#META", "parent_ids"),
        scenario="paths",
        found_by=3,
    ),
    Mutant("an ancestor not compensated", NOTHING_LOST, "were dropped", Seams(undoes=gives_back), scenario="paths"),
    # Prefetched tokens
    Mutant(
        "a child that spends what its parent holds",
        "what is held serves one process",
        "too many",
        Seams(forks=lambda _: 0),
        scenario="prefetch",
        found_by=12,
    ),
    Mutant(
        "a reservation that is not taken whole",
        NOTHING_CREATES,
        "came from nowhere",
        adding(lambda n: n + 1 if n < -1 else n, BALANCE),
        scenario="prefetch",
    ),
    Mutant(
        "what was spent, counted twice",
        "tc counts what was spent",
        "lost|a write took",
        adding(lambda n: 2 * n, COUNT, where=lambda update: not takes(update)),
        scenario="prefetch",
    ),
    Mutant(
        "acquires from a prefetch that nobody counts",
        "ev counts the acquires that were served",
        "acquires, and",
        updates(lambda update: update._replace(add=without(update.add, "ev"))),
        scenario="prefetch",
    ),
    # Calendar limits, totals, windows of the first use
    Mutant(
        "a window that begins early",
        "a quota comes when its window begins",
        "were there|in the future",
        _clock(300),
        scenario="calendar",
        found_by=3,
    ),
    Mutant(
        "a new bucket that has carried over",
        "a new bucket begins with one quota",
        "is new, and holds",
        puts(_with_a_token),
        scenario="calendar",
    ),
    Mutant(
        "a total that expires",
        "a bucket with a total has no ttl",
        "more than the ceiling",
        setting(lambda s: s - 3600, "ttl"),
        scenario="calendar",
        found_by=5,
    ),
    Mutant(
        "a window that begins without a condition",
        "two windows never overlap",
        "came from nowhere|were there|more than",
        unasked("equals", where=lambda update: bool(ending(update.set, "_bg"))),
        scenario="first-use",
        found_by=3,
    ),
    Mutant(
        "a window whose begin is forgotten",
        "windows follow one another from their begin",
        "lost|nowhere|were there",
        hides("#STATE", "_bg"),
        scenario="first-use",
        found_by=3,
    ),
    # Slots
    Mutant(
        "a slot given back twice",
        SLOTS_COUNTED,
        "slots are counted twice",
        adding(lambda n: n + 1000, "b_parallel_tk", where=_frees_slots),
        scenario="mixed",
    ),
    Mutant(
        "a take without a look at the slots",
        SLOTS_COUNTED,
        "slots",
        unasked("at_least", of=("b_parallel_tk",)),
        scenario="mixed",
        found_by=80,
    ),
    Mutant(
        "a renewal of slots that counts twice",
        SLOTS_COUNTED,
        "slots are counted twice",
        updates(_renewed_and_kept),
        scenario="mixed",
        found_by=61,
    ),
    # Schedules and switches
    Mutant(
        "a schedule that nobody heeds",
        "a schedule holds from its boundary",
        "not in force",
        hides("#CONFIG", "_sc"),
        scenario="mixed",
        found_by=3,
    ),
    Mutant(
        "a schedule that is late",
        "a schedule holds from its boundary",
        "not in force|from .* on|lost|forgotten",
        _clock(-20_000),
        scenario="mixed",
        found_by=2,
    ),
    Mutant(
        "a boundary that nobody knows",
        NOTHING_CREATES,
        "came from nowhere",
        hides("#STATE", "_si"),
        scenario="mixed",
        found_by=37,
    ),
    Mutant(
        "a disabled entity that is admitted",
        "a disabled entity is refused",
        "disabled before",
        hides("#CONFIG", "disabled"),
        scenario="mixed",
    ),
    Mutant(
        "a bypass that nobody heeds",
        "a bypass admits every call",
        "opened before",
        hides("#CONFIG", "bypass"),
        scenario="mixed",
        found_by=2,
    ),
    Mutant(
        "a cascade that no switch changes",
        "a switch decides about parents",
        "has to draw on",
        hides("#CONFIG", "cascading"),
        scenario="mixed",
        found_by=95,
    ),
    Mutant(
        "a switch of all entities that nobody heeds",
        "a switch holds below its level",
        "before|has to draw on",
        hides("#CONFIG", *SWITCHES, of=lambda item: "ENTITY" not in item["PK"]),
        scenario="mixed",
        found_by=15,
    ),
    Mutant(
        "a switch that tells no bucket",
        "a switch holds when it is set",
        "before",
        Seams(undoes=tells),
        scenario="mixed",
        found_by=28,
    ),
    # Levels
    Mutant(
        "a mode that nobody heeds",
        "a level that extends adds to the next one",
        "not in force",
        hides("#CONFIG", "level_mode"),
        scenario="levels",
    ),
    Mutant(
        "a pattern that nobody heeds",
        "a pattern holds for the resources that begin like it",
        "not in force",
        hides("#CONFIG", "patterns"),
        scenario="patterns",
    ),
    Mutant(
        "a shorter pattern before a longer one",
        "the longest pattern comes first",
        "not in force",
        reads("#CONFIG", _without_longest_pattern),
        scenario="patterns",
        found_by=6,
    ),
    Mutant(
        "a change of the system that loses the patterns",
        "a change of one level leaves the others as they are",
        "not in force",
        requests(_patterns_lost),
        scenario="patterns",
        found_by=3,
    ),
    # Outages
    Mutant(
        "shares over one: others consume nothing",
        "the parts add up to one at most",
        "by a share of at most|more than",
        reads("#STATE", _nothing_consumed),
        scenario="outages",
        found_by=4,
    ),
    Mutant(
        "a debt that is never taken",
        NOTHING_CREATES,
        "came from nowhere|took",
        adding(lambda _: 0, BALANCE, where=_debts),
        scenario="outages",
        found_by=4,
    ),
    Mutant(
        "a debt that is taken twice",
        NOTHING_LOST,
        "lost|took",
        adding(lambda n: 2 * n, BALANCE, where=_debts),
        scenario="outages",
        found_by=4,
    ),
    Mutant(
        "an outage that nobody pays for",
        "each process pays once for what it let through",
        "paid for|took|admitted",
        Seams(undoes=_debts),
        scenario="outages",
        found_by=4,
    ),
    Mutant(
        "a stream that is charged for less than flows",
        "a lease stands for what has flowed of its stream",
        "believes to hold",
        Seams(flows=lambda used: max(0, used - 1000)),
        scenario="streams",
        found_by=7,
    ),
    Mutant(
        "pieces that have not flowed and stay taken",
        NOTHING_LOST,
        "were dropped|believes to hold",
        Seams(undoes=gives_back),
        scenario="streams",
    ),
    Mutant(
        "a piece that was not there",
        PROMISE,
        "admitted, .* were there",
        unasked("at_least", of=(BALANCE,)),
        scenario="streams",
    ),
    Mutant(
        "a reshape that does not tell the birth of its limits",
        "an older one follows the bucket's shape",
        "got other limits",
        setting(lambda _: 1, "cv"),
        scenario="deploys",
        found_by=3,
    ),
    Mutant(
        "a lowered quota that forgets what was used",
        "a change never lowers what counts as used",
        "left of what was used",
        setting(lambda _: 0, "_xs"),
        scenario="quotas",
        found_by=1001,
    ),
)


class Survived(LookupError):
    """No history found the fault."""


class Kill(NamedTuple):
    """The seed that found a mutant, and what it saw."""

    seed: int
    finding: str


def killer(mutant: Mutant, seeds: Iterable[int]) -> Kill:
    """A seed that finds the fault, and nothing without it. Raises ``Survived`` where none does."""
    for seed in (mutant.found_by, *seeds):
        finding = finding_of(seed, mutant.scenario, mutant.seams)
        if re.search(mutant.finds, finding) and not finding_of(seed, mutant.scenario):
            return Kill(seed, finding)
    raise Survived(f"no history found the fault: {mutant.name}")


@lru_cache(maxsize=256)
def finding_of(seed: int, scenario: str, seams: Seams = SOUND) -> str:
    """What the history of a seed does wrong, if anything."""
    try:
        simulate(seed, seams=seams, changes={"scenario": scenario})
    except Violation as violation:
        return str(violation.__cause__)
    return ""
