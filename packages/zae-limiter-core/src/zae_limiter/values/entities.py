"""The entity's record: a consumer of limits and its parents."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Union

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field, replace
from .naming import check_identifier

Json = Union[str, int, float, bool, None, Sequence["Json"], Mapping[str, "Json"]]  # noqa: UP007 - it names itself


class Unchanged(Enum):
    """The marker of a field that an update leaves as it is; ``None`` clears a field."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED

MOST_PARENTS: Final = 4
MOST_BUCKETS: Final = 8
"""The most buckets that one acquire draws on: those of the entity, and of all above it."""


def check_parent_ids(parent_ids: Iterable[object]) -> tuple[str, ...]:
    """Return the ids of an entity's parents, in order. Raises ``ValidationError``, also for too many, or one twice."""
    ids = tuple(check_identifier("parent_ids", each) for each in parent_ids)
    if len(ids) > MOST_PARENTS:
        raise ValidationError("number of parent_ids", len(ids), f"an entity has at most {MOST_PARENTS} parents")
    for each in ids:
        if ids.count(each) > 1:
            raise ValidationError("parent_ids", each, "is given twice")
    return ids


@dataclass(frozen=True, slots=True)
class Entity:
    """A consumer of limits: an API key, a user, a project.

    With ``cascade``, every acquire of the entity also consumes from its parents, ``parent_ids``; ``parent_id`` is the
    first of them. ``metadata`` holds JSON values. ``created_at`` is an ISO time in UTC, ``version`` counts the changes
    of the record. Where the entity has no limits of its own, it has those of its ``tier``. Raises ``ValueError`` if
    ``parent_ids`` do not begin with ``parent_id``.
    """

    entity_id: str
    name: str | None
    parent_id: str | None
    cascade: bool
    metadata: Mapping[str, Any] = field(hash=False)
    created_at: str
    version: int
    parent_ids: tuple[str, ...] = ()
    tier: str | None = None

    def __post_init__(self) -> None:
        if not self.parent_ids and self.parent_id is not None:
            object.__setattr__(self, "parent_ids", (self.parent_id,))
        if self.parent_ids[:1] != (() if self.parent_id is None else (self.parent_id,)):
            raise ValueError(f"parent_ids {self.parent_ids} do not begin with parent_id {self.parent_id!r}")

    def under(self, *parent_ids: str) -> "Entity":
        """Return the same entity with these parents; none for an entity at the top."""
        return replace(self, parent_id=parent_ids[0] if parent_ids else None, parent_ids=parent_ids)


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity of a namespace: one that has a record, limits of its own, or a bucket."""

    entity_id: str
    record: Entity | None
    has_limits: bool
    """Whether it has limits of its own, or an override in force."""
    has_buckets: bool


@dataclass(frozen=True, slots=True)
class EntityPage:
    """A page of entities; pass ``next`` to get the following page; ``None`` at the end."""

    entities: tuple[KnownEntity, ...]
    next: str | None
