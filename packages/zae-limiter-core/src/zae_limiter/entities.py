"""Who consumes.

Lives here: the entity's record as a value. Never: how it is stored (schema) or changed (flows).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Unchanged(Enum):
    """What stands for a field that an update leaves as it is, because ``None`` clears it."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Entity:
    """A consumer of limits: an API key, a user, a project.

    With ``cascade`` every acquire of it also consumes from ``parent_id``. ``created_at`` is an ISO time in UTC,
    ``version`` counts the changes of the record.
    """

    entity_id: str
    name: str | None
    parent_id: str | None
    cascade: bool
    metadata: Mapping[str, str] = field(hash=False)
    created_at: str
    version: int
