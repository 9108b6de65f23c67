"""The configs of the patterns of resources (``anthropic/*``, ``*``): parts of the item of the system's config.

So who reads the system's limits knows all patterns, and a change of one is a write of that item. The parts look like
the config of a resource to everyone else: ``pattern_items`` gives them the keys that such a one would have.

A pattern matches the resources that begin with the text before its ``*``. For a resource the longest pattern comes
first; it may leave the word to a shorter one, as levels do.
"""

from collections.abc import Iterator
from typing import Final

from ..exceptions import ValidationError
from ..values.naming import check_resource
from ..values.patterns import matching
from . import keys
from .attributes import CONFIG_VERSION, PATTERNS, PK, RESOURCE
from .record import Item, a_map, item_keys

MOST_PATTERNS: Final = 100


def fixed_attributes(ns: str, pattern: str) -> Item:
    """Return the attributes that the config of a pattern would have as an item of its own."""
    return {**item_keys(ns, keys.pk_resource(ns, pattern), keys.sk_config()), RESOURCE: pattern}


def configs_of(system: Item | None, resource: str) -> "Iterator[tuple[str, Item]]":
    """Yield the patterns of a resource in the system's config, the longest first, each with its part."""
    if system is None or PATTERNS not in system:
        return
    parts = a_map(system, PATTERNS)
    for pattern in matching(parts, resource):
        yield pattern, _part(system, parts, pattern)


def pattern_items(system: Item | None) -> list[Item]:
    """Return the configs of all patterns, as if each were an item of its own."""
    if system is None or PATTERNS not in system:
        return []
    parts = a_map(system, PATTERNS)
    return [_part(system, parts, pattern) for pattern in sorted(parts)]


def without_patterns(system: Item | None) -> Item | None:
    """Return the system's config without the patterns; ``None`` if it has nothing else."""
    if system is None or CONFIG_VERSION not in system:
        return None
    return {name: value for name, value in system.items() if name != PATTERNS}


def with_system(ns: str, before: Item | None, after: Item | None) -> Item | None:
    """Return the item of the system's config with another part of its own; ``None`` for none."""
    parts = (before or {}).get(PATTERNS)
    if not parts:
        return after
    return {**(after or _fixed(ns)), PATTERNS: parts}


def with_pattern(ns: str, before: Item | None, pattern: str, after: Item | None) -> Item | None:
    """Return the item of the system's config with another config of a pattern, or without it; ``None`` for none.

    Raises ``ValidationError`` for a pattern too many.
    """
    parts = {name: part for name, part in (before or {}).get(PATTERNS, {}).items() if name != pattern}
    if after is not None:
        fixed = fixed_attributes(ns, pattern)
        parts[pattern] = {name: value for name, value in after.items() if name not in fixed}
    if len(parts) > MOST_PATTERNS:
        raise ValidationError("resource", pattern, f"would be one pattern too many: a namespace has {MOST_PATTERNS}")
    own = without_patterns(before)
    return {**(own or _fixed(ns)), PATTERNS: parts} if parts else own


def _fixed(ns: str) -> Item:
    return item_keys(ns, keys.pk_system(ns), keys.sk_config())


def _part(system: Item, parts: Item, pattern: str) -> Item:
    check_resource(PATTERNS, pattern, allow_pattern=True)
    ns = system[PK].removesuffix(keys.pk_system(""))
    return {**a_map(parts, pattern), **fixed_attributes(ns, pattern)}
