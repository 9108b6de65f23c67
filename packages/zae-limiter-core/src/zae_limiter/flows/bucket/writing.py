"""Every update of a bucket's shard: a ``Change`` says what becomes of each limit, ``write`` says it to the store.

The problem: a balance changes by takes, by time, by another rule, and because the anchor moves under it, and others
write the same item meanwhile, so that no write may set what it has seen. The choice: each limit has a ``Move``, which
says what becomes of any balance, and the one writer makes conditions and additions of it that hold whatever others have
written. An acquire, a reshape, a split, a merge, a repair and a removal differ in their ``Change`` alone; a limit that
it says nothing of is carried to the new anchor. ``fast_path`` makes the commonest of these updates in one pass, because
each acquire pays for it; a test holds it to this.

With a checked amount ``c``, an unchecked one ``a`` and ``g`` given back:

    below its ceiling   tokens BETWEEN c - g - due AND ceiling - minted     ADD tokens moved - (c + a - g)
    at its ceiling      tokens >= ceiling - minted - slack                  SET tokens = full - slack - (c + a - g)

A write at the ceiling forgets what overflowed. Otherwise an idle minute would count twice. A write that only gives back
asks for no anchor: whatever the balance is, it grows by so much.

docs/design/admission.md ("The write"), ``rules.balances``.
"""

from collections.abc import Mapping
from typing import Any, Final

from ...operations.values import NOTHING, Conditions, Item, Key, Update
from ...rules.balances import Begin, Move, ShardLimit, carry
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import ANCHOR, PK, SHARD_COUNT, SK, TTL, BucketAttributes, bucket_attributes
from ...schema.items import (
    ONE_WRITE,
    WRITES,
    BucketState,
    anchor_attributes,
    read_bucket,
    rule_attributes,
    slot_attributes,
)
from ...values.limits import Limit
from ..slots import SlotChange, draft_slots

TTL_SLACK_SECONDS: Final = 5  # the most that the clocks of processes may differ
ANY_TTL: Final = -1


class Change(NamedTuple):
    """What one write changes of a shard; of limits, amounts in millitokens by name.

    ``anchor_ms``: the anchor afterwards, ``None`` for a write that holds under any. ``moves``: what becomes of
    balances. ``take`` must be there, ``force`` may go into debt, ``give`` comes back, ``counted`` changes the count of
    consumed tokens alone. ``slots``: what becomes of those that are held. ``slack`` is left to others at a ceiling;
    ``None`` writes there as below it. ``rules``: those that limits get, ``None`` for one that leaves once it is full;
    ``schedules``: the ids of theirs. By attribute, ``counts`` are added, ``values`` set, ``expected`` and ``at_most``
    asked for.
    """

    anchor_ms: int | None
    moves: Mapping[str, Move | Begin] = NOTHING
    take: Mapping[str, int] = NOTHING
    force: Mapping[str, int] = NOTHING
    give: Mapping[str, int] = NOTHING
    counted: Mapping[str, int] = NOTHING
    slots: Mapping[str, SlotChange] = NOTHING
    slack: Mapping[str, int | None] = NOTHING
    rules: Mapping[str, Limit | None] = NOTHING
    schedules: Mapping[str, str] = NOTHING
    counts: Mapping[str, int] = NOTHING
    values: Mapping[str, Any] = NOTHING
    remove: tuple[str, ...] = ()
    expected: Mapping[str, int] = NOTHING
    at_most: Mapping[str, int] = NOTHING
    ttl: int | None = ANY_TTL

    def net(self, limit: str) -> int:
        """Return the tokens that it takes from the limit."""
        return self.take.get(limit, 0) + self.force.get(limit, 0) - self.give.get(limit, 0)


class Changed(NamedTuple):
    """What a write makes of a limit: its ``move``, what it is then, what it has for requests, and at most."""

    move: Move | Begin
    ruled: ShardLimit
    headroom: int
    ceiling: int


