"""The items of a provisioner's state: a head, and parts behind it where the state is larger than an item may be.

Lives here: their content, and how a state is cut into them. Never: in which order they are written (flows).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ..provisioner import ProvisionerLock, ProvisionerState
from . import keys

Item = dict[str, Any]
Pair = tuple[str | None, str]  # an entity, or nobody, and one resource that is managed

PART_BYTES: Final = 350_000  # an item may have 400 KB
MAX_PARTS: Final = 99
_PAIR_BYTES: Final = 8  # what a pair costs beside its names
_TAGS: Final = 10**12
_PLACES: Final = 10**3
_FIELDS: Final = ("last_applied", "applied_hash", "owner")


def part_numbers(serial: int, tag: int, count: int) -> list[int]:
    """The numbers of the parts of one write: the serial, the write's own ``tag``, and the place of the part.

    No two writes share a part, so a write that fails leaves the parts of the state that holds as they are.
    """
    return [(serial * _TAGS + tag % _TAGS) * _PLACES + place for place in range(1, count + 1)]


def serial_of(number: int) -> int:
    """The serial of the state that a part was written for."""
    return number // (_TAGS * _PLACES)


def parse_part_sk(sk: str) -> int:
    """The number of a part, 0 for the head; ``ValueError`` for any other record."""
    head, _, number = sk.removeprefix(keys.PROVISIONER_PREFIX).partition("#")
    if head or not sk.startswith(keys.PROVISIONER_PREFIX):
        raise ValueError(f"not of a provisioner's state: {sk!r}")
    return int(number) if number else 0


def state_items(namespace_id: str, state: ProvisionerState, *, tag: int) -> tuple[Item, list[Item]]:
    """The head of a state and its parts, none where all fits into the head. ``tag`` tells two writes apart."""
    chunks = list(_chunks(_pairs(state)))
    numbers = part_numbers(state.serial, tag, len(chunks) if len(chunks) > 1 else 0)
    head = {**_head(namespace_id, state), "tag": tag, "parts": numbers}
    if not numbers:
        return {**head, **_managed(chunks[0] if chunks else ())}, []
    return head, [
        {**_base(namespace_id, number), "serial": state.serial, "tag": tag, **_managed(chunk)}
        for number, chunk in zip(numbers, chunks, strict=True)
    ]


def read_state(head: Item, parts: Sequence[Item]) -> ProvisionerState:
    """The state of a head and its parts. ``ValueError`` where they are not of one write."""
    torn = [part["SK"] for part in parts if (part["serial"], part["tag"]) != (head["serial"], head["tag"])]
    if torn or len(parts) != len(head["parts"]):
        raise ValueError(f"the parts of serial {head['serial']} are not all there: {torn or len(parts)}")
    resources: list[str] = []
    entities: dict[str, list[str]] = {}
    for item in parts or [head]:
        resources += item["managed_resources"]
        for entity, managed in item["managed_entities"].items():
            entities.setdefault(entity, []).extend(managed)
    return ProvisionerState(
        managed_system=head["managed_system"],
        managed_resources=resources,
        managed_entities=entities,
        serial=head["serial"],
        lock=_read_lock(head),
        **{name: head.get(name) for name in _FIELDS},
    )


def _head(namespace_id: str, state: ProvisionerState) -> Item:
    said = {name: getattr(state, name) for name in _FIELDS if getattr(state, name) is not None}
    lock = state.lock
    held = {} if lock is None else {"lock": {"id": lock.lock_id, "owner": lock.owner, "expires_at": lock.expires_at_ms}}
    return {
        **_base(namespace_id, 0),
        "serial": state.serial,
        "managed_system": state.managed_system,
        **said,
        **held,
    }


def _base(namespace_id: str, number: int) -> Item:
    pk = keys.pk_system(namespace_id)
    return {"PK": pk, "SK": keys.sk_provisioner(number), "GSI4PK": keys.gsi4_pk(namespace_id), "GSI4SK": pk}


def _read_lock(head: Item) -> ProvisionerLock | None:
    lock = head.get("lock")
    return None if lock is None else ProvisionerLock(lock["id"], lock["owner"], lock["expires_at"])


def _pairs(state: ProvisionerState) -> Iterator[Pair]:
    yield from ((None, resource) for resource in state.managed_resources)
    for entity, resources in state.managed_entities.items():
        yield from ((entity, resource) for resource in resources)


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    size = 0
    for pair in pairs:
        added = len(pair[0] or "") + len(pair[1]) + _PAIR_BYTES  # names are ASCII
        if size + added > PART_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(pair)
        size += added
    if chunk:
        yield chunk


def _managed(pairs: Iterable[Pair]) -> Item:
    resources: list[str] = []
    entities: dict[str, list[str]] = {}
    for entity, resource in pairs:
        (resources if entity is None else entities.setdefault(entity, [])).append(resource)
    return {"managed_resources": resources, "managed_entities": entities}
