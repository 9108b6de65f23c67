"""Rehearsed migrations: no release has one yet.

Lives here: what they change, and a table for them. Never: a claim.
"""

from zae_limiter.flows.records.migrations import Change, Migration
from zae_limiter.operations.values import Item, Key, Put
from zae_limiter.schema.attributes import CASCADE, PK, SK
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.keys import sk_state
from zae_limiter.schema.registry import version_item
from zae_limiter.versions import VersionRecord

SHORT = "cc"
SHORTER = "c"


def shorten(item: Item) -> Change | None:
    """``cascade`` of a bucket gets a shorter name; nothing reads it, so that clients of today do not mind."""
    if item[SK] != sk_state() or CASCADE not in item:
        return None
    return Change({SHORT: item[CASCADE]}, remove=(CASCADE,))


def shorten_again(item: Item) -> Change | None:
    """The next one builds on it."""
    if item[SK] != sk_state() or SHORT not in item:
        return None
    return Change({SHORTER: item[SHORT]}, remove=(SHORT,))


FIRST = Migration(1, "shorten-cascade", "A shorter name for an attribute of buckets.", "0.1.0", shorten)
SECOND = Migration(2, "shorten-again", "A still shorter one.", "0.1.0", shorten_again)
REHEARSED = (FIRST, SECOND)


def record_item(schema_version: int = 1, oldest_client: str = "0.1.0") -> Item:
    """The version record before the migrations."""
    return version_item(VersionRecord(schema_version, "0.1.0", oldest_client))


def bucket(number: int) -> Item:
    """A bucket in the old form, as far as the migrations look at it."""
    ids = BucketId("ns", f"e-{number}", "gpt-4").attributes()
    return {**ids, CASCADE: number % 2 == 0, "ev": number}


def migrated(item: Item) -> Item:
    """The item in the newest form."""
    kept = {name: value for name, value in item.items() if name not in {CASCADE, SHORT}}
    return {**kept, SHORTER: item[CASCADE]}


def puts(count: int) -> list[Put]:
    """A table with so many buckets, a record of another kind, and its version record."""
    other = {PK: "ns/ENTITY#e", SK: "#META", CASCADE: True}
    return [*(Put(bucket(number)) for number in range(count)), Put(other), Put(record_item())]


def key(number: int) -> Key:
    """The key of a bucket."""
    item = bucket(number)
    return Key(item[PK], item[SK])
