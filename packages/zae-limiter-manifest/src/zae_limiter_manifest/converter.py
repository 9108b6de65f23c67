"""The converter between models and plain (JSON) values, strict both ways. `checks` reports mistakes before it runs."""

from typing import Final

from cattrs import Converter

CONVERTER: Final = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
"""Fields that equal their defaults are left out."""
