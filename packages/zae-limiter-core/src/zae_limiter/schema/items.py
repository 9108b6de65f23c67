"""The item of a bucket shard: made of values, and read back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum, inf
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, Literal

from ..rules.balances import Begin, ShardLimit, limit_share, reached_at
from ..rules.registry import keeping_ms, rule_of
from ..rules.rule import FOREVER_MS
from ..rules.sharding import MAX_SHARDS, SHARD_COUNTS, Part, new_part
from ..rules.slots import Slots
from ..runtime.dataclass import replace
from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI, Limit
from ..values.resolution import Config
from . import keys
from .attributes import (
    ACQUIRES,
    ANCHOR,
    CASCADE,
    CONFIG_AS_OF,
    COUNTERS,
    ENTITY_ID,
    GSI2SK,
    GSI3PK,
    GSI3SK,
    GSI4SK,
    OF_TEXT,
    PARENT_ID,
    PK,
    RESOURCE,
    RUN_ENDED,
    RUN_UNTIL,
    SHARD_COUNT,
    SK,
    TTL,
    WCU,
    WRITE_TOKENS,
    WRITES_THEN,
    bucket_attributes,
    parse_bucket_attribute,
)
from .limit_fields import limit_fields, read_limit
from .partitions import index_partitions, is_spread
from .record import UNREADABLE, flag, number, optional, reads, text, unreadable

Item = dict[str, Any]
Order = Literal["same", "another time", "newer", "older", "outdated"]

WRITES: Final = bucket_attributes(WCU).consumed
ONE_WRITE: Final = MILLI
_NUMBERS: Final = frozenset((*COUNTERS, TTL, WRITES_THEN, RUN_UNTIL, RUN_ENDED))
FUTURE_MS: Final = 60_000


class LimitState(NamedTuple):
    """One limit of a bucket state, with all values that a write of it needs."""

    name: str
    tokens: str
    consumed: str
    ceiling_milli: int
    minted: Callable[[int], int]
    minted_at_anchor: int
    slow: ShardLimit | None = None
    fraction: str = ""


class BucketState(NamedTuple):
    """A bucket item as it was seen, and its shape: rule, ceiling and attributes of each limit.

    ``fill_ms``: the time in which the slowest limit fills from empty, but for totals that expire; ``unused_ms``: the
    longest time without use until these do, 0 if there are none. From ``begins_ms`` on, a take may begin a window;
    always, where there are slots.
    ``numbers`` picks those of an item that change. ``slots`` names the limits that have slots, whose ``ShardLimit`` is
    of this item alone; ``slow`` has those with a fraction, which changes under the same anchor, by its attribute.
    """

    item: Item
    shard_limits: dict[str, ShardLimit]
    ceilings: Mapping[str, int]
    limit_states: tuple[LimitState, ...]
    fill_ms: int
    unused_ms: int
    begins_ms: int
    numbers: Callable[[Item], tuple[int, ...]]
    slots: frozenset[str] = frozenset()
    slow: Mapping[str, str] = MappingProxyType({})

    @property
    def id(self) -> "BucketId":
        """The id of the item."""
        return BucketId.parse(self.item[PK])

    @property
    def anchor_ms(self) -> int:
        """The instant that the balances are expressed for, in epoch ms; the version of the shape."""
        return int(self.item[ANCHOR])

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits, as the bucket has them."""
        return [each.limit for each in self.shard_limits.values()]

    def has(self, limits: Iterable[Limit]) -> bool:
        """Return whether the bucket has every one of these limits, with the same rule."""
        known = self.shard_limits
        return all(limit.name in known and known[limit.name].limit == limit for limit in limits)

    def has_values_of(self, config: Config) -> bool:
        """Return whether the bucket has every limit of the config with the rule of its time, and an anchor of it."""
        return config.since_ms <= self.anchor_ms and self.has(config.limits)

    def schedule_id(self, limit: str) -> str:
        """Return which schedule the rule of a limit is a piece of; empty without one."""
        found: str = self.item.get(bucket_attributes(limit).schedule_id, "")
        return found

    def is_of(self, config: Config) -> bool:
        """Return whether the bucket was shaped by this config, as of this time or another."""
        has_values = self.has(config.limits) if config.since_ms < 0 else config.has_values(self.limits)
        return has_values and all(self.schedule_id(name) == config.schedule_id(name) for name in config.by_name)

    def compare(self, config: Config) -> Order:
        """Return what limits are beside the shape of the bucket. Nothing else compares their versions.

        ``another time``: they shaped it, as of another time of their schedules. ``newer`` limits shape it, ``older``
        ones go by it, because the store has nothing newer. ``outdated`` ones are to be read again, also different ones
        that were read in the millisecond of the shape: nothing shows which are newer. The budget of a run keeps its
        shape, whatever limits others have for its entity.
        """
        since_ms = self.item[CONFIG_AS_OF]
        if config.born_ms < since_ms and config.read_at_ms < since_ms:
            return "outdated"
        if self.is_of(config):
            return "same" if self.has_values_of(config) else "another time"
        if config.born_ms > since_ms:
            return "older" if RUN_UNTIL in self.item else "newer"
        return "older" if config.read_at_ms > since_ms else "outdated"

    @property
    def is_told(self) -> bool:
        """Whether the limits behind the bucket may have changed since its shape was written."""
        return bool(self.item[CONFIG_AS_OF] > self.anchor_ms)

    @property
    def plain_between(self) -> tuple[int, int]:
        """From when and until when a take changes balances and counts alone: it begins no window, and moves no slots;
        another shard, or a repair of the anchor, is not a part of it.
        """
        return (self.item[ANCHOR] - FUTURE_MS, self.begins_ms) if self.shard_count == 1 else (0, 0)

    def is_in_future(self, now_ms: int) -> bool:
        """Return whether the anchor is so far in the future that a wrong clock must have set it."""
        return bool(self.item[ANCHOR] > now_ms + FUTURE_MS)

    def repaired(self, now_ms: int) -> "BucketState":
        """Return the state as the next repair leaves it: unchanged, unless the anchor is in the future.

        A repair mints nothing, and forgets what was stored; a debt stays.
        """
        if not self.is_in_future(now_ms):
            return self
        rest = (each for each in self.limit_states if each.name not in self.slots)
        forgotten = {each.tokens: min(self.item[each.tokens], 0) for each in rest}
        anchored = anchor_attributes(self.limits, now_ms) | self.whole_at(now_ms)
        begun = {bucket_attributes(each.name).begun for each in self.limit_states}
        kept = {name: value for name, value in self.item.items() if name not in begun}
        return read_bucket({**kept, **forgotten, **anchored})

    def whole_at(self, at_ms: int) -> Item:
        """Return the fractions of slow limits whose balances are whole at an instant."""
        return {attribute: self.shard_limits[name].whole_at(at_ms) for attribute, name in self.slow.items()}

    def begun_attributes(self) -> tuple[str, ...]:
        """Return the attributes of the item that hold the begins of windows."""
        return tuple(at for name in self.shard_limits if (at := bucket_attributes(name).begun) in self.item)

    def excess_attributes(self) -> tuple[str, ...]:
        """Return the attributes of the item that hold what was used beside what balances show."""
        found = (at for name in self.shard_limits for at in _excess_names(name))
        return tuple(at for at in found if at in self.item)

    def excess_change(self, name: str, excess: int, until_ms: int) -> tuple[Item, list[str]]:
        """Return the attributes of another excess of a limit, and the names of those in the item that it has not."""
        noted = excess_attributes(name, excess, until_ms)
        return noted, [at for at in _excess_names(name) if at in self.item and at not in noted]

    def begun_change(self, limit: Limit, begun_ms: int | None) -> tuple[Item, list[str]]:
        """Do the same for the begin of its window; what the item has for the same limit stays, if there is no other."""
        at, known = bucket_attributes(limit.name).begun, self.shard_limits.get(limit.name)
        if begun_ms is not None:
            return {at: begun_ms}, []
        return {}, [at] if at in self.item and (known is None or known.limit != limit) else []

    @property
    def shard_count(self) -> int:
        """The shard count of the bucket, as far as this shard knows."""
        return int(self.item[SHARD_COUNT])

    def share_of(self, limit: Limit, whole: int) -> int:
        """Return the share that this shard has of the ``whole`` of a limit."""
        return limit_share(limit, whole, self.id.shard, self.shard_count)

    def ruled(self, limit: Limit, anchor_ms: int) -> ShardLimit:
        """Return a limit on this shard as it begins anew, at another anchor."""
        return ShardLimit(limit, anchor_ms, self.id.shard, self.shard_count)

    @property
    def outlasts_its_limits(self) -> bool:
        """Whether the bucket stays however full it is: it has several shards, or what was used of a total that is
        another limit by now.
        """
        has_excess = any(each.excess for each in self.shard_limits.values())
        return self.shard_count != 1 or (has_excess and TTL not in self.item)

    @property
    def full_at_ms(self) -> int:
        """The first millisecond at which all limits are at their ceiling, but for totals that expire."""
        item, shard_limits = self.item, self.shard_limits.values()
        return max(
            (
                reached_at(shard_limit, item[each.tokens], each.ceiling_milli)
                for each, shard_limit in zip(self.limit_states, shard_limits, strict=True)
                if not shard_limit.limit._unused_seconds
            ),
            default=0,
        )

    @property
    def parent_link(self) -> Item:
        """``cascade`` and ``parent_id``, as the item has them. Raises ``Unreadable``."""
        return _family(self.item)

    def tokens_milli(self, limit: str) -> int:
        """Return the stored balance of a limit, as of the anchor."""
        return int(self.item[bucket_attributes(limit).tokens])

    def headroom(self, now_ms: int) -> dict[str, int]:
        """Return what each limit has at an instant, in millitokens."""
        item = self.item
        return {
            name: min(each.ceiling_milli, item[bucket_attributes(name).tokens] + each.minted_since_anchor(now_ms))
            for name, each in self.shard_limits.items()
        }

    def short_of(self, amounts: Mapping[str, int], now_ms: int) -> tuple[str, ...]:
        """Return the limits that have less than their amounts at ``now_ms``; ignore limits that the shard lacks."""
        item, shard_limits = self.item, self.shard_limits
        short: tuple[str, ...] = ()
        for name in amounts:
            if name in shard_limits:  # as `refill_bucket` does, without its call: each acquire of a busy bucket asks
                each, amount = shard_limits[name], amounts[name]
                left = item[bucket_attributes(name).tokens] + each.minted_since_anchor(now_ms)
                if amount > left or amount > each.ceiling_milli:
                    short = (*short, name)
        return short

    def part(self, limit: Limit, now_ms: int) -> Part:
        """Return a limit on this shard, with the rule that it has here; as in a new bucket if the shard lacks it."""
        shard_limit = self.shard_limits.get(limit.name)
        if shard_limit is None:
            return new_part(limit, now_ms, self.id.shard, self.shard_count)
        return Part(shard_limit, self.tokens_milli(limit.name))


