"""Convert between models and plain (JSON) values, strictly both ways. `checks` reports mistakes before it runs."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import AttrsInstance
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn

SHADOW: Final = "shadow"

CONVERTER: Final = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
"""Fields that equal their defaults are left out."""


def spread_shadow(level: type[AttrsInstance]) -> None:
    """Let plain values of a level have one `shadow` for all of its limits; the model has it on each limit."""
    structure = make_dict_structure_fn(
        level, CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    CONVERTER.register_structure_hook(level, lambda raw, model: structure(_marked(raw), model))


def _marked(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if SHADOW not in raw:
        return raw
    rest = {key: value for key, value in raw.items() if key != SHADOW}
    if not raw[SHADOW]:
        return rest
    return {**rest, "limits": {name: {**limit, SHADOW: True} for name, limit in raw["limits"].items()}}
