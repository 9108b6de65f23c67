"""Write the changes of a plan in batches, until all are made or the time is up. ``apply`` stores the state."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zae_limiter import ZAELimiterError
from zae_limiter.exceptions import InfrastructureError
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import Address, Change, Failure, RecordDecl

from .conversion import address_of, place_of, to_stored_config, to_stored_entity
from .deadline import Deadline

CHANGES_PER_BATCH: Final = 200  # eight transactions at once
BYTES_PER_BATCH: Final = 250_000
BYTES_OF_A_PAGE: Final = 4_500_000  # the answer to an apply is one page: see packing.LARGEST
LONGEST_REASON: Final = 500


@dataclass(slots=True)
class WriteOutcome:
    """The result of each change: made, failed with a reason, or left for another invocation."""

    made: list[Change] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)

    @property
    def undone(self) -> set[Address]:
        """The addresses whose change is not, or not certainly, made."""
        failed = {failure.address for failure in self.failures if failure.address}
        return failed | {change.address for change in self.left}


class _Listed:
    """The size of a list of the changes made and failed: plain, and packed as ``packing.page`` packs it, or larger."""

    def __init__(self) -> None:
        self.plain = self._packed = 0
        self._packer = zlib.compressobj(level=1)

    def add(self, text: str) -> None:
        """Add a part of the list."""
        self.plain += len(text)
        packed = self._packer.compress(text.encode()) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._packed += len(packed) * 4 // 3  # in base64

    def is_over(self, most: int) -> bool:
        """Return whether it has more than ``most`` bytes, or neither form of it fits into one page."""
        return self.plain > most or min(self.plain, self._packed) > BYTES_OF_A_PAGE


def write_changes(
    maintenance: SyncMaintenance,
    changes: Sequence[Change],
    deadline: Deadline,
    *,
    principal: str,
    listed_bytes: int | None = None,
    most_at_once: int | None = None,
    goes_on: Callable[[WriteOutcome], bool] = lambda _: True,
) -> WriteOutcome:
    """Make changes until the deadline or the size of the list is reached, the table fails, or ``goes_on``, which is
    asked between two batches, says no; the rest is left.

    ``listed_bytes`` bounds the size of the list, ``most_at_once`` that of a batch; one batch is written in any case.
    """
    outcome, listed = WriteOutcome(), _Listed()
    for number, batch in enumerate(_batches(changes, min(most_at_once or CHANGES_PER_BATCH, CHANGES_PER_BATCH))):
        ends = bool(outcome.left)
        if not ends and listed_bytes is not None:
            listed.add(batch.text)
            ends = bool(number) and listed.is_over(listed_bytes)
        if ends or (number and not goes_on(outcome)) or deadline.is_near:
            outcome.left += batch.changes
        else:
            listed.add("".join(_write(maintenance, batch.changes, outcome, principal)))
    return outcome


class _Batch(NamedTuple):
    """Changes that are written together, and their list."""

    changes: list[Change]
    text: str


def _write(
    maintenance: SyncMaintenance, changes: Sequence[Change], outcome: WriteOutcome, principal: str
) -> Iterable[str]:
    """Make the changes, and return the reasons of those that failed."""
    failed: Mapping[Address, ZAELimiterError]
    try:
        if changes[0].address.is_record:
            failed = _put_records(maintenance, changes, principal)
        else:
            failed = _put_configs(maintenance, changes, principal, trusts_plan=not outcome.failures)
    except InfrastructureError as error:  # nothing was written, and further batches would fail, too
        outcome.failures.append(Failure("table_failed", str(error)))
        outcome.left += changes
        return ()
    reasons = {address: str(problem)[:LONGEST_REASON] for address, problem in failed.items()}
    for change in changes:
        reason = reasons.get(change.address)
        if reason is None:
            outcome.made.append(change)
        else:
            outcome.failures.append(Failure("not_written", reason, address=change.address))
    return reasons.values()


def _put_configs(
    maintenance: SyncMaintenance, changes: Sequence[Change], principal: str, *, trusts_plan: bool
) -> dict[Address, InfrastructureError]:
    """Write limits; return the error of each address that failed. ``trusts_plan``: what the plan found empty is not
    read again. After a failure it is: a table that has gone away is noticed by the read, and the rest is left.

    Raises `InfrastructureError`.
    """
    after = {change.address: change.after for change in changes}
    configs = {
        place_of(address): None if decl is None or isinstance(decl, RecordDecl) else to_stored_config(decl)
        for address, decl in after.items()
    }
    created = [place_of(change.address) for change in changes if trusts_plan and change.before is None]
    failed = maintenance.put_configs(configs, principal=principal, found_empty=created).failed
    return {address_of(place): problem for place, problem in failed.items()}


def _put_records(
    maintenance: SyncMaintenance, changes: Sequence[Change], principal: str
) -> dict[Address, ZAELimiterError]:
    """Write entities themselves, in this order; return the error of each that failed. Raises `InfrastructureError`."""
    records = {
        str(change.address.entity): to_stored_entity(change.after) if isinstance(change.after, RecordDecl) else None
        for change in changes
    }
    failed = maintenance.put_entity_records(records, principal=principal)
    return {Address(None, entity): problem for entity, problem in failed.items()}


def _batches(changes: Sequence[Change], most: int) -> Iterator[_Batch]:
    batch, texts, total = list[Change](), list[str](), 0
    for change in changes:
        text = json.dumps(change.to_dict())
        is_other_kind = batch and batch[-1].address.is_record != change.address.is_record
        if is_other_kind or (batch and (len(batch) == most or total + len(text) > BYTES_PER_BATCH)):
            yield _Batch(batch, "".join(texts))
            batch, texts, total = [], [], 0
        batch.append(change)
        texts.append(text)
        total += len(text)
    if batch:
        yield _Batch(batch, "".join(texts))
