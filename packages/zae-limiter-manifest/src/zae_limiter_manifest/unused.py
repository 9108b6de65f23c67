"""Warn of tiers that no entity has, and of names that stand once and look mistyped."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from .manifest import LimitsManifest
from .naming import DEFAULT_RESOURCE, matching
from .problems import Path, format_path
from .warned import LONE_LIMIT, UNNAMED_RESOURCE, UNUSED_TIER, Warned
from .winners import all_levels

_MOST_NAMES: Final = 200  # of limits, of which each may be compared with each
_DIGITS: Final = re.compile("[0-9]+")
_CLOSE: Final = 0.85  # `rpmm` to `rpm`; `input_tokens` and `output_tokens` are two


def find_unused(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield unused tiers, resources that no level of this file limits, and limits that one level alone has."""
    used = {each.tier for each in manifest.entities.values()}
    for tier in manifest.tiers:
        if tier not in used and used - {None}:  # else programs give entities their tiers
            text = "is the tier of no entity of this file, which gives others tiers"
            yield Warned(UNUSED_TIER, manifest.namespace, ("tiers", tier), text)
    yield from _unnamed_resources(manifest)
    yield from _lone_limits(manifest)


def _unnamed_resources(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield overflows to a resource that no level limits, and resources of one level that look like a known one."""
    places: dict[str, list[Path]] = {}
    for path, resource, _ in all_levels(manifest):
        if resource not in (None, DEFAULT_RESOURCE):
            places.setdefault(str(resource), []).append(path)
    everywhere = manifest.system is not None and manifest.system.limits
    for path, _, level in all_levels(manifest):
        overflow = None if level.on_refused is None else level.on_refused.overflow
        limited = overflow is None or overflow in places or matching(manifest.resources, overflow)
        if overflow is not None and not limited and not everywhere:
            text = f"is {overflow}, which no level of this file limits"
            yield Warned(UNNAMED_RESOURCE, manifest.namespace, (*path, "on_refused", "overflow"), text)
    known = {_letters(each): each for each in manifest.resources}
    for resource, paths in places.items():
        like = known.get(_letters(resource))
        if len(paths) == 1 and resource not in manifest.resources and like is not None:
            text = f"names a resource that nothing else in this file names: did you mean `{like}`?"
            yield Warned(UNNAMED_RESOURCE, manifest.namespace, paths[0], text)


def _letters(resource: str) -> tuple[str, str]:
    """Return what names have in common that differ in signs or the order of letters; models differ in more."""
    return "".join(sorted(filter(str.isalpha, resource))), "".join(filter(str.isdigit, resource))


def _lone_limits(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield the limits that one level alone has, where weaker levels limit the same calls by other names.

    The one level of a resource of its own, such as a budget, has the names that it needs; one that `extends` means to
    add.
    """
    places: dict[str, list[tuple[Path, str | None, bool]]] = {}
    limited: dict[str | None, int] = {}
    for path, resource, level in all_levels(manifest):
        adds = getattr(level, "extends", False)
        if level.limits and not adds:
            limited[resource] = limited.get(resource, 0) + 1
        for name in level.limits:
            places.setdefault(name, []).append((path, resource, adds))
    names = list(places) if len(places) <= _MOST_NAMES else []
    for name, found in places.items():
        path, resource, adds = found[0]
        if len(found) > 1:
            continue
        like = _mistyped(name, names)
        if like is not None or (
            path[0] in ("tiers", "entities")
            and not adds
            and limited.get(resource, 0) > 1
            and resource != DEFAULT_RESOURCE
        ):
            hint = f": did you mean `{like}`?" if like else f", of all that limit {resource or 'the same calls'}"
            text = f"is at {format_path(path)} alone{hint}"
            yield Warned(LONE_LIMIT, manifest.namespace, (*path, "limits", name), text)


def _mistyped(name: str, known: list[str]) -> str | None:
    """Return the known name that was probably meant, if one is close; names that differ in digits alone are several."""
    close = get_close_matches(name, [each for each in known if each != name], n=3, cutoff=_CLOSE)
    return next((each for each in close if _DIGITS.sub("", each) != _DIGITS.sub("", name)), None)
