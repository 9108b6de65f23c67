"""Check the fields of concurrent slots, and ``expires``, which totals have too."""

from typing import Any, Final

from ..exceptions import ValidationError

EXPIRES: Final = 60  # seconds, unless a limit says otherwise
MAX_EXPIRES: Final = 24 * 3600
LEAST_OF_TOTAL: Final = 24 * 3600
MOST_OF_TOTAL: Final = 10 * 365 * 24 * 3600


def check_expires(name: str, expires: object) -> None:
    """Raise ``ValidationError`` unless ``expires`` is whole seconds from 1 to a day."""
    if type(expires) is not int or not 1 <= expires <= MAX_EXPIRES:
        raise ValidationError(
            f"expires of limit {name!r}", expires, f"must be whole seconds, from 1 to {MAX_EXPIRES} (a day)"
        )


def check_expires_of_total(name: str, expires: object) -> None:
    """Raise ``ValidationError`` unless ``expires`` is whole seconds from a day to ten years."""
    if type(expires) is not int or not LEAST_OF_TOTAL <= expires <= MOST_OF_TOTAL:
        bounds = f"from {LEAST_OF_TOTAL} (a day) to {MOST_OF_TOTAL} (ten years)"
        problem = f"must be whole seconds after the last use, {bounds}; leave it out for a total that never expires"
        raise ValidationError(f"expires of limit {name!r}", expires, problem)


def check_slots(kind: str, fields: dict[str, Any]) -> None:
    """Raise ``ValidationError`` for fields that do not go with concurrent slots, or for a wrong ``expires``."""
    name, capacity, expires = fields["name"], fields["capacity"], fields["expires"]
    if kind == "total" and (expires != 0 or type(expires) is not int):
        check_expires_of_total(name, expires)
    if kind != "concurrent":
        if kind != "total" and expires != 0:
            problem = (
                f"belongs to a total or to concurrent slots, this is a {kind}: add kind='total' or kind='concurrent',"
                " or leave it out"
            )
            raise ValidationError(f"expires of limit {name!r}", expires, problem)
        return
    check_expires(name, expires)
    if fields["burst"] != capacity:
        problem = f"must be the capacity, {capacity}: unused slots do not accumulate"
        raise ValidationError(f"burst of limit {name!r}", fields["burst"], problem)
    if fields["weights"]:
        problem = "mean nothing for slots: an acquire takes whole ones, and the end of its lease frees them"
        raise ValidationError(f"weights of limit {name!r}", dict(fields["weights"]), problem)
