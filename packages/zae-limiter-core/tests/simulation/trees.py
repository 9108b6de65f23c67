"""The trees of a history: who is above whom, and the buckets that an acquire has to draw on by that.

Lives here: trees, drawn and walked on our own. Never: how the library walks them.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from zae_limiter.flows.acquire.claims import Grant
from zae_limiter.flows.acquire.requests import AcquireRequest

from .kernel import Violation

MOST_PARENTS = 4


class Above(NamedTuple):
    """The parents of an entity, and whether its acquires draw on them by themselves."""

    parents: tuple[str, ...] = ()
    cascade: bool = False


Tree = Mapping[str, Above]
NOBODY: Final = Above()
PAIR: Final[Tree] = MappingProxyType(
    {
        "parent": NOBODY,
        "child-a": Above(("parent",), cascade=True),
        "child-b": Above(("parent",)),
        "single": NOBODY,
    }
)

BOTH_CASCADE: Final[Tree] = MappingProxyType({**PAIR, "child-b": Above(("parent",), cascade=True)})


Switched = Callable[[str], "str | None"]


def as_they_are(_: str) -> str | None:
    """No switch says anything."""
    return None


def drawn(rng: Random) -> Tree:
    """Eight entities, each below some of those before it: at most seven are above one."""
    tree: dict[str, Above] = {}
    for number in range(8):
        parents = rng.sample([*tree], min(len(tree), rng.choice((0, 1, 1, 2, 2, 3, MOST_PARENTS))))
        tree[f"e{number}"] = Above(tuple(parents), cascade=bool(parents) and rng.random() < 0.9)
    return MappingProxyType(tree)


def path(tree: Tree, entity: str, *, cascade: bool, switched: Switched = as_they_are) -> set[str]:
    """Whoever an acquire of the entity draws on; ``switched`` says what a switch says of an entity."""
    return {entity, *_above(tree, entity, switched, cascade=cascade)}


def _above(tree: Tree, entity: str, switched: Switched, *, cascade: bool = False) -> Iterator[str]:
    above, switch = tree[entity], switched(entity)
    for parent in above.parents if (above.cascade or cascade if switch is None else switch == "on") else ():
        yield parent
        yield from _above(tree, parent, switched)


def places(tree: Tree, request: AcquireRequest, cascades: Callable[[str, str], str | None]) -> set[tuple[str, str]]:
    """Each bucket of the paths of a call; ``cascades`` has the switch of an entity on a resource."""

    def on(resource: str) -> Switched:
        return lambda entity: cascades(entity, resource)

    resource = request.resource
    found = path(tree, request.entity_id, cascade=request.cascade is True, switched=on(resource))
    wanted = {(each, resource) for each in found}
    for draw in request.draws:
        alone, switched = draw.cascade is False, on(draw.resource)
        entities = (
            {draw.entity_id} if alone else path(tree, draw.entity_id, cascade=draw.cascade is True, switched=switched)
        )
        wanted |= {(each, draw.resource) for each in entities}
    return wanted


def check_path(tree: Tree, grant: Grant, cascades: Callable[[str, str], str | None]) -> None:
    """Raise ``Violation`` unless the grant has one claim for each bucket of its paths, and no other."""
    request = grant.request
    wanted = places(tree, request, cascades)
    found = sorted((claim.bucket.entity_id, claim.bucket.resource) for each in grant.all for claim in each.claims)
    if found != sorted(wanted):
        raise Violation(f"{request.asker} draws on {found}, and has to draw on {sorted(wanted)}")
