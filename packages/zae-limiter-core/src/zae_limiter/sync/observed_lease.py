# Generated from aio/observed_lease.py by `just variants`: edit that one.
"""The lease of a limiter with observers."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Self

from ..engines.meter import Meter
from ..flows.acquire.claims import Grant
from ..flows.acquire.requests import AcquireRequest
from ..flows.process.namespace_state import NamespaceState
from ..observers import Observer
from ..observing import Audience, Watch, audience_of
from ..runtime.unused import Place
from ..values.limits import MILLI
from .driver import SyncDriver
from .lease import SyncLease


class SyncObservedLease(SyncLease):
    """A lease that notifies observers of its acquire, of each ``consume``, and of its end."""

    __slots__ = ("_begun", "_watch")

    def __init__(
        self,
        driver: SyncDriver,
        namespace_state: NamespaceState,
        request: AcquireRequest,
        called_at: Place,
        audience: Audience,
    ) -> None:
        super().__init__(driver, namespace_state, request, called_at)
        self._watch = Watch(audience, request)
        self._begun = 0.0

    def __enter__(self) -> Self:
        taken = False
        try:
            with self._watch.acquire():
                super().__enter__()
                self._watch.grant, taken = self._grant, True
        except BaseException as error:
            if taken:  # an observer was interrupted, and no block follows
                self._begun, self._grant.rollback = perf_counter(), True
                self.__exit__(type(error), error, error.__traceback__)
            raise
        self._begun = perf_counter()
        return self

    def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        with self._watch.call("consume", {name: amount // MILLI for name, amount in milli.items()}):
            super()._take(grant, milli, unused=unused)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._watch.end(perf_counter() - self._begun, error):
            super().__exit__(kind, error, trace)


def observed_leases(
    observers: Iterable[Observer], namespace_state: NamespaceState, meter: Meter | None
) -> Callable[..., SyncObservedLease] | None:
    """Return what makes the leases of a limiter with these observers; ``None`` if there are none. Raises
    ``ValidationError`` for one that cannot be called.
    """
    audience = audience_of(observers, namespace_state, meter)
    return None if audience is None else partial(SyncObservedLease, audience=audience)