def read_bucket(item: Item, before: BucketState | None = None) -> BucketState:
    """Return the state of a bucket item. It takes over the shape of ``before`` if anchor and shard count are the
    same.
    """
    try:  # as ``reads`` does, without the cost of its call: every acquire comes by here
        if before is not None:
            old, shard_limits, ceilings, limit_states, fill_ms, unused_ms, begins_ms, numbers, slots, slow = before
            if old[ANCHOR] == item[ANCHOR] and old[SHARD_COUNT] == item[SHARD_COUNT]:
                if fsum(numbers(item)) + item.get(TTL, 0) == inf:  # which raises for what is not a number
                    raise ValueError("its numbers have no sum")
                if slots:
                    shard_limits = shard_limits | {name: _with_slots(shard_limits[name], item) for name in slots}
                for fraction in slow:
                    if old.get(fraction) != item.get(fraction):
                        shard_limits = shard_limits | {
                            name: replace(shard_limits[name], fraction=number(item, at) if at in item else 0)
                            for at, name in slow.items()
                        }
                        limit_states = tuple(_limit_state(name, each) for name, each in shard_limits.items())
                        break
                state = item, shard_limits, ceilings, limit_states, fill_ms, unused_ms, begins_ms, numbers, slots, slow
                return tuple.__new__(BucketState, state)  # as `BucketState` does, without its call
        return _read_anew(item)
    except UNREADABLE as error:
        raise unreadable(item, error) from error


