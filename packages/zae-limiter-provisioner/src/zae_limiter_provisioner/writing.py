"""The changes of a plan, written in batches until all are made or the time is up.

Lives here: how far an invocation gets, and what became of each change. Never: the state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from zae_limiter import InfrastructureError, SyncRepository
from zae_limiter_manifest import Address, Change, Failure

from .deadline import Deadline
from .places import place_of, stored

CHANGES_PER_BATCH: Final = 200  # eight transactions at once
CHANGES_PER_INVOCATION: Final = 20_000  # so that the answer, which lists them, fits


@dataclass(slots=True)
class Outcome:
    """What became of the changes: made, failed with a reason, or left for another invocation."""

    made: list[Change] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)

    @property
    def undone(self) -> set[Address]:
        """Where things are not, or not certainly, as they shall be."""
        failed = {failure.address for failure in self.failures if failure.address}
        return failed | {change.address for change in self.left}


def write_changes(
    repository: SyncRepository,
    changes: Sequence[Change],
    deadline: Deadline,
    *,
    principal: str,
    most: int = CHANGES_PER_INVOCATION,
) -> Outcome:
    """Make the changes, as far as the time reaches; where the table fails as a whole, the rest is left."""
    outcome = Outcome()
    for batch in _batches(changes[:most]):
        if deadline.is_near or outcome.left:
            outcome.left += batch
        else:
            _write(repository, batch, outcome, principal)
    outcome.left += changes[most:]
    return outcome


def _write(repository: SyncRepository, batch: Sequence[Change], outcome: Outcome, principal: str) -> None:
    configs = {place_of(change.address): stored(change.after) if change.after else None for change in batch}
    try:
        failed = repository.put_configs(configs, principal=principal).failed
    except InfrastructureError as error:  # nothing was written, and nothing will be
        outcome.failures.append(Failure("table_failed", str(error)))
        outcome.left += batch
        return
    for change in batch:
        problem = failed.get(place_of(change.address))
        if problem is None:
            outcome.made.append(change)
        else:
            outcome.failures.append(Failure("not_written", str(problem), address=change.address))


def _batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    return (changes[start : start + CHANGES_PER_BATCH] for start in range(0, len(changes), CHANGES_PER_BATCH))
