"""The rules of the tree of entities that no single section can break: each parent is declared, no entity is above
itself, and an acquire draws on few buckets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from .checks import Finding
from .converter import PARENT, PARENTS
from .naming import in_nfc
from .problems import A_MAP, Path, show

MOST_BUCKETS: Final = 8
"""The most buckets that one acquire draws on: those of the entity, and of all above it."""

_ENTITIES: Final = "entities"
_SHOWN: Final = 10


class _Above(NamedTuple):
    """The parents that a section names, in NFC, and where each of them is."""

    parents: tuple[str, ...]
    places: tuple[Path, ...]


_NOBODY: Final = _Above((), ())


def find_tree_problems(manifest: object) -> Iterator[Finding]:
    """Yield the problems of parents in the plain values of a manifest; parts of another type have their own."""
    entities = manifest.get(_ENTITIES) if isinstance(manifest, A_MAP) else None
    if not isinstance(entities, A_MAP):
        return
    sections = {in_nfc(name): each for name, each in entities.items() if isinstance(name, str)}
    above: dict[str, _Above] = {}
    for name, section in entities.items():
        if isinstance(section, A_MAP) and isinstance(name, str):
            above[in_nfc(name)] = parents = _parents(name, section)
            yield from _in_section((_ENTITIES, name), section, sections, parents)
    if any(each.parents for each in above.values()):
        yield from _in_tree(above)


def _in_section(
    path: Path, section: Mapping[object, object], sections: Mapping[str, object], above: _Above
) -> Iterator[Finding]:
    if PARENT in section and PARENTS in section:
        yield Finding((*path, PARENTS), f"is the same as `{PARENT}`, for several: leave one of them out", on_key=True)
    elif section.get("cascade") is True and PARENT not in section and PARENTS not in section:
        yield Finding((*path, "cascade"), "needs a `parent` to take from: add one, or leave it out")
    name = str(path[-1])
    for parent, place in zip(*above, strict=True):
        if parent == in_nfc(name):
            yield Finding(place, f"an entity cannot be its own parent: {show(parent)}")
        elif parent not in sections:
            advice = f"declare it, by `{show(parent)}: {{}}` at least"
            yield Finding(place, f"{show(parent)} is not an entity of this manifest: {advice}")


def _parents(name: str, section: Mapping[object, object]) -> _Above:
    """Return the parents in a section; none that are of another type, and none of both keys."""
    if PARENT not in section and PARENTS not in section:
        return _NOBODY
    path, single, several = (_ENTITIES, name), section.get(PARENT), section.get(PARENTS)
    if PARENTS not in section and isinstance(single, str):
        return _Above((in_nfc(single),), ((*path, PARENT),))
    if PARENT in section or not isinstance(several, list):
        return _NOBODY
    named = [(in_nfc(each), (*path, PARENTS, place)) for place, each in enumerate(several) if isinstance(each, str)]
    return _Above(tuple(parent for parent, _ in named), tuple(place for _, place in named))


def _in_tree(tree: Mapping[str, _Above]) -> Iterator[Finding]:
    """Yield each circle, and the uppermost entities that have too many others above them."""
    graph = {
        name: tuple(dict.fromkeys(parent for parent in each.parents if parent in tree and parent != name))
        for name, each in tree.items()
    }
    ordered = _parents_first(graph)
    for circle in _circles({name: graph[name] for name in graph.keys() - ordered.keys()}, tree):
        first, second = circle[0], circle[1]
        place = tree[first].places[tree[first].parents.index(second)]
        yield Finding(place, f"goes in a circle: {_way([*circle, first])}")
    for name, above in _too_many(ordered, graph):
        many = f"{_listed(above)} are above it, and its acquire would draw on {len(above) + 1} buckets"
        yield Finding(_whole(tree[name]), f"{many}: at most {MOST_BUCKETS}")


def _parents_first(graph: Mapping[str, Sequence[str]]) -> dict[str, None]:
    """Return the entities, each after its parents, without those that are in a circle or below one."""
    waits_for = {name: len(parents) for name, parents in graph.items()}
    children: dict[str, list[str]] = {}
    for name, parents in graph.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    ready = [name for name, count in waits_for.items() if not count]
    for name in ready:  # grows meanwhile
        for child in children.get(name, ()):
            waits_for[child] -= 1
            if not waits_for[child]:
                ready.append(child)
    return dict.fromkeys(ready)


def _circles(graph: Mapping[str, Sequence[str]], order: Iterable[str]) -> Iterator[list[str]]:
    """Yield circles among entities of which each is in one or below one; every entity is visited once."""
    seen: set[str] = set()
    for name in order:
        way: dict[str, None] = {}
        while name in graph and name not in seen:
            seen.add(name)
            way[name] = None
            name = next(parent for parent in graph[name] if parent in graph)  # noqa: PLW2901  one step up
        if name in way:
            steps = list(way)
            yield steps[steps.index(name) :]


def _too_many(ordered: Iterable[str], graph: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the entities that have too many above them although none of their parents has, with those above."""
    above: dict[str, dict[str, None]] = {}
    for name in ordered:
        parents = graph[name]
        if any(parent not in above for parent in parents):
            continue
        found = dict.fromkeys(parents)
        for parent in parents:
            found |= above[parent]
        if len(found) < MOST_BUCKETS:
            above[name] = found
        else:
            yield name, list(found)


def _whole(above: _Above) -> Path:
    """Return the place of all parents of a section."""
    first = above.places[0]
    return first if first[-1] == PARENT else first[:-1]


def _way(names: Sequence[str]) -> str:
    shown = [show(each) for each in names]
    if len(shown) > _SHOWN:
        shown[_SHOWN - 1 : -1] = [f"{len(shown) - _SHOWN:,} more"]
    return " -> ".join(shown)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(show, names[:_SHOWN]))}{more}"
