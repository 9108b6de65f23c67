# `just variants` writes the blocking variant of this module.
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
from .budgets import ObservedRunLease, RunBudget, RunLease
from .keyed_lease import Keyed, of_try


class KeyedInRun(Keyed):
    """A lease with a key of a run, without what the run does."""

    __slots__ = ()

    _budget: RunBudget

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self.repeated:
            try:
                with suppress(InfrastructureError):  # a repeat takes nothing
                    await self._budget._look()
            except BaseException:
                self._grant.close()
                await self._roll_back(self._grant)
                raise
        return self


class KeyedRunLease(RunLease, KeyedInRun):
    """A lease of a run with a key."""

    __slots__ = ("_try",)


class ObservedKeyedRunLease(ObservedRunLease, KeyedInRun):
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
) -> RunLease:
    """Return the lease that ``make``, a partial of the class of a run's leases, would make, with a key of the run's
    ``place``. Raises ``ValidationError``.
    """
    this = Try(request, cast("str", key), life)
    this.place, this.ends_at = place, ends_at
    if make.func is ObservedRunLease:
        return of_try(ObservedKeyedRunLease, make, this, called_at)
    return of_try(KeyedRunLease, make, this, called_at)
