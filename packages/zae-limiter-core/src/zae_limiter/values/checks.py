"""What a call would find (``Check``): what is left of each limit, whether it passes, and when."""

from ..runtime.dataclass import dataclass
from .limit_status import LimitStatus
from .refusal import binding, short


@dataclass(frozen=True, slots=True)
class Check:
    """What an acquire of ``entity_id`` on ``resource`` would find now.

    ``statuses`` has every limit that it asks for: those of the caller's own bucket, then of those above it, nearest
    first, then of its draws; each with what is ``available`` and with ``retry_after_seconds``, 0 if that is enough.
    ``unlimited`` names those that only weaker levels limit, so that the acquire is admitted without them.
    ``http.headers`` takes it in place of a lease.
    """

    entity_id: str
    resource: str
    statuses: tuple[LimitStatus, ...]
    unlimited: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the acquire passes now. A shadow limit never refuses."""
        return not short(self.statuses)

    @property
    def binding(self) -> LimitStatus | None:
        """The limit that refuses the acquire for the longest, with its bucket; ``None`` if the acquire passes."""
        return None if self.passes else binding(self.statuses)

    @property
    def retry_after_seconds(self) -> float:
        """Seconds until the acquire passes, without other callers: 0 for now, ``math.inf`` for never."""
        return 0.0 if self.passes else binding(self.statuses).retry_after_seconds
