# `just variants` writes the blocking variant of this module.
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
from .driver import Driver
from .lease import Lease


class ObservedLease(Lease):
    """A lease that notifies observers of its acquire, of each ``consume``, and of its end."""

    __slots__ = ("_begun", "_watch")

    def __init__(
        self,
        driver: Driver,
        namespace_state: NamespaceState,
        request: AcquireRequest,
        called_at: Place,
        audience: Audience,
    ) -> None:
        super().__init__(driver, namespace_state, request, called_at)
        self._watch = Watch(audience, request)
        self._begun = 0.0

    async def __aenter__(self) -> Self:
        taken = False
        try:
            with self._watch.acquire():
                await super().__aenter__()
                self._watch.grant, taken = self._grant, True
        except BaseException as error:
            if taken:  # an observer was interrupted, and no block follows
                self._begun, self._grant.rollback = perf_counter(), True
                await self.__aexit__(type(error), error, error.__traceback__)
            raise
        self._begun = perf_counter()
        return self

    async def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        with self._watch.call("consume", {name: amount // MILLI for name, amount in milli.items()}):
            await super()._take(grant, milli, unused=unused)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._watch.end(perf_counter() - self._begun, error):
            await super().__aexit__(kind, error, trace)


def observed_leases(
    observers: Iterable[Observer], namespace_state: NamespaceState, meter: Meter | None
) -> Callable[..., ObservedLease] | None:
    """Return what makes the leases of a limiter with these observers; ``None`` if there are none. Raises
    ``ValidationError`` for one that cannot be called.
    """
    audience = audience_of(observers, namespace_state, meter)
    return None if audience is None else partial(ObservedLease, audience=audience)
