"""Convert between models and plain (JSON) values, strictly both ways. `checks` reports mistakes before it runs."""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, Final

from attrs import AttrsInstance
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from .equal_values import MOST_REMEMBERED, NoKey, key_of, value_of
from .limit_text import leaves_open, read_limit
from .metadata import Metadata
from .money import CURRENCIES
from .problems import A_MAP
from .windows import has_no_rate

PARENT: Final = "parent"
PARENTS: Final = "parents"
SHADOW: Final = "shadow"
CASCADE: Final = "cascade"
CASCADES: Final[Mapping[str, bool | None]] = {"on": True, "true": True, "off": False, "false": False, "inherit": None}
"""The words of a level's switch; a boolean stands for itself."""
PREFETCH: Final = "prefetch"
UNLIMITED: Final = "unlimited"  # in place of the limits of a level
EXTENDS: Final = "extends"
WINDOW: Final = "window"
WEIGHTS: Final = "weights"
SCHEDULE: Final = "schedule"
ALERT: Final = "alert"
UNIT: Final = "unit"
OPEN: Final = "leaves_open"  # of a limit's text, no part of its value

CODES: Final = frozenset(CURRENCIES)

CONVERTER: Final = Converter(
    forbid_extra_keys=True,
    omit_if_default=True,
    detailed_validation=False,
    unstruct_collection_overrides={tuple: list},
)
"""Fields that equal their defaults are left out."""
CONVERTER.register_structure_hook(Metadata, lambda raw, _: Metadata.of(raw))
CONVERTER.register_unstructure_hook(Metadata, Metadata.to_dict)


def spread_to_limits(level: type[AttrsInstance]) -> None:
    """Let plain values of a level have one `shadow` and one `prefetch` for its limits; the model has them on each
    limit.
    """
    structure = make_dict_structure_fn(
        level, CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    unstructure = make_dict_unstructure_fn(level, CONVERTER, _cattrs_omit_if_default=True)
    CONVERTER.register_structure_hook(level, _once_for_equals(lambda raw: structure(_spread(raw), level)))
    CONVERTER.register_unstructure_hook(level, lambda value: _with_word(unstructure(value)))


def _with_word(plain: dict[str, Any]) -> dict[str, Any]:
    return {"limits": UNLIMITED, **_without(UNLIMITED, plain)} if UNLIMITED in plain else plain


def _spread(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(raw.get(CASCADE), str):
        raw = {**raw, CASCADE: CASCADES[raw[CASCADE]]}
    if raw.get("limits") == UNLIMITED:
        rest = {key: value for key, value in raw.items() if key not in ("limits", SHADOW, PREFETCH)}
        return {**rest, UNLIMITED: True}
    limits = raw.get("limits")
    if isinstance(limits, A_MAP) and not CODES.isdisjoint(limits):
        raw = {
            **raw,
            "limits": {name: _fields(limit, name) if name in CODES else limit for name, limit in limits.items()},
        }
    if SHADOW not in raw and PREFETCH not in raw:
        return raw
    rest = {key: value for key, value in raw.items() if key not in (SHADOW, PREFETCH)}
    default = {PREFETCH: raw[PREFETCH]} if PREFETCH in raw else {}
    mark = {SHADOW: True} if raw.get(SHADOW) else {}
    if "limits" not in rest:
        return rest
    limits = {name: _with_those(_fields(limit, name), default, mark) for name, limit in rest["limits"].items()}
    return {**rest, "limits": limits}


def _with_those(limit: Mapping[str, Any], default: Mapping[str, Any], mark: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**({} if has_no_rate(limit) else default), **limit, **mark}


def one_parent_or_several(model: type[AttrsInstance]) -> None:
    """Let plain values have one parent as `parent`, and several as `parents`; the model has `parents`."""
    structure = make_dict_structure_fn(
        model, CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    unstructure = make_dict_unstructure_fn(model, CONVERTER, _cattrs_omit_if_default=True)
    CONVERTER.register_structure_hook(model, lambda raw, model: structure(as_parents(raw), model))
    CONVERTER.register_unstructure_hook(model, lambda value: _as_parent(unstructure(value)))


def as_parents(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the plain values of an entity with its one parent as a list."""
    return {PARENTS: [raw[PARENT]], **_without(PARENT, raw)} if PARENT in raw else raw


def _as_parent(plain: dict[str, Any]) -> dict[str, Any]:
    match plain.get(PARENTS):
        case [parent]:
            return {PARENT: parent, **_without(PARENTS, plain)}
    return plain


def _without(key: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    return {each: value for each, value in plain.items() if each != key}


def short_limits(limit: type[AttrsInstance]) -> None:
    """Let the plain value of a limit be its text, too: `100/min burst 200`."""
    structure = make_dict_structure_fn(
        limit, CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    CONVERTER.register_structure_hook(limit, _once_for_equals(lambda raw: structure(_fields(raw), limit)))
    unstructure = make_dict_unstructure_fn(
        limit,
        CONVERTER,
        _cattrs_omit_if_default=True,
        **{OPEN: override(omit=True)},  # type: ignore[arg-type]
    )
    CONVERTER.register_unstructure_hook(limit, unstructure)


def _once_for_equals(structure: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that gives equal plain values one model: it is frozen, and checked itself when it was made."""

    @lru_cache(MOST_REMEMBERED)
    def remembered(key: Hashable) -> Any:
        return structure(value_of(key))

    def hook(raw: Any, _: Any) -> Any:
        try:
            key = key_of(raw)
        except NoKey:
            return structure(raw)
        return remembered(key)

    return hook


def _fields(raw: Mapping[str, Any] | str, name: str = "") -> Mapping[str, Any]:
    if not isinstance(raw, str):
        return raw
    return {**read_limit(raw, name), **({OPEN: True} if leaves_open(raw) else {})}
