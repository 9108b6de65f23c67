"""Patterns of resources, which have defaults as a resource has: a prefix with one ``*`` at its end, or ``*`` alone."""

from collections.abc import Iterable

from .naming import PATTERN_END


def is_pattern(resource: str) -> bool:
    """Return whether the defaults of a resource are those of a pattern."""
    return resource.endswith(PATTERN_END)


def matches(pattern: str, resource: str) -> bool:
    """Return whether a pattern is one of a resource: that begins with the text before the ``*``."""
    return resource.startswith(pattern.removesuffix(PATTERN_END))


def matching(patterns: Iterable[str], resource: str) -> list[str]:
    """Return the patterns of a resource, the longest first."""
    return sorted((each for each in patterns if matches(each, resource)), key=len, reverse=True)