def _read_anew(item: Item) -> BucketState:
    _check(item)
    return _state(item, read_shard_limits(item), item[SHARD_COUNT])


def new_state(item: Item, bucket: "BucketId", limits: Iterable[Limit]) -> BucketState:
    """Return the state of an item that this process has just made by ``bucket_item`` of these limits, as
    ``read_bucket`` reads it, without a look at what it has just written.
    """
    return _state(item, _shard_limits(item, limits, bucket.shard), item[SHARD_COUNT])


def _state(item: Item, shard_limits: dict[str, ShardLimit], shards: int) -> BucketState:
    states = tuple([_limit_state(name, shard_limit) for name, shard_limit in shard_limits.items()])
    ceilings = tuple([(each.limit, each.ceiling_milli) for each in shard_limits.values()])
    form, begins_ms = _form(ceilings, shards), 0
    if not form.slots:
        begins_ms = min([window_end(each) for each in shard_limits.values()], default=FOREVER_MS)
    _, fill_ms, unused_ms, numbers, slots, slow = form
    return BucketState(item, shard_limits, form.ceilings, states, fill_ms, unused_ms, begins_ms, numbers, slots, slow)


class _Form(NamedTuple):
    """What the shapes of all buckets with the same limits share, whatever their anchors: fields of ``BucketState``."""

    ceilings: Mapping[str, int]
    fill_ms: int
    unused_ms: int
    numbers: Callable[[Item], tuple[int, ...]]
    slots: frozenset[str]
    slow: Mapping[str, str]


