"""Find who is close to a limit: the part of the burst that is gone, and how long the rest lasts at this rate.

A rate is the difference of two looks at a bucket. So all buckets are read once, and after some seconds those that
are close once more; nothing depends on the aggregator.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple

from zae_limiter.maintenance import lasts_seconds

if TYPE_CHECKING:
    from zae_limiter import Limit
    from zae_limiter.values import Bucket, BucketLimit

PERCENT: Final = 80.0  # of the burst that is gone, where a limit has no thresholds


class Look(NamedTuple):
    """A bucket, and when it was read, in seconds of a clock that only goes forward."""

    bucket: "Bucket"
    at: float


@dataclass(frozen=True, slots=True)
class Near:
    """A limit of a bucket that is close.

    ``used_per_second``: tokens, ``None`` at the first look. ``seconds_left``: how long the tokens last at this
    rate, ``None`` if more come before, or it is unknown.
    """

    entity_id: str
    resource: str
    limit: "Limit"
    available: int
    used_per_second: float | None = None
    seconds_left: float | None = None

    @property
    def percent(self) -> float:
        """The part of the burst that is gone; more than 100 in debt."""
        return 100 * (self.limit.burst - self.available) / self.limit.burst

    @property
    def threshold(self) -> int | None:
        """The highest threshold of the limit that the part reaches; ``None`` if it has none, or reaches none."""
        return max((each for each in self.limit.alert if each <= self.percent), default=None)


def nearest(looks: Iterable[Look], percent: float | None, most: int) -> list[tuple[Near, Look]]:
    """Return the limits of which at least this part is gone, the closest first, at most ``most``, each with the look at
    its bucket; without ``percent``, the lowest threshold of each, or 80. A capacity of 0 blocks, and is not near.
    """
    found = ((near, look) for look in looks for near in _near(look.bucket, percent))
    return nlargest(most, found, key=lambda each: each[0].percent)


def after(near: Near, before: Look, behind: Look | None, now_ms: int) -> Near:
    """Return a limit as a second look, at ``now_ms``, shows it, with the rate between the two."""
    if behind is None or behind.at <= before.at:
        return near
    seconds = behind.at - before.at
    first, second = (_limit_of(look.bucket, near.limit.name) for look in (before, behind))
    if first is None or second is None:  # other limits hold now
        return near
    used = max(0, second.consumed - first.consumed) / seconds
    left = lasts_seconds(second.limit, second.available, used, now_ms) if second.available > 0 else 0.0
    return Near(near.entity_id, near.resource, near.limit, second.available, used, left)


def _near(bucket: "Bucket", percent: float | None) -> Iterator[Near]:
    for each in bucket.limits:
        if each.limit.burst > 0:
            near = Near(bucket.entity_id, bucket.resource, each.limit, each.available)
            least = min(each.limit.alert, default=PERCENT) if percent is None else percent
            if near.percent >= least:
                yield near


def _limit_of(bucket: "Bucket", name: str) -> "BucketLimit | None":
    return next((each for each in bucket.limits if each.limit.name == name), None)
