"""Plain values that came from elsewhere and are not what they should be.
Never reads one: those who do say here what they were reading."""

from collections.abc import Iterator
from contextlib import contextmanager


class FormatError(ValueError):
    """Plain values that are no plan, or no answer, that this version understands."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns what goes wrong while plain values are read into a `FormatError`."""
    try:
        yield
    except FormatError:
        raise
    except KeyError as error:
        raise FormatError(f"not a {what}: {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        # attrs puts more than the message into an error
        message = error.args[0] if error.args else error
        raise FormatError(f"not a {what}: {message}") from error
