"""Check whole numbers."""

from ..exceptions import ValidationError


def check_whole(field: str, value: object, *, at_least: int, at_most: int) -> None:
    """Raise ``ValidationError``, which names ``field``, for anything but a whole number between these, inclusive."""
    if type(value) is not int:
        raise ValidationError(field, value, "must be a whole number")
    if not at_least <= value <= at_most:
        raise ValidationError(field, value, f"must be from {at_least} to {at_most}")
