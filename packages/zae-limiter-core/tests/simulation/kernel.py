"""Virtual time, and tasks that are generators.

Lives here: the scheduler. Never: what the tasks do (driver, callers), chance (the caller brings it).
"""

import heapq
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

EPOCH_MS = 1_700_000_000_000
MOST_EVENTS = 200_000

T = TypeVar("T")


class Violation(AssertionError):
    """The limiter did what it must not."""


class Cancelled(BaseException):
    """Thrown into a task that is cancelled, as asyncio does."""


class Future:
    """Something that is settled once; a task that yields it sleeps until then."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._waiters: list[Callable[[], None]] = []

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Wake who waits, unless it was settled before."""
        if self.done:
            return
        self.done, self.value, self.error = True, value, error
        for waiter in self._waiters:
            waiter()

    def when_done(self, waiter: Callable[[], None]) -> None:
        """Call the waiter once, now or later."""
        if self.done:
            waiter()
        else:
            self._waiters.append(waiter)


Script = Generator[Future, Any, T]


class Owner(Protocol):
    """Whose task it is; nothing of a crashed process runs on, and nothing of a suspended one until it wakes.

    ``generation``: the number of forks between the first process and this one.
    """

    alive: bool
    wakes_us: int
    generation: int

    def now_ms(self) -> int:
        """The time as it knows it; epoch milliseconds."""


class Kernel:
    """What happens, in order of virtual time; at one instant, in the order in which it was asked for."""

    def __init__(self, epoch_ms: int = EPOCH_MS) -> None:
        self.epoch_ms = epoch_ms
        self.now_us = 0
        self.acting: Owner | None = None
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def now_ms(self) -> int:
        """The true time, which no process knows exactly; epoch milliseconds."""
        return self.epoch_ms + self.now_us // 1000

    def later(self, delay_us: int, event: Callable[[], None], *, turns: int = 0) -> None:
        """Have something happen after a delay, and then after so many turns of what happens at that instant."""
        if turns:
            return self.later(delay_us, lambda: self.later(0, event, turns=turns - 1))
        self._count += 1
        return heapq.heappush(self._events, (self.now_us + delay_us, self._count, event))

    def pause(self, delay_us: int) -> Future:
        """A future that is settled after a delay."""
        future = Future()
        self.later(delay_us, future.settle)
        return future

    def run(self) -> None:
        """Let everything happen, until nothing is left."""
        while self._events:
            self.now_us, _, event = heapq.heappop(self._events)
            event()
            if self._count > MOST_EVENTS:
                raise Violation("it does not come to rest")


class Task:
    """A script that runs for an owner; ``ended`` is settled with its result."""

    def __init__(self, kernel: Kernel, owner: Owner, script: Script[Any]) -> None:
        self.ended = Future()
        self._kernel = kernel
        self._owner = owner
        self._script = script
        self._waits: Future | None = Future()
        self._waits.when_done(self._waker(self._waits))
        self._waits.settle()

    def cancel(self) -> None:
        """Throw ``Cancelled`` into the script where it waits."""
        if not self.ended.done:
            self._waits = None
            self._kernel.later(0, lambda: self._step(None, Cancelled()))

    def _waker(self, future: Future) -> Callable[[], None]:
        def wake() -> None:
            if self._waits is future:
                self._step(future.value, future.error)

        return lambda: self._kernel.later(0, wake)

    def _step(self, value: Any, error: BaseException | None) -> None:
        asleep_us = self._owner.wakes_us - self._kernel.now_us
        if not self._owner.alive or self.ended.done:
            return
        if asleep_us > 0:
            self._kernel.later(asleep_us, lambda: self._step(value, error))
            return
        self._kernel.acting = self._owner
        try:
            future = self._script.throw(error) if error is not None else self._script.send(value)
        except StopIteration as stop:
            self.ended.settle(stop.value)
        except Violation:
            raise
        except BaseException as failure:  # noqa: BLE001  who waits for the task gets it
            self.ended.settle(error=failure)
        else:
            self._waits = future
            future.when_done(self._waker(future))
