"""Check whole numbers, seconds and flags. Each check raises ``ValidationError``, which names ``field``."""

import sys

from ..exceptions import ValidationError


def check_whole(field: str, value: object, *, at_least: int, at_most: int | None = None, fraction: str = "") -> None:
    """Refuse anything but a whole number between these, inclusive; the problem of a number that is not whole ends with
    ``fraction``.
    """
    if type(value) is not int or (at_most is None and value < at_least):
        problem = "must be a whole number" if at_most is not None else f"must be a whole number, at least {at_least}"
        raise ValidationError(field, value, problem + (fraction if hasattr(value, "as_integer_ratio") else ""))
    if at_most is not None and not at_least <= value <= at_most:
        raise ValidationError(field, value, f"must be from {at_least} to {at_most}")


def check_number(field: str, value: object, *, at_least: float) -> None:
    """Refuse anything but a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not at_least <= value <= sys.float_info.max:
        raise ValidationError(field, value, f"must be a number of seconds, at least {at_least}")


def check_flag(field: str, value: object) -> None:
    """Refuse anything but true and false."""
    if type(value) is not bool:
        raise ValidationError(field, value, "must be true or false")
