"""Between the models and plain values, as JSON has them: the one converter, strict both ways.
Never says what is wrong with a value: `checks` has looked before."""

from typing import Final

from cattrs import Converter

CONVERTER: Final = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
"""What equals its default is left out."""
