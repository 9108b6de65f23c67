"""The limits of a bucket as they are declared, which a bucket does not know."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.values import Bucket


def as_declared(repository: "SyncRepository", bucket: "Bucket") -> "Bucket":
    """Return the bucket with the limits that apply to it as they are declared, where it follows them.

    A bucket has the usable burst, and no marks. A limit that it does not follow yet has the shadow mark and the
    weights only. One with a schedule has the values that the bucket was last used with, and the schedule.
    """
    from zae_limiter.exceptions import StoreRefusedError
    from zae_limiter.stores import Unreadable

    try:
        limits, _, _ = repository.resolve_limits(bucket.entity_id, bucket.resource)
    except StoreRefusedError as error:
        if not isinstance(error.__cause__, Unreadable):
            raise
        return bucket  # its switches are read from the same records, and the error names the one that cannot be read
    declared = {limit.name: limit for limit in limits}
    return replace(bucket, limits=tuple(replace(each, limit=_declared(each.limit, declared)) for each in bucket.limits))


def _declared(limit: "Limit", declared: Mapping[str, "Limit"]) -> "Limit":
    from zae_limiter.maintenance import in_bucket

    wanted = declared.get(limit.name, limit)
    if wanted.schedule:
        found = replace(limit, shadow=wanted.shadow, weights=wanted.weights)
        return replace(found, schedule=wanted.schedule) if limit.kind == wanted.kind else found
    return wanted if in_bucket(wanted) == limit else replace(limit, shadow=wanted.shadow, weights=wanted.weights)