@lru_cache(maxsize=256)
def _form(limits: tuple[tuple[Limit, int], ...], shards: int) -> _Form:
    """Return the form of a bucket with these limits, each with its ceiling."""
    slots = frozenset(limit.name for limit, _ in limits if limit._has_slots)
    ats = [bucket_attributes(limit.name) for limit, _ in limits]
    changing = [attribute for at in ats for attribute in (at.tokens, at.consumed)]
    changing += [attribute for name in slots for attribute in bucket_attributes(name).slots]
    return _Form(
        ceilings={limit.name: ceiling for limit, ceiling in limits},
        fill_ms=max((keeping_ms(limit, ceiling) for limit, ceiling in limits), default=0),
        unused_ms=max((1000 * limit._unused_seconds for limit, _ in limits), default=0),
        numbers=itemgetter(CONFIG_AS_OF, WRITES, *changing),
        slots=slots,
        slow={bucket_attributes(limit.name).fraction: limit.name for limit, _ in limits if rule_of(limit).unit(shards)},
    )


def _with_slots(shard_limit: ShardLimit, item: Item) -> ShardLimit:
    """Return the limit of an item that has slots, with the slots as they are held now."""
    limit = shard_limit.limit
    epoch, began_ms, even, odd = (number(item, attribute) for attribute in bucket_attributes(limit.name).slots)
    return replace(shard_limit, slots=Slots(epoch, began_ms, even, odd, limit.expires * MILLI))


def _check(item: Item) -> None:
    """Raise an error of ``UNREADABLE`` for an item that core could not have written."""
    if not 0 <= BucketId.parse(text(item, PK)).shard < MAX_SHARDS:
        raise ValueError(f"its key has no shard from 0 to {MAX_SHARDS - 1}")
    if number(item, SHARD_COUNT) not in SHARD_COUNTS:
        raise ValueError(f"{SHARD_COUNT} is not a power of two up to {MAX_SHARDS}")
    for name in (ANCHOR, CONFIG_AS_OF, WRITES):
        number(item, name)
    for name in item:
        of_limit = parse_bucket_attribute(name)
        if name in _NUMBERS or (of_limit is not None and of_limit.field not in OF_TEXT):
            number(item, name)
    _family(item)


@reads
def _family(item: Item) -> Item:
    optional(flag, item, CASCADE)
    optional(text, item, PARENT_ID)
    return {name: item[name] for name in (CASCADE, PARENT_ID) if name in item}


