"""The tree of entities: parents, and the entities below them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from ..paging import every_record

if TYPE_CHECKING:
    from zae_limiter import Entity, SyncRepository


AT_ONCE: Final = 8  # queries
MOST_DEPTH: Final = 7  # as many entities can be above one


@dataclass(frozen=True, slots=True)
class Lines:
    """What leads to an entity: to one that others follow, to the last one, past those that follow, below the last."""

    branch: str
    last: str
    along: str
    below: str = "   "


DRAWN: Final = Lines("├─ ", "└─ ", "│  ")
IN_ASCII: Final = Lines("|- ", "`- ", "|  ")


@dataclass(frozen=True, slots=True)
class Node:
    """An entity with the entities below it, by id."""

    entity: "Entity"
    below: tuple["Node", ...] = ()


def read_forest(repository: "SyncRepository") -> list[Node]:
    """Return the entities without a parent, by id, each with those below it; one with several parents is below each.
    All records are in memory.
    """
    entities = sorted(every_record(repository), key=lambda each: each.entity_id)
    known = {each.entity_id for each in entities}
    children: dict[str | None, list[Entity]] = {}
    for each in entities:  # a parent that was deleted meanwhile hides no child
        above: list[str | None] = [parent for parent in each.parent_ids if parent in known]
        for parent in above or [None]:
            children.setdefault(parent, []).append(each)

    nodes: dict[str, Node] = {}
    roots: list[Node] = []
    for each in [*children.get(None, ()), *entities]:  # damaged records may be parents of each other: one is the first
        if each.entity_id not in nodes:
            roots += [_node(each, lambda above: children.get(above, ()), nodes)]
    return roots


def read_below(repository: "SyncRepository", entity_id: str, depth: int | None = None) -> Node:
    """Return an entity with all below it, or with ``depth`` levels. Raises ``EntityNotFoundError``.

    Level by level: a batch of reads says which entities have children, and these alone are asked for them, some at the
    same time. Most entities of a tree are leaves: a query for each would take minutes for thousands of keys.
    """
    from zae_limiter import EntityNotFoundError
    from zae_limiter.maintenance import SyncMaintenance

    if (entity := repository.get_entity(entity_id)) is None:
        raise EntityNotFoundError(entity_id)
    children: dict[str, list[Entity]] = {}
    level = [entity_id]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while level and depth != 0:
            depth = None if depth is None else depth - 1
            records = SyncMaintenance(repository).get_entity_records(level, skip_unreadable=True)
            above = [each for each in level if each in records and records[each].children]
            children |= zip(above, threads.map(repository.get_children, above), strict=True)
            level = [*dict.fromkeys(each.entity_id for parent in above for each in children[parent])]
            level = [each for each in level if each not in children]
    return _node(entity, lambda above: children.get(above, ()), {})


def _node(
    entity: "Entity",
    children_of: Callable[[str], Iterable["Entity"]],
    nodes: dict[str, Node],
    path: frozenset[str] = frozenset(),
) -> Node:
    """Return the node of an entity, which is one below all its parents: ``children_of`` is asked once for each. An
    entity on the ``path`` is not below itself once more.
    """
    if (found := nodes.get(entity.entity_id)) is None:
        path |= {entity.entity_id}
        children = [each for each in children_of(entity.entity_id) if each.entity_id not in path]
        found = nodes[entity.entity_id] = Node(
            entity, tuple(_node(each, children_of, nodes, path) for each in children)
        )
    return found


def above_at(repository: "SyncRepository", depth: int) -> Callable[[str], str]:
    """Return what finds who is so many levels below the root above an entity. All records are read."""
    parents = {each.entity_id: each.parent_id for each in every_record(repository)}
    return lambda entity_id: ancestor_at(entity_id, parents, depth)


def ancestor_at(entity_id: str, parents: Mapping[str, str | None], depth: int) -> str:
    """Return who is so many levels below the root above an entity, by first parents; the entity itself if it is
    higher.
    """
    path = [entity_id]
    while (parent := parents.get(path[-1])) is not None and parent not in path:
        path.append(parent)
    return path[max(0, len(path) - 1 - depth)]


class HasBelow(Protocol):
    """What a tree is made of."""

    @property
    def below(self) -> tuple[Self, ...]:
        """Those below it, in order."""
        ...


Branch = TypeVar("Branch", bound=HasBelow)


def walk(roots: Sequence[Branch], *, symbols: bool) -> Iterator[tuple[str, Branch]]:
    """Yield each node, the parents first, with the lines that lead to it. ``symbols``: draw more than ASCII."""
    for root in roots:
        yield "", root
        yield from _below(root, "", DRAWN if symbols else IN_ASCII)


def _below(node: Branch, lead: str, lines: Lines) -> Iterator[tuple[str, Branch]]:
    for child in node.below:
        last = child is node.below[-1]
        yield lead + (lines.last if last else lines.branch), child
        yield from _below(child, lead + (lines.below if last else lines.along), lines)


def plain(node: Node) -> dict[str, Any]:
    """Return a node as plain values: the fields of the entity, and ``children``."""
    return {**asdict(node.entity), "children": [plain(each) for each in node.below]}
