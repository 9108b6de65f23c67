"""The two buckets that an acquire may draw on.

Lives here: what is asked, of whom, and what was taken, as plain data. Never: a decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from ...limits import Limit, OnUnavailable
from ...operations.errors import StoreError
from ...operations.values import NOTHING
from ...resolution import Config, Resolved
from ...schema.items import View
from ..process.bucket_queue import Entry
from ..process.namespace_state import Shadow


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
    """One bucket that an acquire draws on: the entity's own, or its parent's.

    ``shadow`` is its shard 0; ``target`` the shard that is asked next, by chance where there are several. ``last`` are
    the entries of the last try, ``seen`` the shards by which it was judged without one; ``error`` is why they
    could not be read.
    """

    shadow: Shadow
    target: Shadow
    resolved: Resolved
    config: Config
    amounts: Mapping[str, int]
    stale: bool = False
    seen: Sequence[View] = ()
    entries: list[Entry] = field(default_factory=list)
    last: Sequence[Entry] = ()
    error: StoreError | None = None

    @property
    def admitted(self) -> bool:
        """Whether the last try took all amounts; so it did where there were none."""
        return all(entry.admitted for entry in self.last)

    @property
    def refused(self) -> bool:
        """Whether the last try was short of something, and nothing else stood in its way."""
        verdicts = {entry.outcome.verdict for entry in self.last if entry.outcome is not None}
        return "refused" in verdicts and verdicts <= {"refused", "admitted"}

    @property
    def is_split(self) -> bool:
        """Whether the bucket has more than one shard, as far as is known."""
        return self.shadow.shard_count > 1

    def enter(self) -> Entry:
        """A new entry for the amounts of the side, at its target."""
        entry = Entry(self.target.lane, self.amounts, self.config, 1 if any(self.amounts.values()) else 0)
        self.entries.append(entry)
        self.last = (entry,)
        return entry

    def enter_many(self, parts: Iterable[tuple[Shadow, Mapping[str, int]]]) -> Sequence[Entry]:
        """New entries that serve the amounts together, one a shard; the first counts as the acquire."""
        self.last = [Entry(shadow.lane, part, self.config, not rank) for rank, (shadow, part) in enumerate(parts)]
        self.entries += self.last
        return self.last


class Grant:
    """What an acquire took, side by side, and what its lease makes of it; amounts in millitokens by limit.

    ``unavailable`` is why something was not taken, although the caller may go on: what it then consumed is
    ``uncounted``. ``corrections`` wait for the end of the block. What changes these holds the ``lock``, and looks first
    whether the grant is ``open``: the block may end in another thread.
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
        self.lock = RLock()

    def close(self) -> None:
        """The block has ended: from now on nothing is added."""
        with self.lock:
            self.open = False