def _limit_state(name: str, shard_limit: ShardLimit) -> LimitState:
    at, ceiling, slow = bucket_attributes(name), shard_limit.ceiling_milli, shard_limit if shard_limit.unit else None
    minted, at_anchor = shard_limit.part.minted, shard_limit.minted_at_anchor
    return LimitState(name, at.tokens, at.consumed, ceiling, minted, at_anchor, slow, at.fraction)


def read_shard_limits(item: Item) -> dict[str, ShardLimit]:
    """Return the ``ShardLimit`` of every limit of a bucket item, by name."""
    *_, shard = keys.parse_bucket_pk(item[PK])
    attributes = [each for each in map(parse_bucket_attribute, item) if each is not None]
    names = [each.limit for each in attributes if each.field == "tokens"]
    rules = (read_limit(item, name, bucket_attributes(name), unit=MILLI) for name in names)
    return _shard_limits(item, rules, shard)


def _shard_limits(item: Item, limits: Iterable[Limit], shard: int) -> dict[str, ShardLimit]:
    """Return the ``ShardLimit`` of each of the limits in an item, which are those that it has, by name."""
    found: dict[str, ShardLimit] = {}
    anchor_ms, shards = item[ANCHOR], item[SHARD_COUNT]
    for limit in limits:
        at = bucket_attributes(limit.name)
        mark, begun_ms, fraction = item.get(at.minted), item.get(at.begun), item.get(at.fraction, 0)
        each = ShardLimit(limit, anchor_ms, shard, shards, mark, begun_ms, fraction=fraction)
        if at.excess in item:
            each.excess, each.excess_until_ms = item[at.excess], item.get(at.excess_until, FOREVER_MS)
        found[limit.name] = _with_slots(each, item) if limit._has_slots else each
    return found


def window_end(shard_limit: ShardLimit) -> int:
    """Return the instant from which on a take begins another window; ``FOREVER_MS`` for windows of another kind."""
    if shard_limit.limit.kind != "first_use":
        return FOREVER_MS
    return 0 if shard_limit.begun_ms is None else shard_limit.rule.reached(1)


def anchor_attributes(limits: Iterable[Limit], anchor_ms: int) -> Item:
    """Return the attributes that express the balances of these limits for an anchor: it, and the marks of their
    rules.
    """
    found: Item = {ANCHOR: anchor_ms}
    for limit in limits:
        if (mark := rule_of(limit).mark(anchor_ms)) is not None:
            found[bucket_attributes(limit.name).minted] = mark
    return found


def excess_attributes(name: str, excess: int, until_ms: int) -> Item:
    """Return the attributes of what was used of a limit beside what its balance shows, until a window ends."""
    at = bucket_attributes(name)
    found: Item = {at.excess: excess} if excess else {}
    return found | {at.excess_until: until_ms} if excess and until_ms < FOREVER_MS else found


def _excess_names(name: str) -> tuple[str, str]:
    """Return the names of these attributes."""
    at = bucket_attributes(name)
    return at.excess, at.excess_until


class _IdFields(NamedTuple):
    namespace_id: str
    entity_id: str
    resource: str
    shard: int
    pk: str


class BucketId(_IdFields):
    """The id of a bucket item: an entity, a resource and a shard of a namespace."""

    __slots__ = ()

    def __new__(cls, namespace_id: str, entity_id: str, resource: str, shard: int = 0) -> "BucketId":
        """Return the id; it has the partition key of the item, ``pk``."""
        pk = keys.pk_bucket(namespace_id, entity_id, resource, shard)
        return tuple.__new__(cls, (namespace_id, entity_id, resource, shard, pk))

    def __str__(self) -> str:
        return f"{self.entity_id}/{self.resource}"

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(pk: str) -> "BucketId":
        """Return the id in a bucket's partition key. Raises ``ValueError`` for any other key."""
        return BucketId(*keys.parse_bucket_pk(pk))

    def other(self, shard: int) -> "BucketId":
        """Return another shard of the same bucket."""
        return BucketId(self.namespace_id, self.entity_id, self.resource, shard)

    def attributes(self, *, spread: bool = False) -> Item:
        """Return keys, index keys and names, which never change; ``spread``: its rows have a suffix."""
        ns, entity_id, resource, shard, pk = self
        return {
            PK: pk,
            SK: keys.sk_state(),
            **index_partitions(ns, entity_id, resource, spread=spread),
            GSI2SK: keys.gsi2_sk_bucket(entity_id, shard),
            GSI3PK: keys.gsi3_pk_entity(ns, entity_id),
            GSI3SK: keys.gsi3_sk_bucket(resource, shard),
            GSI4SK: pk,
            ENTITY_ID: entity_id,
            RESOURCE: resource,
        }


