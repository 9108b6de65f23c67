"""The explanation of an acquire: every bucket that it would draw on, what each limit has, and the limit that binds."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from ..runtime.dataclass import dataclass, field
from .limit_status import Reason, reason_of
from .limits import ConfigSource, Limit
from .switches import ResolvedSwitches
from .usage import Refuser

LimitsFrom = ConfigSource | Literal["call", "default_limits", "bucket"]


@dataclass(frozen=True, slots=True)
class LimitExplanation:
    """One limit of a bucket, for one acquire; amounts in whole tokens, over all shards."""

    limit: Limit
    """The limit as it is declared, with ``shadow``, ``prefetch`` and both bursts."""
    requested: int | None
    """The tokens that the acquire asks for; ``None`` if it does not ask for the limit."""
    available: int
    """The tokens in the bucket now; negative in debt."""
    prefetched: int
    """The tokens that this process took of the bucket before, and may still admit by."""
    wait_seconds: float
    """Seconds until the requested tokens are there: 0 for now, ``math.inf`` for never."""
    schedule: str = ""
    """The entry of the limit's schedule that holds, with its end: ``night until 06:00 Europe/Berlin``, or nothing."""
    in_force: Limit | None = None
    """Of a limit with a schedule: the values that hold now."""
    source: LimitsFrom = "bucket"
    """Where the limit comes from: another level than the bucket's ``source``, if that one extends it."""
    override_until: datetime | None = None
    """The end of the override that has the limit; ``None`` if none has."""
    pattern: str | None = None
    """The pattern of resources that has the limit, if ``source`` is one."""

    @property
    def refuses(self) -> bool:
        """Whether the acquire is refused for lack of these tokens; a shadow limit never refuses."""
        return self.wait_seconds > 0 and not self.limit.shadow

    @property
    def reason(self) -> Reason | None:
        """Why it refuses, as ``LimitStatus.reason`` says; ``None`` if it does not."""
        limit = self.limit if self.in_force is None else self.in_force
        return reason_of(limit, self.requested or 0, self.wait_seconds) if self.refuses else None

    @property
    def blocked(self) -> bool:
        """Whether a capacity of 0 refuses every acquire that asks for tokens of the limit."""
        return self.limit.blocks and not self.limit.shadow and not self.limit.schedule


@dataclass(frozen=True, slots=True)
class BucketExplanation:
    """One bucket that an acquire draws on: the caller's own, or that of an entity above it; limits by name.

    The counts are of the entity's acquires since the bucket began: ``refused`` by whatever was short, ``refused_by``
    those for which limits of an ancestor were short, by ancestor and limit. What a process has yet to write is missing.
    """

    entity_id: str
    resource: str
    source: LimitsFrom
    """The strongest level that the limits come from; ``call`` and ``default_limits`` if the limiter was given them,
    ``bucket`` if no level has limits, and they are those that the bucket was last used with."""
    override_until: datetime | None
    """The end of an override on the level ``source``; ``None`` without one."""
    shard_count: int
    """The number of items over which the bucket is spread; 0 if there is no bucket, which is equivalent to a full
    one."""
    limits: tuple[LimitExplanation, ...]
    admitted: int = 0
    refused: int = 0
    shadowed: int = 0
    refused_by: Mapping[Refuser, int] = field(default_factory=dict, hash=False)
    path: tuple[str, ...] = ()
    """The entities from the one that asks to this one."""
    switches: ResolvedSwitches | None = None
    """The switches that hold for the entity on the resource; ``None`` if no level sets one. By ``bypass`` all limits
    are in shadow."""
    tier: str | None = None
    """The tier that the entity has; whether the limits come from it says ``source``."""
    pattern: str | None = None
    """The longest pattern of resources that limits come from; ``None`` if none do."""
    refused_ask: Mapping[str, int] = field(default_factory=dict, hash=False)
    """What the refused acquire of the entity asked for that was counted last, in whole tokens by limit."""
    is_unlimited: bool = False
    """Whether ``source`` says that there are no limits: every amount is admitted and counted."""
    unlimited: tuple[str, ...] = ()
    """The limits that other levels have, and neither ``source`` nor a bucket above: their amounts are admitted and
    counted."""
    run_until: datetime | None = None
    """Of the bucket of a run: when its budget expires; ``None`` for any other bucket."""
    run_ended: datetime | None = None
    """Of the bucket of a run: when ``end`` ended its budget; ``None`` if it did not."""

    def is_over(self, at: datetime) -> bool:
        """Return whether it is the bucket of a run whose budget is over: every acquire is refused."""
        return self.run_ended is not None or (self.run_until is not None and self.run_until <= at)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an acquire of ``entity_id`` would find ``at`` an instant (UTC); the caller's own bucket is first,
    then come those above it, nearest first.

    ``cascades``: the acquire draws on the parents' buckets, too. ``parent_ids`` are known either way; ``parent_id`` is
    the first of them. ``overflows_to``: the resource whose bucket is asked first, because so much of a limit is used.
    ``overflow``: the resource that is asked if the acquire is refused.
    """

    entity_id: str
    resource: str
    at: datetime
    parent_id: str | None
    cascades: bool
    buckets: tuple[BucketExplanation, ...]
    parent_ids: tuple[str, ...] = ()
    overflows_to: str | None = None
    overflow: str | None = None

    @property
    def binding(self) -> tuple[BucketExplanation, LimitExplanation] | None:
        """The limit that refuses the acquire for the longest, and its bucket; ``None`` if the acquire passes."""
        refusing = [(bucket, limit) for bucket in self.buckets for limit in bucket.limits if limit.refuses]
        return max(refusing, key=lambda each: each[1].wait_seconds, default=None)

    @property
    def disabled(self) -> BucketExplanation | None:
        """The first bucket whose entity a switch disables, so that every acquire is refused; ``None`` without one."""
        return next((each for each in self.buckets if each.switches is not None and each.switches.disables), None)

    @property
    def passes(self) -> bool:
        """Whether the acquire passes now."""
        return self.disabled is None and self.binding is None

    @property
    def reason(self) -> Reason | None:
        """Why the acquire is refused, as ``RateLimitExceeded.reason`` says; ``None`` if it passes."""
        if self.disabled is not None:
            return "disabled"
        return None if self.binding is None else self.binding[1].reason

    @property
    def wait_seconds(self) -> float:
        """Seconds until the acquire passes, without other callers: 0 for now, ``math.inf`` for never."""
        if self.disabled is not None:
            return math.inf
        return 0.0 if self.binding is None else self.binding[1].wait_seconds

    @property
    def passes_at(self) -> datetime | None:
        """The instant from which the acquire passes, without other callers; ``None`` for never."""
        seconds = self.wait_seconds
        if math.isinf(seconds) or seconds > (datetime.max.replace(tzinfo=self.at.tzinfo) - self.at).total_seconds():
            return None
        return self.at + timedelta(seconds=seconds)
