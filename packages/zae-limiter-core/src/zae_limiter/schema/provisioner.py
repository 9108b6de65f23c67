"""The items of a provisioner's state, a head, and parts if the state is larger than an item may be; and those of the
history of its applies: a record of each, and its manifest, compressed, in as many parts as it takes.

This module divides the content into parts; ``flows`` orders the writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..runtime.named_tuple import NamedTuple
from ..values.provisioner import ApplyProgress, ApplyRecord, HandledEvent, ProvisionerLock, ProvisionerState
from . import keys
from .attributes import (
    CONTENT,
    INTENDED_SYSTEM,
    MANAGED_ENTITIES,
    MANAGED_RESOURCES,
    MANAGED_SYSTEM,
    PARTS,
    PROGRESS,
    SERIAL,
    SK,
    STOP,
    TAG,
)
from .record import (
    AS_IS,
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    Field,
    Item,
    Record,
    flag,
    item_keys,
    number,
    numbers,
    optional,
    reads,
    text,
    texts,
)

PART_BYTES: Final = 350_000  # an item may have 400 KB
HEAD_BYTES: Final = 4_000  # every apply writes the head, for a unit per KB; a head with parts is small
MAX_PARTS: Final = 99
_PAIR_BYTES: Final = 8  # of a pair, beside its names
_TAGS: Final = 10**12
_PLACES: Final = 10**3
_KINDS: Final = ("managed", "intended")

EVENT: Final = Record(HandledEvent, event_id=AS_IS.named("id"), ok=AS_IS)
APPLY_LOCK: Final = Record(
    ProvisionerLock, lock_id=AS_IS.named("id"), owner=AS_IS, expires_at_ms=AS_IS.named("expires_at")
)
APPLY_PROGRESS: Final = Record(
    ApplyProgress, done=AS_IS, total=AS_IS, began_at_ms=AS_IS.named("began_at"), at_ms=AS_IS.named("at")
)
HEAD: Final = Record(
    ProvisionerState,
    serial=NUMBER,
    lock=Field(lambda item, name: APPLY_LOCK.inner(item[name]), APPLY_LOCK.write).optional(),
    progress=Field(lambda item, name: APPLY_PROGRESS.inner(item[name]), lambda _: None).optional(),
    stop=TEXT._replace(write=lambda _: None).optional(),  # like the progress, in no write of a state
    handled=Field(
        lambda item, name: [EVENT.inner(each) for each in item[name]], lambda events: [*map(EVENT.write, events)]
    ).optional(()),
    last_applied=TEXT.optional(),
    applied_hash=TEXT.optional(),
    owner=TEXT.optional(),
    share=TEXT.optional(),
)
"""The head, without the places that it and its parts name."""


class ManagedPlace(NamedTuple):
    """A resource, an entity on a resource, or an entity itself (without a resource), that is managed or intended."""

    kind: str
    entity: str | None
    resource: str | None


def part_numbers(serial: int, tag: int, count: int) -> list[int]:
    """Return the numbers of the parts of one write: the serial, the write's own ``tag``, and the place of the part.

    No two writes share a part. So a write that fails does not change the parts of the former state.
    """
    return [(serial * _TAGS + tag % _TAGS) * _PLACES + place for place in range(1, count + 1)]


def serial_of(number: int) -> int:
    """Return the serial of the state that a part belongs to."""
    return number // (_TAGS * _PLACES)


def parse_part_sk(sk: str) -> int:
    """Return the number of a part, 0 for the head. Raises ``ValueError`` for any other record."""
    head, _, number = sk.removeprefix(keys.PROVISIONER_PREFIX).partition("#")
    if head or not sk.startswith(keys.PROVISIONER_PREFIX):
        raise ValueError(f"not of a provisioner's state: {sk!r}")
    return int(number) if number else 0


def state_items(namespace_id: str, state: ProvisionerState, *, tag: int) -> tuple[Item, list[Item]]:
    """Return the head and the parts of a state, no parts if all fits into the head. ``tag`` distinguishes two
    writes.
    """
    pairs = list(_pairs(state))
    chunks = list(_chunks(pairs)) if sum(map(_size, pairs)) > HEAD_BYTES else []
    numbers = part_numbers(state.serial, tag, len(chunks))
    intended = {INTENDED_SYSTEM: True} if state.intended_system else {}
    head = {**_place(namespace_id, 0), MANAGED_SYSTEM: state.managed_system, **intended, **HEAD.write(state)}
    head |= {TAG: tag, PARTS: numbers}
    if not numbers:
        return {**head, **_place_attributes(pairs)}, []
    return head, [
        {**_place(namespace_id, number), SERIAL: state.serial, TAG: tag, **_place_attributes(chunk)}
        for number, chunk in zip(numbers, chunks, strict=True)
    ]


class WriteMark(NamedTuple):
    """The values that the head and the parts of one write share, and that no other write has."""

    serial: int
    tag: int


@reads
def read_write_mark(item: Item) -> WriteMark:
    """Return the mark of the write that a head or a part is of."""
    return WriteMark(number(item, SERIAL), number(item, TAG))


@reads
def read_parts(head: Item) -> list[int]:
    """Return the numbers of the parts that a head names."""
    found = numbers(head[PARTS], PARTS)
    if len(found) > MAX_PARTS:
        raise ValueError(f"it names {len(found)} parts, at most {MAX_PARTS} are written")
    return found


def torn(head: Item, parts: Sequence[Item]) -> str | None:
    """Return why these are not the parts of the head, as while it is written; ``None`` if they are."""
    others = [part[SK] for part in parts if read_write_mark(part) != read_write_mark(head)]
    if others or len(parts) != len(read_parts(head)):
        return f"the parts of serial {read_write_mark(head).serial} are not all there: {others or len(parts)}"
    return None


@reads
def read_state(head: Item, parts: Sequence[Item]) -> ProvisionerState:
    """Return the state in a head and all its parts."""
    fields: Item = HEAD.values(head)
    for kind in _KINDS:
        fields |= {f"{kind}_resources": [], f"{kind}_entities": {}, f"{kind}_records": []}
        for item in parts or [head]:
            _add_places(item, kind, fields)
        fields[f"{kind}_system"] = flag({f"{kind}_system": False, **head}, f"{kind}_system")
    return ProvisionerState(**fields)


@reads  # of its own: the error names the part
def _add_places(item: Item, kind: str, fields: Item) -> None:
    """Add the places of one kind that a head or a part names."""
    resources, entities, records = f"{kind}_resources", f"{kind}_entities", f"{kind}_records"
    fields[resources] += texts(item.get(resources, []), resources)
    fields[records] += texts(item.get(records, []), records)
    for entity, own in item.get(entities, {}).items():
        fields[entities].setdefault(text({entities: entity}, entities), []).extend(texts(own, entities))


def _place(ns: str, number: int) -> Item:
    return item_keys(ns, keys.pk_system(ns), keys.sk_provisioner(number))


def progress_attributes(progress: ApplyProgress) -> Item:
    """Return the attribute that holds how far an apply is; no write of a state has it."""
    return {PROGRESS: APPLY_PROGRESS.write(progress)}


@reads
def read_stop(head: Item) -> str | None:
    """Return who has asked the apply under way to stop."""
    return optional(text, head, STOP)


def _pairs(state: ProvisionerState) -> Iterator[ManagedPlace]:
    for kind in _KINDS:
        yield from (ManagedPlace(kind, None, resource) for resource in getattr(state, f"{kind}_resources"))
        for entity, resources in getattr(state, f"{kind}_entities").items():
            yield from (ManagedPlace(kind, entity, resource) for resource in resources)
        yield from (ManagedPlace(kind, entity, None) for entity in getattr(state, f"{kind}_records"))


def _size(pair: ManagedPlace) -> int:
    return len(f"{pair.entity or ''}{pair.resource or ''}".encode()) + _PAIR_BYTES


def _chunks(pairs: Iterable[ManagedPlace]) -> Iterator[list[ManagedPlace]]:
    chunk: list[ManagedPlace] = []
    size = 0
    for pair in pairs:
        added = _size(pair)
        if size + added > PART_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(pair)
        size += added
    if chunk:
        yield chunk


def _place_attributes(pairs: Iterable[ManagedPlace]) -> Item:
    """Return the attributes that hold these places: managed sets always, intended ones if they are not empty."""
    item: Item = {MANAGED_RESOURCES: [], MANAGED_ENTITIES: {}}
    for kind, entity, resource in pairs:
        if entity is None:
            item.setdefault(f"{kind}_resources", []).append(resource)
        elif resource is None:
            item.setdefault(f"{kind}_records", []).append(entity)
        else:
            item.setdefault(f"{kind}_entities", {}).setdefault(entity, []).append(resource)
    return item


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
    return {**_apply_place(namespace_id, ApplyPart(record.serial, 0)), PARTS: parts, **APPLY.write(record)}


def part_items(namespace_id: str, serial: int, content: str) -> list[Item]:
    """Return the items of a manifest, which is ASCII text by now."""
    chunks = [content[start : start + PART_BYTES] for start in range(0, len(content), PART_BYTES)]
    return [
        {**_apply_place(namespace_id, ApplyPart(serial, place)), SERIAL: serial, CONTENT: chunk}
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


def _apply_place(ns: str, part: ApplyPart) -> Item:
    return item_keys(ns, keys.pk_applies(ns), keys.sk_apply(part.serial, part.place))
