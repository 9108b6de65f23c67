"""Describe what went wrong, for logs: without the keys and values of items, which have ids of callers.

The stream has the item, by the record's sequence number, and the dead letter has its key.
"""

import re
import traceback
from typing import Final

_QUOTED: Final = r"""(['"]).*\1"""
_NAMES: Final = re.compile(rf"{_QUOTED}|\S*[/#]\S*", re.DOTALL)  # what a server quotes, keys and paths
_VALUES: Final = re.compile(rf"{_QUOTED}|\S*[^\sA-Za-z_.,;:()-]\S*", re.DOTALL)  # all but words and names of attributes
OF_CONTENTS: Final = (TypeError, ValueError, LookupError, RecursionError)


def problem_of(error: Exception) -> str:
    """Return the kind of an error and its reason; the kind alone where the text may quote an item."""
    kind = type(error).__name__
    reason = getattr(error, "problem", None)  # of an item that cannot be read, or a name that is invalid
    if isinstance(reason, str):
        return f"{kind}: {_VALUES.sub('...', reason)}"
    if isinstance(error, OF_CONTENTS) or not all(isinstance(each, str | int) for each in error.args):
        return kind
    return f"{kind}: {_NAMES.sub('...', str(error))}"


def places_of(error: Exception) -> str:
    """Return the lines of code that an error came through, as a traceback has them, without the error's text."""
    return "".join(traceback.format_tb(error.__traceback__))
