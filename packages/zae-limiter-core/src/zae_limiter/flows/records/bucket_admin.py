"""Change a bucket by hand: reset and credit, each with its audit event and once under an idempotency key, and merge its
shards.

The request that asks for a change may come twice: its answer was lost, its process was killed, its queue delivers at
least once. So the change and its key are written in one transaction, on the condition that the key is not there. A
repeat finds the key, and writes nothing. A key is kept for 30 days after its change, so the table does not grow for
ever; a change that is repeated later than that is made again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ... import values
from ...exceptions import ValidationError
from ...operations.values import Conditions, Item, Key, Put, Update
from ...rules.balances import Begin, is_quota, share
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import EVENT_ID, PK, TTL, bucket_attributes
from ...schema.idempotency import Done, done_item, done_key, has_expired, read_done
from ...schema.items import BucketId, BucketState
from ...values.audit import AuditAction, Cause
from ...values.buckets import Bucket
from ...values.limits import MILLI, Limit, check_amounts
from ...values.money import show_amount
from ...values.naming import check_idempotency_key, check_limit_name
from ..bucket.anchors import repair
from ..bucket.merging import merge_bucket
from ..bucket.obeying import obey
from ..bucket.reading import balance, bucket_of, read_whole
from ..bucket.writing import ANY_TTL, Change, write
from ..optimistic import Write, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import ATTEMPTS, RaceLost, read
from ..steps import Flow
from ..validation import validate_bucket
from .audit import Plain, event

if TYPE_CHECKING:
    from decimal import Decimal

KEPT_DAYS: Final = 30
_KEPT_SECONDS: Final = KEPT_DAYS * 24 * 3600
_WHAT: Final = {"bucket_credited": "credit", "bucket_reset": "reset"}


class Once(NamedTuple):
    """A change of a bucket that is to be made once under its key."""

    bucket: BucketId
    key: str
    done: Done

    def is_done(self, item: Item | None, now_ms: int) -> bool:
        """Return whether the change was made under this key. Raises ``ValidationError`` if another one was."""
        if item is None or has_expired(item, now_ms):
            return False
        if (before := read_done(item)) != self.done:
            told, meant = map(_in_words, (before, self.done))
            problem = f"stands for {told} of {self.bucket}, not for {meant}: take another key"
            raise ValidationError("idempotency_key", self.key, problem)
        return True

    def put(self, item: Item | None, event: Put, now_ms: int) -> Put:
        """Return the write of the key, for the transaction of the change with its audit ``event``.

        It fails if somebody has written the key since ``item``, which was not there or had expired.
        """
        when = Conditions(absent=(PK,)) if item is None else Conditions(equals={EVENT_ID: item[EVENT_ID]})
        event_id, expires_at = event.item[EVENT_ID], now_ms // 1000 + _KEPT_SECONDS
        return Put(done_item(self.bucket, self.key, self.done, event_id=event_id, expires_at=expires_at), when)


def _once(bucket: BucketId, key: str | None, done: Done) -> Once | None:
    """Return the change of a bucket with its checked key; ``None`` without a key. Raises ``ValidationError``."""
    return None if key is None else Once(bucket, check_idempotency_key("idempotency_key", key), done)


def _in_words(done: Done) -> str:
    tokens = ", ".join(f"{amount} {name}" for name, amount in sorted(done.tokens.items()))
    return f"a {_WHAT.get(done.action, done.action)}{f' of {tokens}' if tokens else ''}"


def reset_bucket(
    namespace_state: NamespaceState, entity_id: str, resource: str, cause: Cause, *, idempotency_key: str | None = None
) -> Flow[bool]:
    """Give every limit of a bucket what a new one begins with, with or without debt; return ``False`` if there is no
    bucket. Slots stay with their holders.

    The bucket gets a new anchor. So a write that was decided by the former balances fails, and is decided again.
    """
    bucket = BucketId(namespace_state.namespace_id, *validate_bucket(entity_id, resource))
    change = _once(bucket, idempotency_key, Done("bucket_reset", {}))

    def writes(states: Sequence[BucketState], found: Bucket, cause: Cause) -> tuple[Sequence[Write], Put]:
        now = namespace_state.now()
        new = {
            each.limit.name: each.limit._initial_milli // MILLI for each in found.limits if not each.limit._has_slots
        }
        told = {"available": found.available | new, **_units(found), **_named(change)}
        audit_put = _event(namespace_state, cause, "bucket_reset", found, told)
        return [filled(state, now) for state in states], audit_put

    was_there = yield from _write_all_shards(namespace_state, bucket, cause, writes, change)
    cached = namespace_state.home_of(bucket)
    if cached is not None and cached.prefetch is not None:
        cached.prefetch.void()
    return was_there


def merge_shards(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[int]:
    """Merge all shards of a bucket into one; return how many have gone. Raises ``RaceLost`` if others write it too
    often.
    """
    bucket = BucketId(namespace_state.namespace_id, *validate_bucket(entity_id, resource))
    return (yield from merge_bucket(namespace_state, bucket))


def credit_bucket(
    namespace_state: NamespaceState,
    entity_id: str,
    resource: str,
    tokens: "Mapping[str, int | Decimal]",
    cause: Cause,
    *,
    idempotency_key: str | None = None,
) -> Flow[bool]:
    """Add tokens by limit, to each shard its share; return ``False`` if there is no bucket. Raises ``ValidationError``.

    Of a rate, the next write forgets what is above the ceiling, as with a refill. So its balances need no condition;
    only the shard count does, because a split changes the shares. What a quota has no room for would be gone for good:
    it is refused, and the write has the condition that the room is still there.
    """
    if not isinstance(tokens, Mapping) or not tokens:
        raise ValidationError("tokens", tokens, "must map at least one limit to an amount, like {'rpm': 10}")
    for name in tokens:
        check_limit_name("tokens", name)
    credit = check_amounts("tokens", tokens)
    for name, amount in credit.items():
        if amount == 0:
            raise ValidationError(f"tokens[{name!r}]", 0, "must be at least 1")
    given = {name: amount // MILLI for name, amount in credit.items()}
    bucket = BucketId(namespace_state.namespace_id, *validate_bucket(entity_id, resource))
    change = _once(bucket, idempotency_key, Done("bucket_credited", given))

    def writes(states: Sequence[BucketState], found: Bucket, cause: Cause) -> tuple[Sequence[Write], Put]:
        limits = {name: each.limit for state in reversed(states) for name, each in state.shard_limits.items()}
        values.money_amounts.refuse_tokens("tokens", credit, (limits,))
        for name in credit.keys() - limits.keys():
            raise ValidationError("tokens", name, f"is not a limit of the bucket (known: {', '.join(sorted(limits))})")
        for name in credit:
            if limits[name]._has_slots:
                problem = "has slots, which come back from their holders: raise its capacity for more of them"
                raise ValidationError("tokens", name, problem)
            if limits[name].blocks:
                problem = (
                    "has a capacity of 0 and holds no tokens: raise it, which the next acquire brings to the bucket"
                )
                raise ValidationError("tokens", name, problem)
        now = namespace_state.now()
        rooms = _rooms(states, found, credit, now)
        there = {each.limit.name: each for each in found.limits}
        left = {
            name: min(there[name].limit.burst, there[name].available + amount)
            for name, amount in given.items()
            if name in there
        }
        told = {"credited": given, "available": found.available | left, **_units(found), **_named(change)}
        audit_put = _event(namespace_state, cause, "bucket_credited", found, told)
        return [credited(state, credit, rooms, now) for state in states], audit_put

    return (yield from _write_all_shards(namespace_state, bucket, cause, writes, change))


def _write_all_shards(
    namespace_state: NamespaceState,
    bucket: BucketId,
    cause: Cause,
    writes: Callable[[Sequence[BucketState], Bucket, Cause], tuple[Sequence[Write], Put]],
    change: Once | None,
) -> Flow[bool]:
    """Write all shards in one transaction, decided again after a lost race. With a ``change`` that was made under its
    key, write nothing. ``writes`` returns those of the shards, and the audit event.
    """

    def attempt(cause: Cause) -> Flow[tuple[Sequence[Write], tuple[bool, Sequence[BucketState]]]]:
        known = None if change is None else (yield from read(Key(*done_key(bucket, change.key))))
        if change is not None and change.is_done(known, namespace_state.now()):
            return (), (True, ())
        states = yield from _read_current(namespace_state, bucket)
        if not states:
            return (), (False, ())
        found = bucket_of(states, namespace_state.now())
        changed, event_put = writes(states, found, cause)
        marks = () if change is None else (change.put(known, event_put, namespace_state.now()),)
        return (*changed, event_put, *marks), (True, states)

    was_there, states = yield from optimistic(cause, attempt)
    stale_ms = namespace_state.now() - namespace_state.settings.staleness_ms
    for each in (state.id for state in states):  # so that this process no longer refuses by its last seen state
        cached = namespace_state.cached_shards.get((each.entity_id, each.resource, each.shard))
        if cached is not None:
            cached.seen_at_ms = min(cached.seen_at_ms, stale_ms)
    return was_there


def _named(change: Once | None) -> Plain:
    """Return what the audit event says of the idempotency key."""
    return {} if change is None else {"idempotency_key": change.key}


def _read_current(namespace_state: NamespaceState, bucket: BucketId) -> Flow[Sequence[BucketState]]:
    """Return all shards under the limits that hold now; an anchor in the future is repaired first, because a later
    repair would take the new tokens away.
    """
    for _ in range(ATTEMPTS):
        [states] = yield from read_whole([bucket])
        now = namespace_state.now()
        late = [state for state in states if state.is_in_future(now)]
        for state in late:
            yield from repair(state, now)
        if not late and not (yield from obey(namespace_state, states)):
            return states
    raise RaceLost


def filled(state: BucketState, now_ms: int) -> Update:
    """Return the update that makes a shard as new at ``now_ms``, even if its anchor has to be later."""
    anchor_ms, moves = max(now_ms, state.anchor_ms + 1), {}
    for name, shard_limit in state.shard_limits.items():
        if shard_limit.limit._has_slots:
            continue  # they are with their holders, and come back with these
        initial = share(shard_limit.limit._initial_milli, shard_limit.shard, shard_limit.shards)
        minted = shard_limit.moved_by_anchor(anchor_ms) - shard_limit.moved_by_anchor(now_ms)
        moves[name] = Begin(initial + minted, shard_limit.whole_at(now_ms) if shard_limit.unit else None)
    return write(state, Change(anchor_ms, moves, remove=state.begun_attributes() + state.excess_attributes()), now_ms)


def _rooms(
    states: Sequence[BucketState], found: Bucket, credit: Mapping[str, int], now_ms: int
) -> dict[str, dict[int, int]]:
    """Return what each shard gets of the credited quotas: its share, or what fits, and of the rest what fits there.

    Raises ``ValidationError`` for a quota that has no room for all.
    """
    parts, limits = {}, {each.limit.name: each.limit for each in found.limits}
    for name, amount in credit.items():
        holders = [state for state in states if name in state.shard_limits]
        limit = holders[0].shard_limits[name].limit
        if not is_quota(limit):
            continue
        room = {
            each.id.shard: max(0, each.shard_limits[name].ceiling_milli - balance(each, name, now_ms))
            for each in holders
        }
        if amount > sum(room.values()):
            raise ValidationError("tokens", name, _no_room(limits.get(name, limit), amount, sum(room.values())))
        part = {shard: min(fits, share(amount, shard, len(holders))) for shard, fits in room.items()}
        for shard, fits in room.items():
            part[shard] += min(fits - part[shard], amount - sum(part.values()))
        parts[name] = part
    return parts


def _no_room(limit: Limit, amount: int, room: int) -> str:
    """Return why a quota takes no such credit, and how its entity gets more than the quota."""
    more, fits, whole = (show_amount(each, limit.unit) for each in (amount // MILLI, room // MILLI, limit.burst))
    wanted = show_amount(limit.capacity + amount // MILLI, limit.unit)
    at_once = f"`zae-limiter lift ENTITY_ID -r RESOURCE -l '{limit.name}:{wanted}' --until TIME`, or override_until"
    way_out = "raise its burst" if limit.kind == "total" else f"raise the limit until the window ends: {at_once}"
    return f"has no room for {more} more, it holds at most {whole}: credit {fits} at most, or {way_out}"


def credited(
    state: BucketState, credit: Mapping[str, int], rooms: Mapping[str, Mapping[int, int]], now_ms: int
) -> Update:
    """Return the update of a shard, with its part of the quotas in ``rooms``, and its share of other limits.

    A credit is a use: a total that expires stays for its whole time from now on.
    """
    shard_limits, ttl = {name: state.shard_limits[name] for name in credit if name in state.shard_limits}, ANY_TTL
    given = {
        name: rooms[name][state.id.shard] if name in rooms else share(credit[name], each.shard, each.shards)
        for name, each in shard_limits.items()
    }
    at_most = {
        bucket_attributes(name).tokens: each.ceiling_milli - each.minted_since_anchor(now_ms) - given[name]
        for name, each in shard_limits.items()
        if given[name] and name in rooms
    }
    if TTL in state.item and state.unused_ms:
        ttl = max(state.item[TTL], -(-(now_ms + state.unused_ms) // 1000))
    return write(state, Change(None, give=given, counted=given, at_most=at_most, ttl=ttl), now_ms)


def _units(bucket: Bucket) -> Plain:
    """Return what the audit event says of the currencies, if limits of the bucket are money."""
    units = {each.limit.name: each.limit.unit for each in bucket.limits if each.limit.unit}
    return {"units": units} if units else {}


def _event(namespace_state: NamespaceState, cause: Cause, action: AuditAction, bucket: Bucket, after: Plain) -> Put:
    before = {"available": bucket.available}
    return event(namespace_state, cause, action, bucket.entity_id, before=before, after=after, resource=bucket.resource)