def write(state: BucketState, change: Change, now_ms: int) -> Update:
    """Return the update that makes a change of a shard, which was seen in this state."""
    draft, item, anchor_ms = _Draft(), state.item, change.anchor_ms
    limits: dict[str, Limit | None] = {name: each.limit for name, each in state.shard_limits.items()}
    if anchor_ms is None:  # tokens that come back fit any balance; a split divides them
        touched = {**change.take, **change.force, **change.give, **change.counted}
        limits = {name: limits[name] for name in touched if name in limits}
        draft.exists = tuple(bucket_attributes(name).tokens for name in limits)
        draft.equals[SHARD_COUNT] = state.shard_count
    else:
        draft.equals[ANCHOR] = state.anchor_ms
        limits |= change.rules
    moved_to = None if anchor_ms == state.anchor_ms else anchor_ms
    for name, limit in limits.items():
        if limit is None:
            _draft_removal(draft, state, name, moved_to)
        else:
            _draft_limit(draft, state, change, limit, moved_to, now_ms)
    if moved_to is not None:
        stays = [limit for limit in limits.values() if limit is not None]
        draft.set |= anchor_attributes(stays, moved_to)
        marks = (bucket_attributes(limit.name).minted for limit in stays)
        draft.remove += tuple(mark for mark in marks if mark in item and mark not in draft.set)
    for name, amount in change.counted.items():
        if name not in limits:
            draft.count(bucket_attributes(name).consumed, amount)
    draft.add |= {WRITES: ONE_WRITE, **change.counts}
    draft.set |= change.values
    draft.equals |= change.expected
    draft.at_most |= change.at_most
    draft.remove += change.remove
    if change.ttl != ANY_TTL:
        draft.expire(change.ttl, item)
    return draft.update(item)


def written(state: BucketState, change: Change, now_ms: int) -> BucketState:
    """Return the shard as its write leaves it if no other one comes first."""
    return read_bucket(after(state.item, write(state, change, now_ms)))


def after(item: Item, update: Update) -> Item:
    """Return the item behind an update of what was seen."""
    changed = {**item, **update.set} | {name: item.get(name, 0) + amount for name, amount in update.add.items()}
    return {name: value for name, value in changed.items() if name not in update.remove}


def _draft_removal(draft: "_Draft", state: BucketState, name: str, at_ms: int | None) -> None:
    """Draft that a limit leaves, if it is full at the new anchor: one that comes back begins full."""
    at, was = bucket_attributes(name), state.shard_limits[name]
    assert at_ms is not None, "writes that were decided with the limit must fail"
    draft.at_least[at.tokens] = was.ceiling_milli - was.minted_since_anchor(at_ms)
    if was.unit:
        draft.only_as_seen(at.fraction, state.item)
    draft.remove += tuple(attribute for attribute in at if attribute in state.item)


def _draft_limit(
    draft: "_Draft", state: BucketState, change: Change, limit: Limit, moved_to: int | None, now_ms: int
) -> None:
    """Draft what becomes of the balance of a limit, of its count and of its rule."""
    name, item, net = limit.name, state.item, change.net(limit.name)
    at, was, move = bucket_attributes(name), state.shard_limits.get(name), change.moves.get(name)
    draft.count(at.consumed, net + change.counted.get(name, 0))
    if isinstance(move, Begin):
        draft.set[at.tokens] = move.tokens - net
        draft.keep_fraction(at, move.fraction, item)
        if was is None:
            draft.absent += (at.tokens,)
            draft.add.setdefault(at.consumed, 0)  # the item may count it already
        if limit._has_slots:
            draft.set |= slot_attributes(limit, now_ms, net)
    elif was is None:
        raise AssertionError(f"{name} is new, and begins with nothing")
    elif was.slots is not None and limit._has_slots:
        draft_slots(draft, was, change, now_ms, new=None if move is None else limit)
    else:
        _draft_balance(draft, at, state, change, was, move, net, moved_to)
        if was.slots is not None:
            draft.remove += tuple(at.slots)
    if name in change.rules and (was is None or was.limit != limit):
        rule = rule_attributes(limit)
        draft.set |= rule
        draft.remove += tuple(attribute for attribute in at.rule if attribute not in rule and attribute in item)
    schedule_id = change.schedules.get(name)
    if schedule_id and schedule_id != state.schedule_id(name):
        draft.set[at.schedule_id] = schedule_id
    elif schedule_id == "" and at.schedule_id in item:
        draft.remove += (at.schedule_id,)


