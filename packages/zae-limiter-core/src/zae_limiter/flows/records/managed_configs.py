"""Read and write the configs of all levels at once, for the provisioner."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

from ...exceptions import ValidationError
from ...operations.values import BatchGet, Found, Item, Key
from ...schema.configs import other_attributes, read_config
from ...schema.plan_keys import audit_plan, plan_of_subject
from ...values.audit import Cause
from ...values.bulk import BulkResult
from ...values.on_refused import OnRefused
from ...values.provisioner import ConfigPlace, StoredConfig
from ...values.switches import NO_SWITCHES
from ..bucket.telling import tell_many
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState
from ..retry import KEYS_PER_READ, key_of, read_all
from ..steps import Flow, call_all
from ..validation import validate_keys
from .bulk_configs import change_many
from .levels import SYSTEM, Change, of_entity, of_plan, of_resource, place_of
from .listing import entity_config_rows, resource_rows
from .plans import plan_rows

READS_AT_ONCE: Final = 8

P = TypeVar("P")
T = TypeVar("T")


def _validate_places(places: Sequence[ConfigPlace]) -> list[ConfigPlace]:
    """Return the places in order, without duplicates. Raises ``ValidationError``."""
    if not isinstance(places, Iterable):
        raise ValidationError("places", places, "must be places, each an entity and a resource, or None")
    return list(dict.fromkeys(_checked(place) for place in places))


def _validate_configs(configs: Mapping[ConfigPlace, StoredConfig | None]) -> dict[ConfigPlace, StoredConfig | None]:
    """Return the new configs by place. Raises ``ValidationError``."""
    if not isinstance(configs, Mapping):
        raise ValidationError("configs", configs, "must map places to StoredConfig, or to None to remove what is there")
    checked = validate_keys("configs", configs, _checked)
    for place, config in checked.items():
        if config is not None and not isinstance(config, StoredConfig):
            raise ValidationError("configs", config, "must be a StoredConfig, or None for nothing")
        if config is not None and config.on_unavailable is not None and place != SYSTEM:
            raise ValidationError("on_unavailable", config.on_unavailable, "is for the system alone")
        if config is not None and config.on_refused is not None and not config.limits and place != SYSTEM:
            raise ValidationError("on_refused", str(config.on_refused), "without limits is for the system alone")
        if config is not None and config.on_refused is not None:
            OnRefused.check("on_refused", config.on_refused, place[1])
        if config is not None and config.switches and plan_of_subject(place[0]) is not None:
            raise ValidationError("switches", place[0], "are for the other levels: a plan has limits alone")
        if config is not None and config.override is not None:
            problem = "is for set_limits(override_until=): leave it out, and the one in force stays"
            raise ValidationError("override", config.override, problem)
    return checked


def get_configs(
    namespace_state: NamespaceState, places: Sequence[ConfigPlace], *, skip_unreadable: bool
) -> Flow[dict[ConfigPlace, StoredConfig]]:
    """Return the stored configs by place, without empty places; read in batches, several at a time."""
    wanted = {place_of(namespace_state, place).key: place for place in _validate_places(places)}
    found = yield from read_many(list(wanted))
    now_ms = namespace_state.now()
    configs = yield from read_each(
        namespace_state, wanted, found, lambda item: read_config(item, now_ms), skip_unreadable=skip_unreadable
    )
    return {place: config for place, config in configs.items() if config is not None}


def put_configs(
    namespace_state: NamespaceState, configs: Mapping[ConfigPlace, StoredConfig | None], cause: Cause
) -> Flow[BulkResult[ConfigPlace]]:
    """Replace the configs at these places, or delete them (``None``), each with its audit event; overrides stay."""
    changes = {place: _change(namespace_state, place, config) for place, config in _validate_configs(configs).items()}
    return (yield from change_many(namespace_state, changes, cause, tell_many))


def list_config_places(namespace_state: NamespaceState) -> Flow[list[ConfigPlace]]:
    """Return the places that may have limits: the system, and the resources, plans and entities that the index
    shows.
    """
    rows = IndexRows(namespace_state.namespace_id)
    resources = yield from resource_rows(rows, with_switches=True)
    plans = yield from plan_rows(rows)
    own = yield from entity_config_rows(rows)
    yield from report(rows)
    return [
        SYSTEM,
        *((None, resource) for resource in resources),
        *((audit_plan(plan), resource) for plan, resource in plans),
        *((each.entity_id, each.resource) for each in own),
    ]


def read_many(wanted: Sequence[Key]) -> Flow[dict[Key, Item]]:
    """Return the items that exist, by key; read keys again, with retries, that a wave left unread."""
    items: dict[Key, Item] = {}
    batches = [tuple(wanted[start : start + KEYS_PER_READ]) for start in range(0, len(wanted), KEYS_PER_READ)]
    for start in range(0, len(batches), READS_AT_ONCE):
        wave = batches[start : start + READS_AT_ONCE]
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
    wanted: Mapping[Key, P],
    found: Mapping[Key, Item],
    reader: Callable[[Item], T],
    *,
    skip_unreadable: bool,
) -> Flow[dict[P, T]]:
    """Return what the reader makes of the items, by what each was ``wanted`` for. Raises ``Unreadable``, unless a list
    skips such items and tells them.
    """
    if not skip_unreadable:
        return {wanted[key]: reader(item) for key, item in found.items()}
    rows = IndexRows(namespace_state.namespace_id)
    sound = rows.read(found.values(), lambda item: (wanted[key_of(item)], reader(item)))
    yield from report(rows)
    return dict(sound)


def _change(namespace_state: NamespaceState, place: ConfigPlace, config: StoredConfig | None) -> Change:
    at = place_of(namespace_state, place)
    if config is None:
        return Change(at, None, switches=asdict(NO_SWITCHES))
    return Change(at, config.limits, other_attributes(config), kept=(), switches=asdict(config.switches))


def _checked(place: ConfigPlace) -> ConfigPlace:
    match place:
        case (None, None):
            return SYSTEM
        case (None, resource):
            return of_resource(resource)
        case (str(entity), resource) if (plan := plan_of_subject(entity)) is not None:
            return of_plan(plan, resource)
        case (entity, resource):
            return of_entity(entity, resource)
    raise ValidationError(
        "places", place, "must name places as (entity_id, resource), with None for the parts that a level lacks"
    )
