"""The two buckets that an acquire may draw on.

Lives here: what is asked, of whom, and what was taken, as plain data. Never: a decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..limits import Limit, OnUnavailable
from ..operations.errors import StoreError
from ..operations.values import NOTHING
from ..resolution import Config, Resolved
from ..schema.items import View
from .lane import Entry
from .scope import Shadow


@dataclass(slots=True)  # never changed; not frozen, because every acquire makes one
class Request:
    """What a caller asks for; amounts in millitokens by limit."""

    entity_id: str
    resource: str
    amounts: Mapping[str, int]
    limits: tuple[Limit, ...] = ()
    default_limits: tuple[Limit, ...] = ()
    cascade: bool = False
    on_unavailable: OnUnavailable | None = None
    rollback: bool = True


@dataclass(slots=True)
class Side:
    """One bucket that an acquire draws on: the entity's own, or its parent's."""

    shadow: Shadow
    resolved: Resolved
    config: Config
    amounts: Mapping[str, int]
    stale: bool = False
    seen: View | None = None
    entries: list[Entry] = field(default_factory=list)

    @property
    def last(self) -> Entry | None:
        """The entry of the last try, where there was one."""
        return self.entries[-1] if self.entries else None

    def enter(self) -> Entry:
        """A new entry for the amounts of the side."""
        entry = Entry(self.shadow.lane, self.amounts, self.config, 1 if any(self.amounts.values()) else 0)
        self.entries.append(entry)
        return entry


class Grant:
    """What an acquire took, side by side, and what its lease makes of it; amounts in millitokens by limit.

    ``unavailable`` is why something was not taken, although the caller may go on: what it then consumed is
    ``uncounted``. ``corrections`` wait for the end of the block.
    """

    open = True
    corrections: Mapping[str, int] = NOTHING
    uncounted: Mapping[str, int] = NOTHING

    def __init__(self, request: Request, sides: Sequence[Side], unavailable: StoreError | None = None) -> None:
        self.request = request
        self.sides = sides
        self.unavailable = unavailable
        self.rollback = request.rollback
        self.consumed = request.amounts