def _draft_balance(
    draft: "_Draft",
    at: BucketAttributes,
    state: BucketState,
    change: Change,
    was: ShardLimit,
    move: Move | None,
    net: int,
    moved_to: int | None,
) -> None:
    name, tokens, item = was.limit.name, at.tokens, state.item
    checked, slack = change.take.get(name), change.slack.get(name, 0)
    if move is None or move.ceiling is None:  # whatever the balance is, it changes by so much
        if move is None and moved_to is not None:
            move = carry(was, moved_to)
        draft.count(tokens, (0 if move is None else move.moved) - net)
        return
    held = move.ceiling - move.minted
    least = None if checked is None else checked - change.give.get(name, 0) - move.due
    if checked == 0 and net == 0 and moved_to is None:  # it only asks that no debt is left
        full, draft.at_least[tokens] = False, -change.give.get(name, 0) - move.due
    elif full := slack is not None and item[tokens] >= held:
        held -= slack or 0
        draft.at_least[tokens] = held if least is None else max(held, least)
        draft.set[tokens] = move.full - (slack or 0) - net
    else:
        draft.at_most[tokens] = held
        if least is not None:
            draft.at_least[tokens] = least
        draft.count(tokens, move.moved - net)
    if was.unit and full and moved_to is None and item[tokens] > draft.at_least[tokens]:
        # Others may set the fraction meanwhile, which changes what was minted by a millitoken at most.
        draft.at_least[tokens] += 1
    elif was.unit:
        draft.only_as_seen(at.fraction, item)
    if moved_to is not None or (full and was.unit):
        draft.keep_fraction(at, move.whole if full else move.fraction, item)


class _Draft:
    """An update in the making: each limit adds its conditions and its change."""

    __slots__ = ("absent", "add", "at_least", "at_most", "equals", "exists", "remove", "set")

    def __init__(self) -> None:
        self.add: dict[str, int] = {}
        self.set: dict[str, Any] = {}
        self.remove: tuple[str, ...] = ()
        self.exists: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        self.equals: dict[str, int] = {}
        self.at_least: dict[str, int] = {}
        self.at_most: dict[str, int] = {}

    def count(self, attribute: str, amount: int) -> None:
        """Add to a number, unless ``amount`` is 0."""
        if amount:
            self.add[attribute] = amount

    def only_as_seen(self, attribute: str, item: Mapping[str, Any]) -> None:
        """Ask that an attribute is as it was seen, or absent as it was."""
        if attribute in item:
            self.equals[attribute] = item[attribute]
        else:
            self.absent += (attribute,)

    def keep_fraction(self, at: BucketAttributes, fraction: int | None, item: Mapping[str, Any]) -> None:
        """Set the fraction of a slow limit; a limit that is not slow has none."""
        if fraction is not None:
            self.set[at.fraction] = fraction
        elif at.fraction in item:
            self.remove += (at.fraction,)

    def expire(self, ttl: int | None, item: Mapping[str, Any]) -> None:
        """Set the ``ttl``, or remove it; a condition keeps the write from replacing a later one that was not seen."""
        if ttl is not None:
            self.set[TTL] = ttl
            if TTL in item:
                self.at_most[TTL] = ttl + TTL_SLACK_SECONDS
            else:
                self.absent += (TTL,)
        elif TTL in item:
            self.remove += (TTL,)

    def update(self, item: Mapping[str, Any]) -> Update:
        """Return the finished operation."""
        when = Conditions(self.exists, self.absent, self.equals, self.at_least, self.at_most)
        return Update(Key(item[PK], item[SK]), self.add, self.set, self.remove, when)
