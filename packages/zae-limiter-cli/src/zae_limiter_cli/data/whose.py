"""Choose entities by their tier, or by the entity that they are below."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from ..errors import CommandError
from ..options import Function
from .tree import read_below

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from .tree import Node


class HasEntity(Protocol):
    """What is an entity's."""

    @property
    def entity_id(self) -> str:
        """Whose it is."""
        ...


Of = TypeVar("Of", bound=HasEntity)


@dataclass(frozen=True, slots=True)
class Whose:
    """The entities that options choose: those of a tier, those below an entity, or both; without either, all."""

    tier: str | None = None
    below: str | None = None

    def __bool__(self) -> bool:
        return self.tier is not None or self.below is not None

    def __str__(self) -> str:
        tier = None if self.tier is None else f"of tier {self.tier}"
        below = None if self.below is None else f"below {self.below}"
        return " ".join(filter(None, (tier, below)))

    def check_without(self, **others: object) -> None:
        """Raise ``CommandError`` if another option is given, too, which these exclude."""
        if self and (given := [f"--{name}" for name, value in others.items() if value]):
            own = [f"--{name}" for name in ("tier", "below") if getattr(self, name) is not None]
            raise CommandError(f"{' and '.join(own)} and {given[0]} exclude each other: pass one of them")

    def only(self, repository: "SyncRepository", found: Iterable[Of]) -> Iterator[Of]:
        """Yield what is of these entities. Raises ``EntityNotFoundError``, and ``CommandError`` for an unknown tier."""
        if not self:
            yield from found
            return
        chosen = self._ids(repository)
        yield from (each for each in found if each.entity_id in chosen)

    def _ids(self, repository: "SyncRepository") -> frozenset[str]:
        chosen: frozenset[str] | None = None
        if self.tier is not None:
            chosen = frozenset(repository.list_entities_of_tier(self.tier))
            if not chosen and self.tier not in repository.list_tiers():
                raise CommandError(f"--tier {self.tier!r}: there is no tier of this name; `tier list` has them all")
        if self.below is not None:
            below = frozenset(_ids_below(read_below(repository, self.below)))
            chosen = below if chosen is None else chosen & below
        assert chosen is not None  # it was asked for one of them
        return chosen


def whose_options(function: Function) -> Function:
    """Add ``--tier`` and ``--below``; the command gets ``whose``, a `Whose`."""

    @wraps(function)
    def command(*, tier: str | None, below: str | None, **kwargs: Any) -> Any:
        from zae_limiter.values.naming import check_identifier, check_tier

        tier = None if tier is None else check_tier("--tier", tier)
        below = None if below is None else check_identifier("--below", below)
        return function(whose=Whose(tier, below), **kwargs)

    add: Callable[[Any], Any] = click.option("--tier", metavar="NAME", help="Only entities that have this tier.")
    return add(  # type: ignore[no-any-return]  # click hands it the rest
        click.option("--below", metavar="ID", help="Only entities below this one, at any depth.")(command)
    )


def _ids_below(node: "Node") -> Iterator[str]:
    for each in node.below:
        yield each.entity.entity_id
        yield from _ids_below(each)