class LimitBalance(NamedTuple):
    """One limit of a new bucket item: its tokens, and the tokens consumed, in millitokens; its ``schedule_id``; and the
    ``fraction`` of a slow limit whose tokens are not whole at the anchor.
    """

    limit: Limit
    tokens: int
    consumed: int = 0
    schedule_id: str = ""
    fraction: int | None = None


def bucket_item(
    bucket: BucketId,
    parent_link: Mapping[str, Any],
    balances: Iterable[LimitBalance],
    *,
    shard_count: int,
    anchor_ms: int,
    config_as_of_ms: int,
    spread: bool,
    expires_at: int | None = None,
) -> Item:
    """Return the item of a new bucket shard, with its entity's ``parent_link``; ``expires_at`` is in epoch seconds.

    ``spread``: its index rows have a suffix, as the table's schema says.
    """
    item: Item = {
        **bucket.attributes(spread=spread),
        **parent_link,
        SHARD_COUNT: shard_count,
        CONFIG_AS_OF: config_as_of_ms,
        ACQUIRES: 0,
        WRITES: ONE_WRITE,
    }
    balances = tuple(balances)
    item |= anchor_attributes([each.limit for each in balances], anchor_ms)
    for limit, tokens, consumed, schedule_id, fraction in balances:
        at = bucket_attributes(limit.name)
        item |= {at.tokens: tokens, at.consumed: consumed, **rule_attributes(limit)}
        if (rule := rule_of(limit)).unit(shard_count):
            whole = rule.remainder(anchor_ms, bucket.shard, shard_count)
            item[at.fraction] = whole if fraction is None else fraction
        if schedule_id:
            item[at.schedule_id] = schedule_id
        if limit._has_slots:
            held = limit_share(limit, limit._ceiling_milli, bucket.shard, shard_count) - tokens
            item |= slot_attributes(limit, anchor_ms, held)
    if expires_at is not None:
        item[TTL] = expires_at
    return item


def sibling_item(
    state: BucketState, bucket: BucketId, begin: Mapping[str, Begin], *, shard_count: int, anchor_ms: int
) -> Item:
    """Return the item of a new shard, with the rules of another one and nothing consumed.

    Its index rows have a suffix if those of the other one have: then the table's schema allows it. It has the tokens of
    the writes whose answers may be lost: a shard of its number may have had one of them, and merged since.
    """
    item = bucket_item(
        bucket,
        state.parent_link,
        (
            LimitBalance(each.limit, begin[name].tokens, 0, state.schedule_id(name), begin[name].fraction)
            for name, each in state.shard_limits.items()
        ),
        shard_count=shard_count,
        anchor_ms=anchor_ms,
        config_as_of_ms=state.item[CONFIG_AS_OF],
        spread=is_spread(state.item),
    )
    return item | {cell: state.item[cell] for cell in WRITE_TOKENS if cell in state.item}


def slot_attributes(limit: Limit, now_ms: int, held: int) -> Item:
    """Return the attributes of slots in a new bucket, or of a limit that is new to it: its first epoch begins."""
    even, odd = (0, held) if now_ms % 2 else (held, 0)
    return dict(zip(bucket_attributes(limit.name).slots, (now_ms, now_ms, even, odd), strict=True))


@lru_cache(maxsize=1024)
def rule_attributes(limit: Limit) -> Mapping[str, Any]:
    """Return the attributes of a bucket item that hold the rule: in thousandths, the burst only if it is not the
    capacity.
    """
    return limit_fields(limit, bucket_attributes(limit.name), unit=MILLI, burst=limit.capacity)
