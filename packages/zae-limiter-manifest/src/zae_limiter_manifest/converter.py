"""Convert between models and plain (JSON) values, strictly both ways. `checks` reports mistakes before it runs."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import AttrsInstance
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn

from .windows import has_no_rate

SHADOW: Final = "shadow"
AHEAD: Final = "ahead"
WINDOW: Final = "window"
WEIGHTS: Final = "weights"

CONVERTER: Final = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
"""Fields that equal their defaults are left out."""


def spread_to_limits(level: type[AttrsInstance]) -> None:
    """Let plain values of a level have one `shadow` and one `ahead` for its limits; the model has them on each
    limit.
    """
    structure = make_dict_structure_fn(
        level, CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    CONVERTER.register_structure_hook(level, lambda raw, model: structure(_spread(raw), model))


def _spread(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if SHADOW not in raw and AHEAD not in raw:
        return raw
    rest = {key: value for key, value in raw.items() if key not in (SHADOW, AHEAD)}
    default = {AHEAD: raw[AHEAD]} if AHEAD in raw else {}
    mark = {SHADOW: True} if raw.get(SHADOW) else {}
    if "limits" not in rest:
        return rest
    return {
        **rest,
        "limits": {name: {**_ahead(limit, default), **limit, **mark} for name, limit in rest["limits"].items()},
    }


def _ahead(limit: Mapping[str, Any], default: Mapping[str, Any]) -> Mapping[str, Any]:
    return {} if has_no_rate(limit) else default
