"""The rules of the tree of entities that no single section can break: each parent is declared, and at the top."""

from collections.abc import Iterator, Mapping

from .converter import PARENT, PARENTS
from .naming import in_nfc
from .problems import show
from .value_checks import Finding

_ENTITIES = "entities"


def find_tree_problems(manifest: object) -> Iterator[Finding]:
    """Yield the problems of parents in the plain values of a manifest; parts of another type have their own."""
    entities = manifest.get(_ENTITIES) if isinstance(manifest, Mapping) else None
    if not isinstance(entities, Mapping):
        return
    sections = {in_nfc(name): each for name, each in entities.items() if isinstance(name, str)}
    parents = {name: found[1] for name, section in sections.items() if (found := _parent(section)) is not None}
    for name, section in entities.items():
        if isinstance(section, Mapping) and isinstance(name, str):
            yield from _in_section(name, section, sections, parents)


def _in_section(
    name: str, section: Mapping[object, object], sections: Mapping[str, object], parents: Mapping[str, str]
) -> Iterator[Finding]:
    path = (_ENTITIES, name)
    if PARENT in section and PARENTS in section:
        yield Finding((*path, PARENTS), f"is the same as `{PARENT}`: leave one of them out", on_key=True)
    found = _parent(section)
    if found is None:
        if section.get("cascade") is True and PARENT not in section and PARENTS not in section:
            yield Finding((*path, "cascade"), "needs a `parent` to take from: add one, or leave it out")
        return
    below, parent = found
    if problem := _problem(in_nfc(name), parent, sections, parents):
        yield Finding((*path, *below), problem)


def _problem(name: str, parent: str, sections: Mapping[str, object], parents: Mapping[str, str]) -> str | None:
    if parent == name:
        return f"an entity cannot be its own parent: {show(parent)}"
    if parent not in sections:
        return f"{show(parent)} is no entity of this manifest: declare it, by `{show(parent)}: {{}}` at least"
    if parent not in parents:
        return None
    circle = _circle(name, parents)
    if circle:
        return f"goes in a circle: {' -> '.join(map(show, circle))}"
    return f"{show(parent)} has a parent itself, {show(parents[parent])}: the tree has two levels"


def _circle(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return the way from a name back to it; empty if it does not come back."""
    way = [name]
    while (above := parents.get(way[-1])) is not None and above not in way[1:]:
        way.append(above)
        if above == name:
            return way
    return []


def _parent(section: object) -> tuple[tuple[object, ...], str] | None:
    """Return the path and the name of the parent in a section, in NFC; None if there is none, or no valid one."""
    if not isinstance(section, Mapping):
        return None
    if isinstance(single := section.get(PARENT), str):
        return (PARENT,), in_nfc(single)
    match section.get(PARENTS):
        case [str(first)]:
            return (PARENTS, 0), in_nfc(first)
    return None
