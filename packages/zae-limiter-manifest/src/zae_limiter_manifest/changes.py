"""A change: the limits at an address before and after. The action and the changed fields are derived.

``diff`` decides whether a change is needed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Self

from attrs import field, frozen
from attrs.validators import instance_of

from .addresses import Address
from .canonical import canonical
from .checks import enforce
from .converter import (
    ALERT,
    CONVERTER,
    EXTENDS,
    PARENTS,
    PREFETCH,
    SCHEDULE,
    SHADOW,
    UNLIMITED,
    WEIGHTS,
    WINDOW,
    as_parents,
)
from .declarations import RECORD, RESOURCE, SYSTEM, Decl, RecordDecl, ResourceDecl, SystemDecl
from .limit_declarations import LIMIT_FIELDS, LimitDecl
from .switches import SWITCH_FIELDS, SwitchesDecl, switch_word
from .weights import WeightsDecl

Action = Literal["create", "update", "delete"]

ON_UNAVAILABLE: Final = "on_unavailable"
ON_REFUSED: Final = "on_refused"  # of a level, as text: `wait=2,overflow=credits`
_RECORD_KEYS: Final = {"limits": "record", "before": "before_record"}
_SWITCHES_KEYS: Final = {"limits": "switches", "before": "before_switches"}

MODE: Final = "mode"  # of a limit: `shadow`, or `enforced`
NO_WEIGHTS: Final = "none"
USABLE_BURST: Final = "usable_burst"  # of a limit: what its `prefetch` leaves of its burst


class FieldChange(NamedTuple):
    """A changed field of a limit, its mode or usable burst; or, with limit None, the system's `on_unavailable`, a
    level's `on_refused`, mode or switch, or a field of an entity itself (its metadata as JSON,
    several parents with commas).

    A missing value is None.
    """

    limit: str | None
    field: str
    before: float | str | None
    after: float | str | None


def fingerprint(decl: Decl) -> str:
    """Return 32 hex digits, equal for equal declarations; an apply stores them beside the limits that it writes.

    If the fingerprint does not match the live limits, somebody else has changed them.
    """
    return hashlib.sha256(canonical(decl).encode()).hexdigest()[:32]


@frozen
class Change:
    """The change of one address; raises `ValueError` if nothing would change.

    `drift`: the live limits are not those of the last apply. `adopted`: the item exists and was not managed; that alone
    is a change, because the item gets a fingerprint. `reaches`: of a tier, the number of entities that have it.
    """

    address: Address = field(validator=instance_of(Address))
    before: Decl | None
    after: Decl | None
    drift: bool = field(default=False, kw_only=True, validator=instance_of(bool))
    adopted: bool = field(default=False, kw_only=True, validator=instance_of(bool))
    reaches: int | None = field(default=None, kw_only=True, eq=False)

    def __attrs_post_init__(self) -> None:
        model = _model_at(self.address)
        for side in (self.before, self.after):
            if side is not None and not isinstance(side, model):
                raise TypeError(f"{self.address} requires a {model.__name__}, not {side!r}")
        if self.before == self.after and (self.before is None or not self.adopted):
            raise ValueError(f"{self.address} is equal before and after: that is not a change")
        if self.adopted and (self.before is None or self.after is None):
            raise ValueError(f"{self.address} is adopted: it must exist before and after")

    @property
    def action(self) -> Action:
        """The action that makes this change."""
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "update"

    def fields(self) -> tuple[FieldChange, ...]:
        """Return the differences, field by field, in order; a field at its default before and after is left out."""
        return tuple(self._fields())

    def _fields(self) -> Iterator[FieldChange]:
        if self.address.is_record:
            yield from _compare_records(self.before, self.after)
        before, after = _policy(self.before), _policy(self.after)
        if before != after:
            yield FieldChange(None, ON_UNAVAILABLE, before, after)
        yield from _compare_modes(self.before, self.after)
        yield from _compare_switches(self.before, self.after)
        refused, refused_after = _on_refused(self.before), _on_refused(self.after)
        if refused != refused_after:
            yield FieldChange(None, ON_REFUSED, refused, refused_after)
        old, new = _limits(self.before), _limits(self.after)
        for name in sorted({*old, *new}):
            yield from _compare(name, old.get(name), new.get(name))

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of this change in an answer of the Lambda; leave out limits that are missing before or
        after.
        """
        return {
            "action": self.action,
            **self.address.to_dict(),
            **_side(self.after, "limits", ""),
            **_side(self.before, "before", "before_"),
            "drift": self.drift,
            **({"adopted": True} if self.adopted else {}),
            **({} if self.reaches is None else {"reaches": self.reaches}),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the change in the plain values of `to_dict`; raises `KeyError`, `TypeError` or `ValueError`."""
        address = Address.from_dict(raw)
        before = _read_side(address, raw, "before", "before_")
        after = _read_side(address, raw, "limits", "")
        change = cls(
            address, before, after, drift=raw["drift"], adopted=raw.get("adopted", False), reaches=raw.get("reaches")
        )
        if raw["action"] != change.action:
            raise ValueError(f"the action at {address} is {change.action}, not {raw['action']!r}")
        return change


def _model_at(address: Address) -> type[Decl]:
    if address.is_record:
        return RecordDecl
    return SystemDecl if address.level == "system" else ResourceDecl


def _compare_records(old: Decl | None, new: Decl | None) -> Iterator[FieldChange]:
    sides: list[Mapping[str, Any]] = [each.to_plain() if isinstance(each, RecordDecl) else {} for each in (old, new)]
    if any(PARENTS in side for side in sides):  # one parent beside several is a list, too
        sides = list(map(as_parents, sides))
    before, after = sides
    for key in RECORD.members:
        if before.get(key) != after.get(key):
            yield FieldChange(None, key, _said(before.get(key)), _said(after.get(key)))


def _compare_modes(old: Decl | None, new: Decl | None) -> Iterator[FieldChange]:
    """Yield whether a level is unlimited, or extends the next one, where that changes."""
    for name in (UNLIMITED, EXTENDS):
        before, after = (getattr(side, name, False) for side in (old, new))
        if before != after:
            words = (None if side is None else switch_word(name, getattr(side, name, False)) for side in (old, new))
            yield FieldChange(None, name, *words)


def _compare_switches(old: Decl | None, new: Decl | None) -> Iterator[FieldChange]:
    """Yield the switches that change, in words: `inherit`, `yes`, `on`; None beside a level that is not there."""
    before, after = (each.switches if isinstance(each, SwitchesDecl) else {} for each in (old, new))
    for name in SWITCH_FIELDS:
        if before.get(name) != after.get(name):
            sides = ((old, before.get(name)), (new, after.get(name)))
            words = (None if side is None else switch_word(name, value) for side, value in sides)
            yield FieldChange(None, name, *words)


def _said(value: object) -> float | str | None:
    match value:
        case dict():
            return json.dumps(value, sort_keys=True, ensure_ascii=False)
        case list():
            return ", ".join(value)
    return value  # type: ignore[return-value]


def _policy(decl: Decl | None) -> str | None:
    return decl.on_unavailable if isinstance(decl, SystemDecl) else None


def _on_refused(decl: Decl | None) -> str | None:
    policy = None if decl is None or isinstance(decl, RecordDecl) else decl.on_refused
    return None if policy is None else str(policy)


def _limits(decl: Decl | None) -> Mapping[str, LimitDecl]:
    return {} if decl is None or isinstance(decl, RecordDecl) else decl.limits


def _compare(name: str, old: LimitDecl | None, new: LimitDecl | None) -> Iterator[FieldChange]:
    given = {*_given(old), *_given(new)}
    for each in LIMIT_FIELDS:
        before, after = getattr(old, each, None), getattr(new, each, None)
        if each not in given or before == after:
            continue
        if each == WINDOW:
            yield FieldChange(name, each, before or None, after or None)
        elif each == SHADOW:
            yield FieldChange(name, MODE, _mode(before), _mode(after))
        elif each == WEIGHTS:
            yield FieldChange(name, WEIGHTS, _text(before, old), _text(after, new))
        elif each == SCHEDULE:
            yield FieldChange(name, SCHEDULE, _entries(before), _entries(after))
        elif each == ALERT:
            yield FieldChange(name, ALERT, _percents(before), _percents(after))
        else:
            yield FieldChange(name, each, before, after)
    if PREFETCH in given and (usable := _usable(old)) != (usable_after := _usable(new)):
        yield FieldChange(name, USABLE_BURST, usable, usable_after)


def _usable(limit: LimitDecl | None) -> int | None:
    return None if limit is None else limit.usable_burst


def _text(weights: WeightsDecl | None, limit: LimitDecl | None) -> str | None:
    """Return the weights as text: `none` for a limit without them, None if there is no limit."""
    if limit is None:
        return None
    return NO_WEIGHTS if weights is None else str(weights)


def _entries(schedule: tuple[str, ...] | None) -> str | None:
    """Return the entries of a schedule as text: `none` if it has none, None if there is no limit."""
    if schedule is None:
        return None
    return "; ".join(schedule) or NO_WEIGHTS


def _percents(alert: tuple[int, ...] | None) -> str | None:
    """Return percentages as text, `80,95`: `none` if there are none, None if there is no limit."""
    return None if alert is None else ",".join(map(str, alert)) or NO_WEIGHTS


def _mode(shadow: bool | None) -> str | None:  # noqa: FBT001  a field's value
    if shadow is None:
        return None
    return "shadow" if shadow else "enforced"


def _given(limit: LimitDecl | None) -> dict[str, float]:
    return CONVERTER.unstructure(limit) if limit else {}


def _side(decl: Decl | None, limits: str, prefix: str) -> dict[str, Any]:
    if decl is None:
        return {}
    if isinstance(decl, RecordDecl):
        return {_RECORD_KEYS[limits]: decl.to_plain()}
    refused = None if decl.on_refused is None else CONVERTER.unstructure(decl.on_refused)
    policies: dict[str, Any] = {f"{prefix}{ON_UNAVAILABLE}": _policy(decl), f"{prefix}{ON_REFUSED}": refused}
    plain: Any = {name: CONVERTER.unstructure(limit) for name, limit in decl.limits.items()}
    if decl.unlimited:
        plain = UNLIMITED
    if isinstance(decl, ResourceDecl) and decl.extends:
        policies[f"{prefix}{EXTENDS}"] = True
    switches = {_SWITCHES_KEYS[limits]: decl.switches} if decl.switches else {}
    return {limits: plain, **{name: said for name, said in policies.items() if said is not None}, **switches}


def _read_side(address: Address, raw: Mapping[str, Any], limits: str, prefix: str) -> Decl | None:
    if address.is_record:
        return _read_record(address, raw, _RECORD_KEYS[limits])
    if limits not in raw:
        return None
    policies = {name: raw.get(f"{prefix}{name}") for name in (ON_UNAVAILABLE, ON_REFUSED, EXTENDS)}
    plain = {name: value for name, value in policies.items() if value is not None}
    plain |= {**({"limits": raw[limits]} if raw[limits] else {}), **raw.get(_SWITCHES_KEYS[limits], {})}
    model = _model_at(address)
    enforce(SYSTEM if model is SystemDecl else RESOURCE, plain, f"{address}: {limits}")
    return CONVERTER.structure(plain, model)


def _read_record(address: Address, raw: Mapping[str, Any], key: str) -> Decl | None:
    if key not in raw:
        return None
    enforce(RECORD, raw[key], f"{address}: {key}")
    return CONVERTER.structure(raw[key], RecordDecl)
