"""The entity's record: a consumer of limits and its parent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Unchanged(Enum):
    """The marker of a field that an update leaves as it is; ``None`` clears a field."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Entity:
    """A consumer of limits: an API key, a user, a project.

    With ``cascade``, every acquire of the entity also consumes from ``parent_id``. ``created_at`` is an ISO time in
    UTC, ``version`` counts the changes of the record.
    """

    entity_id: str
    name: str | None
    parent_id: str | None
    cascade: bool
    metadata: Mapping[str, str] = field(hash=False)
    created_at: str
    version: int
