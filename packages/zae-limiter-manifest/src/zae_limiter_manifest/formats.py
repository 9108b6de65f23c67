"""The error for plain values in an unknown format, and a context manager that raises it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .problems import ManifestError, printable, shortened

LONGEST_REASON: Final = 300


class FormatError(ValueError):
    """Plain values that this version cannot read as a plan, an answer or a request."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors while reading plain values into a `FormatError` that names `what`."""
    try:
        yield
    except FormatError:
        raise
    except KeyError as error:
        raise FormatError(f"not a {what}: {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        # attrs puts more than the message into an error; a ManifestError has no message but its text
        reason = str(error if isinstance(error, ManifestError) or not error.args else error.args[0])
        raise FormatError(f"not a {what}: {printable(shortened(reason, LONGEST_REASON))}") from error
