"""Between the batches of an apply: keep its pace, store how far it is, and learn whether it has to stop.

The rest of a stopped apply is left as it was, and each change that was made is managed, as after a deadline.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zae_limiter import SyncRepository
from zae_limiter.exceptions import InfrastructureError, StaleStateError
from zae_limiter.maintenance import note_progress, run
from zae_limiter.values.provisioner import ApplyProgress
from zae_limiter_manifest import Failure

from .deadline import Deadline
from .writing import WriteOutcome

logger = logging.getLogger(__name__)

LEAST_MS: Final = 1_000  # between two checkpoints


@dataclass(slots=True)
class Checkpoint:
    """The checkpoints of one apply, which holds the lock of the state ``serial``."""

    repository: SyncRepository
    serial: int
    total: int
    began_at_ms: int
    deadline: Deadline
    sleep: Callable[[float], None]
    changes_per_second: int | None
    noted_at_ms: int = 0

    def pass_after(self, outcome: WriteOutcome) -> bool:
        """Wait for the pace, store the progress, and return whether the apply goes on; if not, say why in the
        failures.
        """
        done = len(outcome.made) + len(outcome.failures)
        self._keep_pace(done)
        now_ms = self.deadline.now_ms()
        if now_ms - self.noted_at_ms < LEAST_MS:
            return True
        self.noted_at_ms = now_ms
        return self._note(outcome, ApplyProgress(done, self.total, self.began_at_ms, max(now_ms, self.began_at_ms)))

    def _keep_pace(self, done: int) -> None:
        if self.changes_per_second is None:
            return
        due_ms = self.began_at_ms + done * 1000 // self.changes_per_second
        seconds = (due_ms - self.deadline.now_ms()) / 1000
        if seconds > 0:
            self.sleep(min(seconds, max(self.deadline.stop - self.deadline.monotonic(), 0)))

    def _note(self, outcome: WriteOutcome, progress: ApplyProgress) -> bool:
        state = self.repository.namespace_state
        stopped_by: str | None = None
        try:
            stopped_by = run(self.repository, note_progress(state, progress, expected_serial=self.serial))
        except StaleStateError:
            return False  # somebody has freed the lock: the end of the apply says so
        except InfrastructureError as error:  # the next batch shows whether the table fails
            logger.warning("the progress of the apply cannot be stored: %s", error)
        if stopped_by is None:
            return True
        left = progress.total - progress.done
        message = f"{stopped_by} has stopped the apply: {left:,} changes are left, and another apply makes them"
        outcome.failures.append(Failure("stopped", message))
        return False
