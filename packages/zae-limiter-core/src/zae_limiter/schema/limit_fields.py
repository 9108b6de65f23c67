"""Make attributes of the fields of a limit, for an item of a bucket or of a config, and read them back."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from .. import values
from ..runtime.dataclass import MISSING, fields
from ..values.limits import Limit
from ..values.weights import Weights
from .attributes import BucketAttributes, LimitAttributes

Item = dict[str, Any]
Attributes = BucketAttributes | LimitAttributes

_FIELDS: Final = frozenset(each.name for each in fields(Limit))
OF_EVERY_LIMIT: Final = frozenset(("capacity", "burst", "refill_amount", "refill_period"))
_DEFAULTS: Final = {each.name: each.default for each in fields(Limit) if each.default is not MISSING}

_SECONDS: Final = {each.name: f"{each.name}_ms" for each in fields(Limit) if type(each.default) is float}


def limit_fields(limit: Limit, at: Attributes, *, unit: int = 1, **left_out: int) -> Item:
    """Return the fields that the item has attributes for, numbers in ``unit``; leave out defaults and ``left_out``."""
    defaults = _DEFAULTS | left_out
    found = {attribute: (field, getattr(limit, field)) for field, attribute in _places(at)}
    return {
        attribute: _stored(field, value, unit)
        for attribute, (field, value) in found.items()
        if value != defaults.get(field)
    }


def read_limit(item: Item, name: str, at: Attributes, *, unit: int = 1) -> Limit:
    """Return a limit of an item; equal ones, of which a table has many, are one value. Raises an error of
    ``UNREADABLE``.
    """
    stored = [item.get(attribute, MISSING) for _, attribute in _places(at)]
    try:
        return _known_limit(name, at, unit, *stored)
    except TypeError:  # a list or a map cannot be looked up: say what is wrong with it
        return _limit(name, at, unit, *stored)


def _limit(name: str, at: Attributes, unit: int, *stored: object) -> Limit:
    """Return the limit whose attributes are ``stored``, in the order of ``_places``."""
    found: dict[str, Any] = {"burst": MISSING}
    for (field, attribute), value in zip(_places(at), stored, strict=True):
        if value is not MISSING:
            found[field] = _read(field, value, unit)
        elif field not in _DEFAULTS and field != "burst":
            raise KeyError(attribute)
    if found["burst"] is MISSING:
        found["burst"] = found["capacity"]
    return Limit(name=name, **found)


_known_limit: Final = lru_cache(maxsize=1024, typed=True)(_limit)  # typed: True is not 1


def plain_fields(limit: Limit) -> Item:
    """Return the fields beside the name, as an audit event has them: without defaults, ``prefetch`` as ``prefetch_ms``,
    ``weights``, ``schedule`` and ``alert`` as text.
    """
    found = {each.name: getattr(limit, each.name) for each in fields(Limit)[1:]}
    changed = {field: value for field, value in found.items() if value != _DEFAULTS.get(field)}
    return {_SECONDS.get(field, field): _stored(field, value, 1) for field, value in changed.items()}


def is_plain_limit(value: object) -> bool:
    """Return whether a value of an audit event is a limit, by its fields."""
    return isinstance(value, Mapping) and value.keys() >= OF_EVERY_LIMIT


def plain_text(plain: Mapping[str, Any]) -> str:
    """Return the text of a limit with these ``plain_fields``, without its weights and its schedule. Raises an error of
    ``UNREADABLE``.
    """
    return values.limit_text.write_limit(_DEFAULTS | _read_plain(plain, _FIELDS - {"name", "weights", "schedule"}))


def plain_limit(name: str, plain: Mapping[str, Any]) -> Limit:
    """Return the limit with these ``plain_fields``. Raises an error of ``UNREADABLE``."""
    return Limit(name=name, **_read_plain(plain, _FIELDS - {"name"}))


def _read_plain(plain: Mapping[str, Any], names: frozenset[str]) -> Item:
    stored = {field: plain.get(_SECONDS.get(field, field)) for field in names}
    return {field: _read(field, value, 1) for field, value in stored.items() if value is not None}


@lru_cache(maxsize=256)
def _places(at: Attributes) -> Sequence[tuple[str, str]]:
    return [(field, attribute) for field, attribute in zip(at._fields, at, strict=True) if field in _FIELDS]


def _stored(field: str, value: Any, unit: int) -> object:
    if field == "alert":
        return values.alerts.write_alert(value)
    if type(value) is float:  # seconds; no item has a float
        return round(value * 1000)
    if isinstance(value, Weights):
        return str(value)
    if isinstance(value, tuple):
        return values.schedules.SEPARATOR.join(map(str, value))
    return value * unit if type(value) is int else value


def _read(field: str, value: object, unit: int) -> object:
    if field == "schedule" and isinstance(value, str):
        return values.schedules.parse_schedule(value)
    if field == "alert" and isinstance(value, str):
        return values.alerts.read_alert(value)
    if type(value) is not int:
        return Weights.parse(field, str(value)) if field == "weights" and isinstance(value, str) else value
    return value / 1000 if field in _SECONDS else value // unit
