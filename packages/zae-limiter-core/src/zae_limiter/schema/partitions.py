"""Spread the rows that callers make over several partitions of an index.

One key of an index takes about 1,000 writes a second, and a write that an index cannot take fails as a whole. Buckets
and usage snapshots are made at the rate of new entities, so their rows in GSI2 (by resource) and GSI4 (by namespace)
have one of ``INDEX_SUFFIXES`` suffixes, by a stable hash of the entity: all rows of an entity are together. Tables have
such rows from schema ``SPREAD_SCHEMA`` on. Rows from before have no suffix, and stay where they are; a reader asks for
all partitions.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

from . import keys
from .attributes import GSI2PK, GSI4PK

INDEX_SUFFIXES: Final = 16
SPREAD_SCHEMA: Final = 2


def index_suffix(entity: str) -> int:
    """Return the suffix of an entity's buckets and usage in the partition keys of GSI2 and GSI4."""
    return crc32(entity.encode()) % INDEX_SUFFIXES


def index_partitions(ns: str, entity: str, resource: str, *, spread: bool) -> dict[str, str]:
    """Return the partition keys, by attribute, of a bucket or a snapshot in the indexes by resource and by
    namespace.
    """
    return {**_partitions(ns, resource, index_suffix(entity) if spread else None)}


@lru_cache(maxsize=1024)  # the buckets of a resource share them
def _partitions(ns: str, resource: str, suffix: int | None) -> dict[str, str]:
    return {GSI2PK: keys.gsi2_pk_resource(ns, resource, suffix), GSI4PK: keys.gsi4_pk(ns, suffix)}


def is_spread(row: dict[str, str]) -> bool:
    """Return whether an item, or its row in an index, has partition keys with a suffix."""
    return "#" in row.get(GSI4PK, "") or row.get(GSI2PK, "").count("#") > 1


def every_gsi2_pk(ns: str, resource: str) -> list[str]:
    """Return all partitions with buckets and usage of a resource; the one without a suffix is the first."""
    return [keys.gsi2_pk_resource(ns, resource, suffix) for suffix in (None, *range(INDEX_SUFFIXES))]


def every_gsi4_pk(ns: str) -> list[str]:
    """Return all partitions with records of a namespace; the one without a suffix is the first."""
    return [keys.gsi4_pk(ns, suffix) for suffix in (None, *range(INDEX_SUFFIXES))]
