"""Names of the attributes that hold a limit.

Lives here: how a limit and a field make an attribute name, and back. Never: what the values mean (bucket, limits).
"""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, cast, get_args

from zae_limiter.naming import RESERVED_LIMIT_NAMES

__all__ = [
    "RESERVED_LIMIT_NAMES",
    "WCU",
    "BucketAttr",
    "BucketField",
    "LimitAttr",
    "LimitField",
    "bucket_attr",
    "limit_attr",
    "parse_bucket_attr",
    "parse_limit_attr",
]

BucketField = Literal["tk", "cp", "bx", "ra", "rp", "tc"]
LimitField = Literal["cp", "bx", "ra", "rp"]

WCU: Final = "wcu"  # the reserved limit that counts the writes to a bucket

_BUCKET_FIELDS: Final = frozenset(get_args(BucketField))
_LIMIT_FIELDS: Final = frozenset(get_args(LimitField))


class BucketAttr(NamedTuple):
    """What an attribute of a bucket is about."""

    limit: str
    field: BucketField


class LimitAttr(NamedTuple):
    """What an attribute of a config is about."""

    limit: str
    field: LimitField


@lru_cache(maxsize=8_192)
def bucket_attr(limit: str, field: BucketField) -> str:
    """Return the attribute of a bucket that holds ``field`` of ``limit``."""
    return f"b_{limit}_{field}"


def limit_attr(limit: str, field: LimitField) -> str:
    """Return the attribute of a config that holds ``field`` of ``limit``."""
    return f"l_{limit}_{field}"


@lru_cache(maxsize=8_192)
def parse_bucket_attr(name: str) -> BucketAttr | None:
    """Return the limit and the field of a bucket's attribute, ``None`` for any other attribute."""
    limit, field = _parse("b_", name)
    return BucketAttr(limit, cast("BucketField", field)) if limit and field in _BUCKET_FIELDS else None


def parse_limit_attr(name: str) -> LimitAttr | None:
    """Return the limit and the field of a config's attribute, ``None`` for any other attribute."""
    limit, field = _parse("l_", name)
    return LimitAttr(limit, cast("LimitField", field)) if limit and field in _LIMIT_FIELDS else None


def _parse(prefix: str, name: str) -> tuple[str, str]:
    if not name.startswith(prefix):
        return "", ""
    # A field has no underscore, a limit may: the last one parts them.
    limit, _, field = name[len(prefix) :].rpartition("_")
    return limit, field
