"""The status of a limit: what an acquire found there, and why it refuses."""

import math
from typing import Final, Literal

from ..runtime.dataclass import dataclass
from .limits import Limit

Reason = Literal["rate", "quota", "concurrency", "disabled", "never"]
"""Why a call is refused: too fast, used up, too many at once, shut off, or no wait lets it pass."""

_QUOTAS: Final = frozenset({"calendar", "first_use", "total"})


def reason_of(limit: Limit, requested: int, wait_seconds: float) -> Reason:
    """Return why a limit refuses so many tokens. A total that is used up is a quota, though no wait brings more."""
    if math.isinf(wait_seconds) and limit.blocks:
        return "disabled"
    if math.isinf(wait_seconds) and not (limit.kind == "total" and requested <= limit.usable_burst):
        return "never"
    if limit._has_slots:
        return "concurrency"
    return "quota" if limit.kind in _QUOTAS else "rate"


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The status of one limit at a check; amounts in tokens, ``retry_after_seconds`` may be ``math.inf``.

    ``next_token_seconds``: until the next whole token is there; ``math.inf`` if none comes, as at the ceiling.
    """

    entity_id: str
    """The entity of the bucket: the caller, or one above it."""
    resource: str
    limit_name: str
    limit: Limit
    """The limit that was checked."""
    available: int
    """Whole tokens in the bucket at the check; negative in debt."""
    requested: int
    """Whole tokens that the call asked for."""
    exceeded: bool
    """Whether the bucket has less than what was requested."""
    retry_after_seconds: float
    """Seconds until the requested tokens are there."""
    next_token_seconds: float = math.inf
    path: tuple[str, ...] = ()
    """The entities from the one that asked to that of the bucket."""
    place: int = 0
    """Where the bucket is among those that the call draws on: 0 for the caller's own, then those above, nearest
    first; with a ``draw``, among those of the draw."""
    draw: int = 0
    """Which of the ``draws`` the bucket is drawn on by, from 1; 0 for none."""
    schedule: str = ""
    """The entry of the limit's schedule that held, with its end: ``night until 06:00 Europe/Berlin``; empty if none."""

    def name_for(self, entity_id: str) -> str:
        """Return the limit's name as the entity that asked sees it: ``rpm`` of its own, ``parent/rpm`` of its first
        parent's, ``parent-2/rpm`` of the bucket in the next ``place``; of draws ``draw/rpm``, ``draw-2/parent/rpm``.

        No entity is in it, so it may go into header fields and metrics.
        """
        if self.draw:
            above = f"{_numbered('parent', self.place)}/" if self.place else ""
            return f"{_numbered('draw', self.draw)}/{above}{self.limit_name}"
        return (
            self.limit_name if self.entity_id == entity_id else f"{_numbered('parent', self.place)}/{self.limit_name}"
        )

    @property
    def reason(self) -> Reason:
        """Why a call that this limit refuses is refused; ``"disabled"`` for a capacity of 0."""
        return reason_of(self.limit, self.requested, self.retry_after_seconds)

    @property
    def deficit(self) -> int:
        """The tokens that the request lacks; 0 if they are there."""
        return max(0, self.requested - self.available)


def _numbered(word: str, number: int) -> str:
    return f"{word}-{number}" if number > 1 else word
