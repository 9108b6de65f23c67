"""Map the keys that manifests had before they were renamed to those of today, for errors; deleted with 1.0."""

from collections.abc import Collection
from typing import Final

RENAMED: Final = {"plans": "tiers", "plan": "tier", "ahead": "prefetch"}


def renamed_key(key: object, known: Collection[str]) -> str | None:
    """Return the key of today for one of before, in the spelling of the known keys; None for any other key."""
    if not isinstance(key, str) or key in known:
        return None
    new = RENAMED.get(key.lower())
    return next((each for each in known if each.lower() == new), None)
