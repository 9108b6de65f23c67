"""The rows of `top` as a tree: the bucket of an entity below those of its parents on the same resource."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..data.tree import walk
from .rows import Place, Row

Parents: TypeAlias = Mapping[str, Sequence[str]]  # of entities, by id


@dataclass(frozen=True, slots=True)
class Branch:
    """A row, with those below it; ``first`` is the place of the first of them all in the order of the rows."""

    row: Row
    below: tuple["Branch", ...] = ()
    first: int = 0


def tree_of(rows: Sequence[Row], parents: Parents) -> list[Branch]:
    """Return the rows of which no parent is among the rows, each with those below it; who has several is below each.

    A subtree stands where the first of its rows would, among siblings and at the top: by refusals, who is refused is
    found from the top down, whatever those above it were refused themselves.
    """
    known = {row.place: row for row in rows}
    order = {place: at for at, place in enumerate(known)}
    above = {place: _above(place, parents, known) for place in known}
    below: dict[Place, list[Place]] = {}
    for place, ups in above.items():
        for up in ups:
            below.setdefault(up, []).append(place)

    def branch(place: Place, path: frozenset[Place]) -> Branch:
        path |= {place}  # records read while an entity moves may be parents of each other
        found = sorted((branch(each, path) for each in below.get(place, ()) if each not in path), key=_first)
        return Branch(known[place], tuple(found), min([order[place], *map(_first, found)]))

    roots = dict.fromkeys(root for place in known for root in _roots(place, above))
    return [branch(root, frozenset()) for root in roots]


def _first(branch: Branch) -> int:
    return branch.first


def lines_of(rows: Sequence[Row], parents: Parents, *, symbols: bool) -> Iterator[tuple[str, Row]]:
    """Yield each row of the tree, parents first, with the lines that lead to it. ``symbols``: draw more than ASCII."""
    return ((lead, branch.row) for lead, branch in walk(tree_of(rows, parents), symbols=symbols))


def _above(place: Place, parents: Parents, known: Mapping[Place, Row]) -> list[Place]:
    ups = [Place(parent, place.resource) for parent in parents.get(place.entity_id, ())]
    return [up for up in ups if up in known]


def _roots(place: Place, above: Mapping[Place, Sequence[Place]]) -> list[Place]:
    """Return those above a place that have no parent; the place itself if they are above each other."""
    found, seen, left = list[Place](), {place}, [place]
    while left:
        each = left.pop(0)
        ups = above[each]
        if not ups:
            found.append(each)
        left += [up for up in ups if up not in seen]
        seen.update(ups)
    return found or [place]
