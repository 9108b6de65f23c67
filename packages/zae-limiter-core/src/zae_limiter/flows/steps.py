"""The steps that a flow yields, and the calls that send its operations."""

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from ..operations.errors import StoreError, Unreadable
from ..operations.values import Operation
from ..runtime.dataclass import dataclass, field
from ..runtime.named_tuple import NamedTuple
from .bucket_queue import Waiter

R = TypeVar("R")
T = TypeVar("T")


class Sleeper(Protocol):
    """Whom a driver can wake, by its ``waker``."""

    waker: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """Pause for ``seconds``. Answer: ``None``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for ``seconds``, holding nothing; the run's time budget restarts afterwards. Answer: ``None``.

    ``sleeper``: who waits, if a ``Wake`` may end it sooner.
    """

    seconds: float
    sleeper: Sleeper | None = None


@dataclass(frozen=True, slots=True)
class Parallel:
    """Perform the steps at the same time. Answer of operations: their answers in order, an exception for each that
    failed.
    """

    steps: "tuple[Operation[Any], ...] | tuple[Enqueue, ...]"


@dataclass(frozen=True, slots=True)
class Log:
    """Write a line for operators with the named logger, at a level. Answer: ``None``.

    ``message`` is constant; ``values``, which may have ids, fill its ``%s``: a log without ids leaves them out.
    """

    logger: str
    level: int
    message: str
    values: tuple[object, ...] = field(default=(), kw_only=True)

    def write(self) -> None:
        """Write the line."""
        logging.getLogger(self.logger).log(self.level, self.message, *self.values)


@dataclass(frozen=True, slots=True)
class DroppedRows(Log):
    """A line about rows of an index that a call dropped; the store's stats count them. Answer: ``None``."""

    foreign: int
    unreadable: int
    errors: Sequence[Unreadable] = ()
    unnamed: int = 0

    def write(self) -> None:
        """Write the line, with the counts as fields of a log in JSON. The errors, which may quote values of the items,
        are in the log record alone: formatters leave out a name that begins so.
        """
        fields = {"foreign_rows": self.foreign, "unreadable_rows": self.unreadable}
        extra = {"fields": fields, "_unreadable": self.errors, "_unnamed": self.unnamed}
        logging.getLogger(self.logger).log(self.level, self.message, *self.values, extra=extra)


@dataclass(frozen=True, slots=True)
class Wake:
    """Wake the callers of these settled waiters, and these sleepers, while the run goes on. Answer: ``None``."""

    waiters: Sequence[Sleeper]


class Settled(NamedTuple):
    """Keep these waiters, settled without their queues, with those of the run: it undoes them if it is cut off. Answer:
    ``None``.
    """

    waiters: Sequence[Waiter]


@dataclass(slots=True, eq=False)  # not frozen, which costs more: every acquire makes one
class Enqueue:
    """Put the waiter into its queue and wait until it is settled. Answer: ``None``; the waiter has its outcome."""

    waiter: Waiter


class Post(NamedTuple):
    """Put the waiter into its queue, without waiting for it. Answer: ``None``."""

    waiter: Waiter


class Remind(NamedTuple):
    """Put the waiter into its queue after so many seconds, unless the driver is closed by then. Answer: ``None``."""

    waiter: Waiter
    seconds: float


Step = Operation[Any] | Sleep | Log | Wake | Parallel | Settled | Enqueue | Post | Remind
Flow = Generator[Step | Wait, Any, T]


def call(operation: Operation[R]) -> Flow[R]:
    """Send an operation and return the store's answer. Raises ``StoreError``."""
    answer: R = yield operation
    return answer


def call_all(operations: Iterable[Operation[R]]) -> Flow[list[R | StoreError]]:
    """Send operations at the same time, and return the answers in order; an error for each that failed."""
    answers: list[R | BaseException] = yield Parallel(tuple(operations))
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
            raise answer
    return cast("list[R | StoreError]", answers)


def play(flow: Flow[T], perform: Callable[[Any], Any]) -> T:
    """Run a flow to its result with a ``perform`` that blocks; its ``StoreError`` is thrown into the flow."""
    return _play_on(flow, partial(next, flow), perform)


def play_late(flow: Flow[T], error: StoreError, enter: Callable[[Waiter], object]) -> T:
    """Run the rest of a flow whose budget is spent: throw ``error`` into it, now and at each later step.

    Some steps are performed: ``Log`` is written, and ``enter`` puts what may not be dropped, such as a give-back or a
    reminder, into its queue, without waiting for it.
    """

    def perform(step: Step | Wait) -> None:
        if isinstance(step, Log):
            return step.write()
        if isinstance(step, Settled):
            for back in (request for waiter in step.waiters for request in waiter.unwind()):
                enter(back)
            raise error
        parts = step.steps if isinstance(step, Parallel) else (step,)
        waiters = [
            part.waiter for part in parts if isinstance(part, Enqueue | Post | Remind) and not part.waiter.droppable
        ]
        if len(waiters) < len(parts):
            raise error
        for waiter in waiters:
            enter(waiter)
        return None

    return _play_on(flow, partial(flow.throw, error), perform)


def _play_on(flow: Flow[T], begin: Callable[[], Step | Wait], perform: Callable[[Any], Any]) -> T:
    try:
        step = begin()
        while True:
            try:
                answer = perform(step)
            except StoreError as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
