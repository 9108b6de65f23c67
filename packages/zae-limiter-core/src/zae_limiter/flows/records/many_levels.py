"""Read and change many levels at once: the limits of many entities, or all that an apply has to change.

Changes go in waves of transactions of many changes each, which are grouped and repeated here; ``levels`` has the writes
of one change.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, Generic, TypeVar

from ...exceptions import InfrastructureError, ValidationError
from ...operations.errors import Invalid, NotApplied, OutcomeUnknown, StoreError, Throttled, TransactionCancelled
from ...operations.values import BatchGet, Found, Item, Key, Put, Transact
from ...runtime.named_tuple import NamedTuple
from ...schema.configs import other_attributes, read_config
from ...schema.keys import audit_tier, tier_of_subject
from ...values.audit import Cause
from ...values.bulk import BulkResult, P
from ...values.limits import Limit
from ...values.naming import DEFAULT_RESOURCE
from ...values.on_refused import OnRefused
from ...values.provisioner import ConfigPlace, StoredConfig
from ...values.switches import NO_SWITCHES
from ..bucket.telling import Told, tell_many, tell_own
from ..index_rows import IndexRows, report
from ..optimistic import Write, optimistic
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..retry import ATTEMPTS, KEYS_PER_READ, PAUSES, RACE_PAUSES, RaceLost, key_of, parts, read, read_all
from ..steps import Flow, Sleep, call_all
from ..validation import OwnPlace, validate_changes, validate_keys, validate_places
from .levels import (
    SYSTEM,
    Change,
    item_after,
    of_entity,
    of_resource,
    of_tier,
    place_of,
    tier_rows,
    write_of,
    writes_of,
)
from .listing import entity_config_rows, read_patterns, resource_rows

K = TypeVar("K")
T = TypeVar("T")
Tell = Callable[[NamespaceState, Iterable[OwnPlace]], Flow[Told]]

READS_AT_ONCE: Final = 8
CHANGES_PER_TRANSACTION = 25
TRANSACTIONS_AT_ONCE = 8
CHANGES_OF_ITEM = 90  # which one transaction writes, with as many audit events
CHANGES_PER_WAVE = CHANGES_PER_TRANSACTION * TRANSACTIONS_AT_ONCE
_OFF: Final = asdict(NO_SWITCHES)
PASSING = frozenset((None, "ConditionalCheckFailed", "TransactionConflict"))  # codes of changes to try again


class _Wanted(NamedTuple, Generic[P]):
    """One change of many; ``number`` distinguishes its audit event from the others.

    ``alone``: it goes into a transaction of its own, because the store refused one with others that may be the cause.
    """

    number: int
    place: P
    change: Change
    alone: bool = False


class _Batch(NamedTuple, Generic[P]):
    """Changes that are written together or not at all, two writes each."""

    wanted: list[_Wanted[P]]
    transact: Transact


def set_many(
    namespace_state: NamespaceState,
    limits: Mapping[OwnPlace, Sequence[Limit | str]],
    cause: Cause,
    *,
    extends: bool = False,
) -> Flow[BulkResult[OwnPlace]]:
    """Replace the limits at all places."""
    checked = validate_changes(limits, extends=extends)
    changes = {place: Change(place_of(namespace_state, place), chosen) for place, chosen in checked.items()}
    return (yield from change_many(namespace_state, changes, cause))


def delete_many(
    namespace_state: NamespaceState, places: Iterable[OwnPlace], cause: Cause
) -> Flow[BulkResult[OwnPlace]]:
    """Delete the limits at all places."""
    changes = {place: Change(place_of(namespace_state, place), None) for place in validate_places(places)}
    return (yield from change_many(namespace_state, changes, cause))


def get_configs(
    namespace_state: NamespaceState, places: Sequence[ConfigPlace], *, skip_unreadable: bool
) -> Flow[dict[ConfigPlace, StoredConfig]]:
    """Return the stored configs by place, without empty places; read in batches, several at a time."""
    if not isinstance(places, Iterable):
        raise ValidationError("places", places, "must be places, each an entity and a resource, or None")
    at = {place: place_of(namespace_state, place) for place in map(_checked, places)}
    items = yield from read_many(list(dict.fromkeys(each.key for each in at.values())))
    wanted = {each.own_key: place for place, each in at.items()}
    found = {each.own_key: config for each in at.values() if (config := each.config_in(items.get(each.key)))}
    now_ms = namespace_state.now()
    configs = yield from read_each(
        namespace_state, wanted, found, lambda item: read_config(item, now_ms), skip_unreadable=skip_unreadable
    )
    return {place: config for place, config in configs.items() if config is not None}


def put_configs(
    namespace_state: NamespaceState,
    configs: Mapping[ConfigPlace, StoredConfig | None],
    cause: Cause,
    found_empty: Collection[ConfigPlace] = (),
) -> Flow[BulkResult[ConfigPlace]]:
    """Replace the configs at these places, or delete them (``None``), each with its audit event; overrides stay.

    Those ``found_empty`` by the caller are not read before their first attempt, whose condition is that they still are.
    """
    changes: dict[ConfigPlace, Change] = {}
    for place, config in _checked_configs(configs).items():
        at = place_of(namespace_state, place)
        if config is None:
            changes[place] = Change(at, None, switches=_OFF)
        else:
            extra, switches = other_attributes(config), asdict(config.switches) if config.switches else _OFF
            changes[place] = Change(at, config.said, extra, kept=(), switches=switches)
    return (yield from change_many(namespace_state, changes, cause, tell_many, frozenset(found_empty)))


def list_config_places(namespace_state: NamespaceState) -> Flow[list[ConfigPlace]]:
    """Return the places that may have limits: the system, and the resources, tiers and entities that the index
    shows.
    """
    rows = IndexRows(namespace_state.namespace_id)
    resources = yield from resource_rows(rows, with_switches=True)
    tiers = yield from tier_rows(rows)
    own = yield from entity_config_rows(rows)
    yield from report(rows)
    resources += yield from read_patterns(namespace_state)
    return [
        SYSTEM,
        *((None, resource) for resource in resources),
        *((audit_tier(tier), resource) for tier, resource in tiers),
        *((each.entity_id, each.resource) for each in own),
    ]


def read_many(wanted: Sequence[Key]) -> Flow[dict[Key, Item]]:
    """Return the items that exist, by key; read keys again, with retries, that a wave left unread."""
    items: dict[Key, Item] = {}
    for wave in parts([tuple(each) for each in parts(wanted, KEYS_PER_READ)], READS_AT_ONCE):
        answers = yield from call_all(map(BatchGet, wave))
        left: list[Key] = []
        for batch, answer in zip(wave, answers, strict=True):
            if isinstance(answer, Found):
                items |= answer.items
                left += answer.unread
            else:
                left += batch
        items |= yield from read_all(left)
    return items


def read_each(
    namespace_state: NamespaceState,
    wanted: Mapping[Key, K],
    found: Mapping[Key, Item],
    reader: Callable[[Item], T],
    *,
    skip_unreadable: bool,
) -> Flow[dict[K, T]]:
    """Return what the reader makes of the items, by what each was ``wanted`` for. Raises ``Unreadable``, unless a list
    skips such items and reports them.
    """
    if not skip_unreadable:
        return {wanted[key]: reader(item) for key, item in found.items()}
    rows = IndexRows(namespace_state.namespace_id)
    sound = rows.read(found.values(), lambda item: (wanted[key_of(item)], reader(item)))
    yield from report(rows)
    return dict(sound)


def change_many(
    namespace_state: NamespaceState,
    changes: Mapping[P, Change],
    cause: Cause,
    tell: Tell = tell_own,
    found_empty: Collection[P] = (),
) -> Flow[BulkResult[P]]:
    """Make all changes, each with its audit event, then ``tell`` the live buckets of their entities."""
    waiting = [_Wanted(number, place, change) for number, (place, change) in enumerate(changes.items())]
    shared = [wanted for wanted in waiting if wanted.change.place.is_shared]
    failures: dict[P, StoreError] = {}
    may_be_written = False
    if len(shared) > 1:
        failures = yield from _change_shared(namespace_state, shared, cause)
        waiting, may_be_written = [wanted for wanted in waiting if wanted not in shared], True
    for attempt in range(ATTEMPTS):
        if attempt > 1:  # let others finish
            yield Sleep(RACE_PAUSES[attempt])
        again: list[_Wanted[P]] = []
        for number, wave in enumerate(parts(waiting, CHANGES_PER_WAVE)):
            try:
                unread = [wanted for wanted in wave if attempt or wanted.place not in found_empty]
                found = yield from read_many([wanted.change.place.key for wanted in unread])
                batches = _prepare(namespace_state, wave, found, cause, attempt, number)
            except StoreError as error:
                if not may_be_written:
                    raise  # the whole call fails
                failures |= {wanted.place: error for wanted in wave}
            else:
                left = yield from _send(batches, failures)
                lost = {wanted.place for wanted in left}.union(failures)
                unknown = any(isinstance(each, OutcomeUnknown) for each in failures.values())
                may_be_written |= unknown or any(wanted.place not in lost for wanted in wave)
                again += left
        waiting = again
        if not waiting:
            break
    failures |= {wanted.place: RaceLost() for wanted in waiting}
    for change in changes.values():
        namespace_state.configs.mark_changed(change.place.key)
    made = {place: change for place, change in changes.items() if place not in failures}
    failures |= yield from _tell(namespace_state, made, tell)
    done = tuple(place for place in changes if place not in failures)
    shown: dict[P, InfrastructureError] = {}
    for place, failure in failures.items():
        shown[place] = public_error(namespace_state.stack, failure)
        shown[place].__cause__ = failure
    return BulkResult(done, shown)


def _change_shared(
    namespace_state: NamespaceState, shared: Sequence[_Wanted[P]], cause: Cause
) -> Flow[dict[P, StoreError]]:
    """Change the levels that are in one item, deleted ones first; all of them in one transaction, if it has the room.
    Return the failures.
    """
    failures: dict[P, StoreError] = {}
    in_order = sorted(shared, key=lambda each: each.change.limits is not None)
    for number, part in enumerate(parts(in_order, CHANGES_OF_ITEM)):
        own = cause.before(number)  # for its tokens

        def attempt(cause: Cause, part: Sequence[_Wanted[P]] = part) -> Flow[tuple[Sequence[Write], None]]:
            key = part[0].change.place.key
            before = yield from read(key)
            after, events = before, list[Put]()
            for each in part:
                after, event = item_after(namespace_state, each.change, after, cause, number=each.number)
                events += () if event is None else (event,)
            return ((write_of(key, before, after, events[-1]), *events) if events else ()), None

        try:
            yield from optimistic(own, attempt)
        except StoreError as error:
            failures |= {wanted.place: error for wanted in part}
    return failures


def _tell(namespace_state: NamespaceState, changes: Mapping[P, Change], tell: Tell) -> Flow[dict[P, StoreError]]:
    """Invalidate the live buckets of entities whose limits were changed; return the changes with a failure."""
    own = {place: at for place, change in changes.items() if (at := change.place.own) is not None}
    try:
        told = yield from tell(namespace_state, own.values())
    except StoreError as error:
        return dict.fromkeys(own, error)
    failed: dict[OwnPlace, StoreError] = {}
    for bucket, why in told.failed.items():
        failed |= {(bucket.entity_id, bucket.resource): why, (bucket.entity_id, DEFAULT_RESOURCE): why}
    return {place: failed[at] for place, at in own.items() if at in failed}


def _prepare(
    namespace_state: NamespaceState,
    waiting: Sequence[_Wanted[P]],
    found: Mapping[Key, Item],
    cause: Cause,
    attempt: int,
    wave: int,
) -> list[_Batch[P]]:
    """Return the transactions for the changes, by the stored configs; leave out deletes of nothing. Raises
    ``StoreError``.
    """
    to_write: list[tuple[_Wanted[P], tuple[Write, ...]]] = []
    for wanted in waiting:
        before = found.get(wanted.change.place.key)
        if writes := writes_of(namespace_state, wanted.change, before, cause, number=wanted.number):
            to_write.append((wanted, writes))
    together = [each for each in to_write if not each[0].alone]
    alone = [each for each in to_write if each[0].alone]
    batches: list[_Batch[P]] = []
    for part in (*parts(together, CHANGES_PER_TRANSACTION), *parts(alone, 1)):
        token = cause.request_token(attempt, wave * CHANGES_PER_WAVE + len(batches))
        transact = Transact(tuple(write for _, writes in part for write in writes), token)
        batches.append(_Batch([wanted for wanted, _ in part], transact))
    return batches


def _send(batches: Sequence[_Batch[P]], failures: dict[P, StoreError]) -> Flow[list[_Wanted[P]]]:
    """Send the transactions; return the changes that lost a race. Failures that are final go to ``failures``."""
    again: list[_Wanted[P]] = []
    for wave in parts(batches, TRANSACTIONS_AT_ONCE):
        for batch, answer in (yield from _settle(wave)):
            if isinstance(answer, TransactionCancelled):
                for wanted, reasons in zip(batch.wanted, parts(answer.reasons, 2), strict=True):
                    if {reason.code for reason in reasons} <= PASSING:  # not this one cancelled it
                        again.append(wanted)
                    else:
                        failures[wanted.place] = TransactionCancelled(tuple(reasons))
            elif type(answer) in {NotApplied, Invalid} and len(batch.wanted) > 1:
                again += [wanted._replace(alone=True) for wanted in batch.wanted]
            elif isinstance(answer, StoreError):
                failures |= {wanted.place: answer for wanted in batch.wanted}
    return again


def _settle(wave: Sequence[_Batch[P]]) -> Flow[list[tuple[_Batch[P], StoreError | None]]]:
    """Return the last answer to each transaction. Its token makes it safe to send again after a lost answer."""
    settled: list[tuple[_Batch[P], StoreError | None]] = []
    left = wave
    for pause in (*PAUSES, None):
        answers = yield from call_all(batch.transact for batch in left)
        pairs = list(zip(left, answers, strict=True))
        left = [batch for batch, answer in pairs if pause and isinstance(answer, (Throttled, OutcomeUnknown))]
        settled += [pair for pair in pairs if pair[0] not in left]
        if not left or pause is None:
            break
        yield Sleep(pause)
    return settled


def _checked_configs(configs: Mapping[ConfigPlace, StoredConfig | None]) -> dict[ConfigPlace, StoredConfig | None]:
    """Return the new configs by place. Raises ``ValidationError``."""
    if not isinstance(configs, Mapping):
        raise ValidationError("configs", configs, "must map places to StoredConfig, or to None to remove what is there")
    checked = validate_keys("configs", configs, _checked)
    for place, config in checked.items():
        if config is None:
            continue
        if not isinstance(config, StoredConfig):
            raise ValidationError("configs", config, "must be a StoredConfig, or None for nothing")
        if config.on_unavailable is not None and place != SYSTEM:
            raise ValidationError("on_unavailable", config.on_unavailable, "is for the system alone")
        if config.on_refused is not None and not config.said and place != SYSTEM:
            raise ValidationError("on_refused", str(config.on_refused), "without limits is for the system alone")
        if config.on_refused is not None:
            OnRefused.check("on_refused", config.on_refused, place[1])
        if config.switches and tier_of_subject(place[0]) is not None:
            raise ValidationError("switches", place[0], "are for the other levels: a tier has limits alone")
        if config.override is not None:
            problem = "is for set_limits(override_until=): leave it out, and the one in force stays"
            raise ValidationError("override", config.override, problem)
    return checked


def _checked(place: ConfigPlace) -> ConfigPlace:
    match place:
        case (None, None):
            return SYSTEM
        case (None, resource):
            return of_resource(resource)
        case (str(entity), resource) if (tier := tier_of_subject(entity)) is not None:
            return of_tier(tier, resource)
        case (entity, resource):
            return of_entity(entity, resource)
    raise ValidationError(
        "places", place, "must name places as (entity_id, resource), with None for the parts that a level lacks"
    )
