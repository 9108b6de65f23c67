"""Describe what went wrong, for logs: without the keys and values of items, which have ids of callers.

The stream has the item, by the record's sequence number, and the dead letter has its key.
"""

import traceback
from typing import Final

OF_CONTENTS: Final = (TypeError, ValueError, LookupError, RecursionError)


def problem_of(error: Exception) -> str:
    """Return the kind of an error and its reason; the kind alone where the text may quote an item."""
    kind = type(error).__name__
    reason = getattr(error, "problem", None)  # of an item that cannot be read, or a name that is invalid
    if isinstance(reason, str):
        return f"{kind}: {reason}"
    return kind if isinstance(error, OF_CONTENTS) else f"{kind}: {error}"


def places_of(error: Exception) -> str:
    """Return the lines of code that an error came through, as a traceback has them, without the error's text."""
    return "".join(traceback.format_tb(error.__traceback__))
