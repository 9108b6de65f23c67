"""The path of an acquire: the entities whose buckets it draws on, from the one that asks upward, each once.

An entity may have several parents, and these may share theirs. So the path is found level by level, nearest first, in
the order in which each entity has its parents. Whoever is met twice is drawn on once, by the way that was found first.
"""

from collections.abc import Iterable
from typing import Protocol

from ...exceptions import ValidationError
from ...values.entities import MOST_BUCKETS
from ...values.switches import ResolvedSwitches
from .requests import AcquireRequest, DrawRequest


class Path:
    """The entities in ``order``, which grows while it is walked, and the way ``to`` each of them from the bottom."""

    __slots__ = ("order", "to")

    def __init__(self, entity_id: str) -> None:
        self.order = [entity_id]
        self.to: dict[str, tuple[str, ...]] = {entity_id: (entity_id,)}

    def rise(self, entity_id: str, parent_ids: Iterable[str]) -> None:
        """Go on to the parents of an entity of the path. Raises ``ValidationError`` if there are too many buckets."""
        for parent_id in parent_ids:
            if parent_id not in self.to:
                self.order.append(parent_id)
                self.to[parent_id] = (*self.to[entity_id], parent_id)
        if len(self.order) > MOST_BUCKETS:
            problem = f"draws on more than {MOST_BUCKETS} buckets: {', '.join(self.order)}; move it, or one above it"
            raise ValidationError("entity_id", self.order[0], problem)


class Linked(Protocol):
    """What is known of an entity: its parents, whether its own acquires draw on them, and the switches that hold."""

    @property
    def parent_ids(self) -> tuple[str, ...]: ...

    @property
    def cascade(self) -> bool: ...

    @property
    def switches(self) -> ResolvedSwitches | None: ...


def parents_to_ask(request: AcquireRequest, entity_id: str, known: Linked) -> tuple[str, ...]:
    """Return the parents on whose buckets the acquire draws as well.

    The call's ``cascade`` is for who asks, a draw's for its entity; a switch that is off comes before the call's.
    """
    if isinstance(request, DrawRequest) and _stays(request, entity_id):
        return ()
    if known.cascade:
        return known.parent_ids
    if request.cascade and entity_id == request.entity_id:
        switched_off = known.switches is not None and known.switches.cascade is not None
        return () if switched_off else known.parent_ids
    return ()


def _stays(draw: DrawRequest, entity_id: str) -> bool:
    return draw.alone and entity_id == draw.entity_id
