"""Windows that begin with the first use, made wrong.

Lives here: the faults, and the seeds that have found them. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from zae_limiter.flows.bucket.batch import Batch
from zae_limiter.flows.bucket.write_plans import ReshapeWrite, WindowWrite
from zae_limiter.operations.values import Conditions, Update
from zae_limiter.rules.first_use import FirstUse


def _early(real: Callable[[FirstUse, int], int]) -> Callable[[FirstUse, int], int]:
    return lambda self, t_ms: real(self, t_ms + 300)


def _twice(real: Callable[[FirstUse, int], int]) -> Callable[[FirstUse, int], int]:
    """The end of a window counts twice."""
    return lambda self, t_ms: 2 * real(self, t_ms)


def _unconditional(self: WindowWrite, batch: Batch) -> Update:
    """A window begins whatever others have written since."""
    made = ReshapeWrite.write(self, batch)
    return Update(made.key, made.add, made.set, made.remove, Conditions(exists=("PK",)))


FIRST_USE_FAULTS: dict[str, tuple[Any, int]] = {
    "a window of the first use that ends early": (patch.object(FirstUse, "minted", _early(FirstUse.minted)), 2),
    "a window of the first use that counts twice": (patch.object(FirstUse, "minted", _twice(FirstUse.minted)), 7),
    "a window that begins without a condition": (
        patch.object(WindowWrite, "write", _unconditional, create=True),
        1,
    ),
}
