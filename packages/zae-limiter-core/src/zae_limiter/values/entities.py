"""The entity's record: a consumer of limits and its parent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Union

Json = Union[str, int, float, bool, None, Sequence["Json"], Mapping[str, "Json"]]  # noqa: UP007 - it names itself


class Unchanged(Enum):
    """The marker of a field that an update leaves as it is; ``None`` clears a field."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Entity:
    """A consumer of limits: an API key, a user, a project.

    With ``cascade``, every acquire of the entity also consumes from ``parent_id``. ``metadata`` holds JSON
    values. ``created_at`` is an ISO time in UTC, ``version`` counts the changes of the record.
    """

    entity_id: str
    name: str | None
    parent_id: str | None
    cascade: bool
    metadata: Mapping[str, Any] = field(hash=False)
    created_at: str
    version: int


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
