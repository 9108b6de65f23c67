# Generated from aio/keyed_runs.py by `just variants`: edit that one.
"""The lease of a call of a run with an idempotency key.

The key is of the run, so that the steps of two runs may have the same keys, and ends before a later run can have the
name. A repeat reads whether the run was ended: its acquire may not have asked the bucket of the run.
"""

from contextlib import suppress
from typing import Any, Self, cast

from ..exceptions import InfrastructureError
from ..flows.acquire.repeats import Try
from ..flows.acquire.requests import AcquireRequest
from ..runtime.unused import Place
from .budgets import SyncObservedRunLease, SyncRunBudget, SyncRunLease
from .keyed_lease import SyncKeyed, of_try


class SyncKeyedInRun(SyncKeyed):
    """A lease with a key of a run, without what the run does."""

    __slots__ = ()

    _budget: SyncRunBudget

    def __enter__(self) -> Self:
        super().__enter__()
        if self.repeated:
            try:
                with suppress(InfrastructureError):  # a repeat takes nothing
                    self._budget._look()
            except BaseException:
                self._grant.close()
                self._roll_back(self._grant)
                raise
        return self


class SyncKeyedRunLease(SyncRunLease, SyncKeyedInRun):
    """A lease of a run with a key."""

    __slots__ = ("_try",)


class SyncObservedKeyedRunLease(SyncObservedRunLease, SyncKeyedInRun):
    """A lease of a run with a key, of a limiter with observers."""

    __slots__ = ("_try",)


def keyed_by_run(
    make: Any,
    request: AcquireRequest,
    called_at: Place,
    key: str | None,
    life: float | None,
    place: tuple[str, str],
    ends_at: int,
) -> SyncRunLease:
    """Return the lease that ``make``, a partial of the class of a run's leases, would make, with a key of the run's
    ``place``. Raises ``ValidationError``.
    """
    this = Try(request, cast("str", key), life)
    this.place, this.ends_at = place, ends_at
    if make.func is SyncObservedRunLease:
        return of_try(SyncObservedKeyedRunLease, make, this, called_at)
    return of_try(SyncKeyedRunLease, make, this, called_at)
