"""The amounts of a call, by limit: checked, and in millitokens."""

from collections.abc import Mapping

from ..exceptions import ValidationError
from .limits import MAX_TOKENS, MILLI


def check_amounts(field: str, amounts: Mapping[str, int], *, signed: bool = False) -> dict[str, int]:
    """Return amounts in millitokens by limit. Raises ``ValidationError`` for a fraction, boolean or negative amount."""
    least = -MAX_TOKENS if signed else 0
    milli = {}
    for name, amount in amounts.items():
        if type(amount) is not int or not least <= amount <= MAX_TOKENS:
            kind = "a whole number of tokens" if signed else "a whole number of tokens, 0 or more"
            raise ValidationError(f"{field}[{name!r}]", amount, f"must be {kind}, at most {MAX_TOKENS}")
        milli[name] = amount * MILLI
    return milli
