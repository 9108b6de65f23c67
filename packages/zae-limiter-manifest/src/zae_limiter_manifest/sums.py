"""The limits that come together where levels extend others: too many of them do not fit into a bucket."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from .checks import Finding
from .converter import EXTENDS, UNLIMITED
from .limit_declarations import MAX_LIMITS
from .naming import DEFAULT_RESOURCE, matching
from .problems import A_MAP, Path, show

_Levels = Mapping[object, object]
_NO_LEVELS: Final[_Levels] = {}


def find_sums(manifest: Mapping[object, object]) -> Iterator[Finding]:
    """Yield each level that extends others, and has too many limits with them, in the plain values of a manifest."""
    of_all, system = _levels_in(manifest), manifest.get("system")
    tiers = manifest.get("tiers")
    of_tiers = {name: _levels_in(each) for name, each in tiers.items()} if isinstance(tiers, A_MAP) else {}
    yield from _too_many(("resources",), of_all, (), of_all, system)
    for name, levels in of_tiers.items():
        yield from _too_many(("tiers", name, "resources"), levels, (), of_all, system)
    entities = manifest.get("entities")
    for name, section in entities.items() if isinstance(entities, A_MAP) else ():
        if levels := _levels_in(section):
            tier = of_tiers.get(section.get("tier"), _NO_LEVELS) if isinstance(section, A_MAP) else _NO_LEVELS
            yield from _too_many(("entities", name, "resources"), levels, (tier,), of_all, system)


def _too_many(
    path: Path, levels: _Levels, weaker: Sequence[_Levels], of_all: _Levels, system: object
) -> Iterator[Finding]:
    """Yield the levels of a section; ``weaker``: those of the sections between it and the resources."""
    for resource, level in levels.items():
        if not _extends(level) or not isinstance(resource, str):
            continue
        on = (
            [resource] if resource != DEFAULT_RESOURCE else [DEFAULT_RESOURCE, *_extending_over(levels, weaker, of_all)]
        )
        for each in on:
            found = _chain(each, resource, levels, weaker, of_all, system)
            names = _together(found)
            if len(names) > MAX_LIMITS:
                where = "" if each == resource else f" on {show(each)}"
                text = f"gives {len(names)} limits together{where}: a bucket has at most {MAX_LIMITS}"
                yield Finding((*path, resource, EXTENDS), f"{text}, so let one level not extend the next")
                break


def _extending_over(levels: _Levels, weaker: Sequence[_Levels], of_all: _Levels) -> list[str]:
    """Return the resources that a level of all resources may add to."""
    named = (each for section in (*weaker, of_all) for each in section if each not in levels)
    return [each for each in dict.fromkeys(named) if isinstance(each, str) and each != DEFAULT_RESOURCE]


def _chain(
    on: str, resource: str, levels: _Levels, weaker: Sequence[_Levels], of_all: _Levels, system: object
) -> Iterator[object]:
    """Yield the levels of a resource, from that which was named on."""
    yield levels.get(resource)
    if levels is not of_all:
        if resource != DEFAULT_RESOURCE:
            yield levels.get(DEFAULT_RESOURCE)
        for section in weaker:
            yield section.get(on)
            yield section.get(DEFAULT_RESOURCE)
        yield of_all.get(on)
    for pattern in matching([each for each in of_all if isinstance(each, str)], on):
        yield of_all[pattern]
    yield system


def _together(chain: Iterator[object]) -> set[object]:
    names = set[object]()
    for level in chain:
        limits = level.get("limits") if isinstance(level, A_MAP) else None
        if isinstance(limits, A_MAP):
            names |= limits.keys()
        if limits == UNLIMITED or (limits and not _extends(level)):
            break
    return names


def _extends(level: object) -> bool:
    return isinstance(level, A_MAP) and level.get(EXTENDS) is True


def _levels_in(section: object) -> _Levels:
    levels = section.get("resources") if isinstance(section, A_MAP) else None
    return levels if isinstance(levels, A_MAP) else _NO_LEVELS
