"""The items of the history of applies: a record of each, and its manifest, compressed, in as many parts as it takes."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..values.applies import ApplyRecord
from . import keys
from .attributes import CONTENT, PARTS, SERIAL, SK
from .record import FLAG, NUMBER, TEXT, TEXTS, Item, Record, item_keys, number, reads, text

PART_BYTES: Final = 350_000  # an item may have 400 KB
MAX_PARTS: Final = 99


class ApplyPart(NamedTuple):
    """The serial of an apply, and the place of a part of its manifest; 0 is the record itself."""

    serial: int
    place: int


APPLY: Final = Record(
    ApplyRecord,
    serial=NUMBER,
    at=TEXT,
    owner=TEXT,
    manifest_hash=TEXT,
    principal=TEXT.optional(),
    source=TEXT.optional(),
    targets=TEXTS.optional(()),
    ended=FLAG,
    created=NUMBER.optional(0),
    updated=NUMBER.optional(0),
    deleted=NUMBER.optional(0),
    failed=NUMBER.optional(0),
    left=NUMBER.optional(0),
)


def record_item(namespace_id: str, record: ApplyRecord, parts: int) -> Item:
    """Return the item of an apply whose manifest has so many parts."""
    return {**_place(namespace_id, ApplyPart(record.serial, 0)), PARTS: parts, **APPLY.write(record)}


def part_items(namespace_id: str, serial: int, content: str) -> list[Item]:
    """Return the items of a manifest, which is ASCII text by now."""
    chunks = [content[start : start + PART_BYTES] for start in range(0, len(content), PART_BYTES)]
    return [
        {**_place(namespace_id, ApplyPart(serial, place)), SERIAL: serial, CONTENT: chunk}
        for place, chunk in enumerate(chunks, start=1)
    ]


@reads
def read_record(item: Item) -> ApplyRecord:
    """Return the apply that an item is the record of."""
    if item[SK] != keys.sk_apply(number(item, SERIAL)):
        raise ValueError(f"{SERIAL} is not that of its key")
    return APPLY.read(item)


@reads
def read_part_count(item: Item) -> int:
    """Return how many parts the manifest of an apply has."""
    count = number(item, PARTS)
    if not 0 <= count <= MAX_PARTS:
        raise ValueError(f"it names {count} parts, at most {MAX_PARTS} are written")
    return count


@reads
def read_content(item: Item) -> str:
    """Return what a part has of a manifest."""
    return text(item, CONTENT)


def parse_sk(sk: str) -> ApplyPart:
    """Return what a sort key of the history is of. Raises ``ValueError`` for any other key."""
    if sk.startswith(keys.APPLY_PREFIX):
        return ApplyPart(int(sk.removeprefix(keys.APPLY_PREFIX)), 0)
    if not sk.startswith(keys.MANIFEST_PREFIX):
        raise ValueError(f"not of the history of applies: {sk!r}")
    serial, _, place = sk.removeprefix(keys.MANIFEST_PREFIX).partition("#")
    return ApplyPart(int(serial), int(place))


def outdated(found: Sequence[ApplyPart], *, most: int, newest: int) -> Iterator[ApplyPart]:
    """Yield what is not of the ``most`` last applies, and the parts of an apply before ``newest`` without a record."""
    records = sorted((each.serial for each in found if not each.place), reverse=True)
    kept = {*records[:most], *(each.serial for each in found if each.serial >= newest)}
    return (each for each in found if each.serial not in kept)


def _place(ns: str, part: ApplyPart) -> Item:
    return item_keys(ns, keys.pk_applies(ns), keys.sk_apply(part.serial, part.place))
