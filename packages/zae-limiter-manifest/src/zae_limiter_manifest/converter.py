"""The converter between models and plain (JSON) values, strict both ways. `checks` reports mistakes before it runs."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import AttrsInstance
from cattrs import Converter

SHADOW: Final = "shadow"

CONVERTER: Final = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
"""Fields that equal their defaults are left out."""


def spread_shadow(*levels: type[AttrsInstance]) -> None:
    """Let plain values of these levels have a `shadow` for all of their limits; the models have it on each of them."""
    for level in levels:
        _spread(level)


def _spread(level: type[AttrsInstance]) -> None:
    structure = CONVERTER.get_structure_hook(level)
    CONVERTER.register_structure_hook(level, lambda raw, model: structure(_marked(raw), model))


def _marked(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if SHADOW not in raw:
        return raw
    rest = {key: value for key, value in raw.items() if key != SHADOW}
    if not raw[SHADOW]:
        return rest
    return {**rest, "limits": {name: {**limit, SHADOW: True} for name, limit in raw["limits"].items()}}
