"""Stores between a process and a table in memory, in both variants.

Lives here: seeing every operation, refusing it, losing its answer, holding it up. Never: a claim.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from zae_limiter.engines.engine import Capabilities, Store, SyncStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.time_left import time_left
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import BatchWrite, Delete, Operation, Put, Transact, Update

Kinds = type | tuple[type, ...]
WRITES = (Put, Update, Delete, Transact, BatchWrite)
HOLD_SECONDS = 60  # so that a test that fails leaves no thread waiting


class Crash(Exception):
    """The process is gone: nothing of it runs on."""


class Failure(NamedTuple):
    """What is raised for operations of some kinds, before the table is asked or behind it."""

    error: Exception
    on: Kinds
    applied: bool


class Wire:
    """What one process sends to a table. ``seen`` are the operations that it sent, in order.

    ``seconds``: what each takes. ``slow``: what an update of an item takes beyond that, by partition key.
    ``plain_indexes``: the table has no index rows with a suffix.
    ``lossy``: the store says that answers may get lost.
    """

    lossy = False

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.plain_indexes = True
        self.seen: list[Operation[Any]] = []
        self.in_flight = 0
        self.seconds = 0.0
        self.slow: dict[str, float] = {}
        self._failures: list[Failure] = []
        self._once: list[Failure] = []
        self._held: Kinds = ()
        self._late: Kinds = ()
        self._held_until = 0.0
        self._passes = 0
        self._writes_left: int | None = None
        self._firsts: list[tuple[Kinds, Callable[[], object]]] = []

    def first(self, act: Callable[[], object], *, on: Kinds) -> None:
        """Have somebody act just before the next operation of the kinds."""
        self._firsts.append((on, act))

    def crash_after(self, writes: int) -> None:
        """Raise ``Crash`` for every operation behind so many writes."""
        self._writes_left = writes

    def break_down(self, error: Exception, *, on: Kinds = object, applied: bool = False) -> None:
        """Raise ``error`` from now on; ``applied`` asks the table first, so that only the answer is lost."""
        self._failures.append(Failure(error, on, applied))

    def break_once(self, error: Exception, *, on: Kinds = object, applied: bool = False) -> None:
        """Raise ``error`` for the next operation of the kinds."""
        self._once.append(Failure(error, on, applied))

    def repair(self) -> None:
        """Let everything through again."""
        self._failures, self._once, self._writes_left = [], [], None

    def hold(self, on: Kinds = object) -> None:
        """Have operations wait for ``let_go``."""
        self._held, self._held_until = on, time.monotonic() + HOLD_SECONDS

    def hold_answers(self, on: Kinds = object) -> None:
        """Have the answers of operations wait for ``let_go``; what they show is by then out of date."""
        self._late, self._held_until = on, time.monotonic() + HOLD_SECONDS

    def let_go(self) -> None:
        """Let go of what is held."""
        self._held, self._late = (), ()

    def let_one_go(self) -> None:
        """Let go of one operation, and hold the others."""
        self._passes += 1

    def holds(self, operation: Operation[Any]) -> bool:
        """Whether the operation has to wait."""
        held = isinstance(operation, self._held) and time.monotonic() < self._held_until
        if held and self._passes:
            self._passes -= 1
            return False
        return held

    def holds_answer(self, operation: Operation[Any]) -> bool:
        """Whether the operation's answer has to wait."""
        return isinstance(operation, self._late) and time.monotonic() < self._held_until

    def takes(self, operation: Operation[Any]) -> float:
        """The seconds that the operation takes."""
        return self.seconds + (self.slow.get(operation.key.pk, 0.0) if isinstance(operation, Update) else 0.0)

    def sent(self) -> list[str]:
        """The kinds of what was sent since this was asked last."""
        names = [type(operation).__name__ for operation in self.seen]
        self.seen.clear()
        return names

    def answer(self, operation: Operation[Any]) -> Any:
        """The table's answer, or what was asked for instead."""
        self._count(operation)
        for first in [each for each in self._firsts if isinstance(operation, each[0])]:
            self._firsts.remove(first)
            first[1]()
        failure = self._failure(operation)
        if failure is not None and not failure.applied:
            raise failure.error
        answer = self.table.execute(operation)
        if failure is not None:
            raise failure.error
        return answer

    def _count(self, operation: Operation[Any]) -> None:
        if self._writes_left == 0:
            raise Crash
        if self._writes_left is not None and isinstance(operation, WRITES):
            self._writes_left -= 1

    def _failure(self, operation: Operation[Any]) -> Failure | None:
        for failure in self._once:
            if isinstance(operation, failure.on):
                self._once.remove(failure)
                return failure
        return next((failure for failure in self._failures if isinstance(operation, failure.on)), None)


class WireStore(Store):
    """The wire for an async process."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            meter=self.wire.table.meter, hot_items=True, plain_indexes=self.wire.plain_indexes, lossy=self.wire.lossy
        )

    async def perform(self, operation: Operation[Any]) -> Any:
        wire = self.wire
        wire.seen.append(operation)
        wire.in_flight += 1
        try:
            while wire.holds(operation):  # noqa: ASYNC110 - both variants are let go of alike
                await asyncio.sleep(0.001)
            if seconds := wire.takes(operation):
                await asyncio.sleep(seconds)
            answer = wire.answer(operation)
            while wire.holds_answer(operation):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            return answer
        finally:
            wire.in_flight -= 1

    async def close(self) -> None:
        """Do nothing."""


class SyncWireStore(SyncStore):
    """The wire for a sync process."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            meter=self.wire.table.meter, hot_items=True, plain_indexes=self.wire.plain_indexes, lossy=self.wire.lossy
        )

    def perform(self, operation: Operation[Any]) -> Any:
        wire = self.wire
        wire.seen.append(operation)
        wire.in_flight += 1
        try:
            while wire.holds(operation):
                self._wait()
            time.sleep(wire.takes(operation))
            answer = wire.answer(operation)
            while wire.holds_answer(operation):
                self._wait()
            return answer
        finally:
            wire.in_flight -= 1

    def close(self) -> None:
        """Do nothing."""

    @staticmethod
    def _wait() -> None:
        if time_left() <= 0:
            raise OutcomeUnknown("no answer in time")
        time.sleep(0.001)
