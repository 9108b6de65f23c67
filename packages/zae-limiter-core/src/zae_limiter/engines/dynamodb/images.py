"""Images of a bucket item, as the table's stream has them, read strictly.

Any program with write access may damage a bucket. A problem is logged with the name of a bucket's number at most: the
name of another attribute may be anything, and a value is never logged.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...rules.sharding import MAX_SHARDS, SHARD_COUNTS
from ...schema.attributes import (
    ANCHOR,
    COUNTERS,
    OF_TEXT,
    SHARD_COUNT,
    WCU,
    WRITES_THEN,
    parse_bucket_attribute,
    parse_refused_by,
)
from ...schema.items import BucketId, Item
from ...values.limits import MAX_LIMITS
from ...values.naming import check_identifier, check_limit_name, check_namespace_id, check_resource
from .marshal import read_value

MOST: Final = 10**30  # of a counter: a window adds up a great many such numbers before DynamoDB's 38 digits are full

_NUMBERS: Final = frozenset((ANCHOR, SHARD_COUNT, *COUNTERS, WRITES_THEN))
_WHOLE: Final = re.compile(r"-?[0-9]{1,38}")


def check_bucket(bucket: BucketId) -> BucketId:
    """Return the id, if core could have written it. Raises ``ValueError``."""
    try:
        check_namespace_id("namespace id", bucket.namespace_id)
        check_identifier("entity", bucket.entity_id)
        check_resource("resource", bucket.resource)
    except ValidationError as error:
        raise ValueError(f"the key has no valid {error.field}") from None
    if not 0 <= bucket.shard < MAX_SHARDS:
        raise ValueError(f"the key has no shard from 0 to {MAX_SHARDS - 1}")
    return bucket


def read_bucket_image(image: object) -> Item:
    """Return the item in an image: its numbers are whole and within bounds, its limits have valid names.

    Raises ``ValueError``.
    """
    if not isinstance(image, Mapping):
        raise ValueError("the image is not a map")
    item: Item = {}
    limits, refusers = set[str](), 0
    for name, value in image.items():
        column = _column(name)
        if column.is_number:
            digits = value.get("N") if isinstance(value, Mapping) else None
            if not (isinstance(digits, str) and _WHOLE.fullmatch(digits) and -MOST <= (number := int(digits)) <= MOST):
                told = "a count of refusals" if column.is_of_refuser else name  # whose name has the id of an ancestor
                raise ValueError(f"{told} is not a whole number from -10^30 to 10^30")
            item[name] = number
        else:
            try:
                item[name] = read_value(value)
            except (TypeError, ValueError, AttributeError):
                raise ValueError("an attribute other than the numbers of a bucket cannot be read") from None
        if column.limit is not None:
            limits.add(column.limit)
        refusers += column.is_of_refuser
    for name in (ANCHOR, SHARD_COUNT):
        if name not in item:
            raise ValueError(f"{name} is missing")
    if item[SHARD_COUNT] not in SHARD_COUNTS:
        raise ValueError(f"{SHARD_COUNT} is not a power of two up to {MAX_SHARDS}")
    if len(limits - {WCU}) > MAX_LIMITS:
        raise ValueError(f"there are more than {MAX_LIMITS} limits")
    if refusers > 2 * MAX_LIMITS:  # processes add some at once
        raise ValueError(f"there are more than {2 * MAX_LIMITS} limits of ancestors")
    return item


class _Column(NamedTuple):
    """What an attribute's name says: whether it is a number, and the limit that it belongs to."""

    is_number: bool
    limit: str | None = None
    is_of_refuser: bool = False


@lru_cache(maxsize=8_192)
def _column(name: str) -> _Column:
    """Parse the name of an attribute; the same names come with every image. Raises ``ValueError``."""
    attribute, refuser = parse_bucket_attribute(name), parse_refused_by(name)
    if refuser is not None:
        try:
            check_identifier("entity", refuser.entity_id)
        except ValidationError:
            raise ValueError("a count of refusals names no valid ancestor") from None
        _check_limit(refuser.limit_name)
        return _Column(is_number=True, is_of_refuser=True)
    if attribute is None:
        return _Column(name in _NUMBERS)
    if attribute.field in OF_TEXT:
        return _Column(is_number=False, limit=attribute.limit)
    if attribute.limit != WCU:
        _check_limit(attribute.limit)
    return _Column(is_number=True, limit=attribute.limit)


def _check_limit(limit: str) -> None:
    try:
        check_limit_name("limit", limit)
    except ValidationError:
        raise ValueError("the name of an attribute has no valid name of a limit") from None
