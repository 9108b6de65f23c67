"""Check the fields of concurrent slots."""

from typing import Any, Final

from ..exceptions import ValidationError

EXPIRES: Final = 60  # seconds, unless a limit says otherwise
MAX_EXPIRES: Final = 24 * 3600


def check_expires(name: str, expires: object) -> None:
    """Raise ``ValidationError`` unless ``expires`` is whole seconds from 1 to a day."""
    if type(expires) is not int or not 1 <= expires <= MAX_EXPIRES:
        raise ValidationError(
            f"expires of limit {name!r}", expires, f"must be whole seconds, from 1 to {MAX_EXPIRES} (a day)"
        )


def check_slots(kind: str, fields: dict[str, Any]) -> None:
    """Raise ``ValidationError`` for fields that do not go with concurrent slots, or ``expires`` for another kind."""
    name, capacity = fields["name"], fields["capacity"]
    if kind != "concurrent":
        if fields["expires"] != 0:
            problem = f"belongs to concurrent slots, this is a {kind}: add kind='concurrent', or leave it out"
            raise ValidationError(f"expires of limit {name!r}", fields["expires"], problem)
        return
    check_expires(name, fields["expires"])
    if fields["burst"] != capacity:
        problem = f"must be the capacity, {capacity}: a slot that nobody holds is no credit for later"
        raise ValidationError(f"burst of limit {name!r}", fields["burst"], problem)
    if fields["weights"]:
        problem = "mean nothing for slots: an acquire takes whole ones, and the end of its lease frees them"
        raise ValidationError(f"weights of limit {name!r}", dict(fields["weights"]), problem)
