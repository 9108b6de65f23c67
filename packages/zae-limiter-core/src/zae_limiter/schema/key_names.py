"""Encode entity ids and resources as keys have them: those of plain characters as they are, others percent-encoded."""

import re
from functools import lru_cache
from typing import Final
from unicodedata import is_normalized
from urllib.parse import quote, unquote

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.\-~:@/]{1,512}")  # names that are the same in keys


def encode(name: str) -> str:
    """Return an entity id or a resource as keys have it; no two names have the same."""
    return name if _PLAIN.fullmatch(name) else _encode(name)


@lru_cache(maxsize=16_384)
def _encode(name: str) -> str:
    return quote(name, safe=":@/")


def decode(part: str) -> str:
    """Return the entity id or resource that ``encode`` turns into this text. Raises ``ValueError`` for any other
    text.
    """
    if _PLAIN.fullmatch(part):  # nothing is encoded in most names, and a read of usage has a name in each row
        return part
    name = unquote(part, errors="strict")
    if encode(name) != part or not is_normalized("NFC", name):
        raise ValueError(f"no name in a key: {part!r}")
    return name
