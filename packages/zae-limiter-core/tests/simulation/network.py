"""The network between a process and the table: slow, in any order, and lossy.

Lives here: the conditions of a network, that is the chances of its faults, and what they do to a request. Never:
what a request does to an item (memory), whether that is right (oracle).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.errors import (
    ConditionFailed,
    NotApplied,
    OutcomeUnknown,
    ServerFault,
    StoreError,
    Throttled,
    Unreachable,
)
from zae_limiter.operations.values import (
    BatchGet,
    Delete,
    Found,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Transact,
    Update,
)

from .application import Application
from .kernel import Future, Kernel, Violation
from .machine import Machine
from .oracle import Oracle
from .reservations import Reservations, drawn
from .seams import Seams

TIMEOUT_US = 2_000_000
LONGEST_US = 1_000_000  # one way
LATEST_US = 600_000  # after which a request takes effect that a server error has answered
MOST_TURNS = 4  # of an instant, that a request takes where it takes no time
AWAY: Final[Sequence[tuple[type[StoreError], int]]] = (  # what a request meets, and after how long
    (Unreachable, 0),  # the breaker is open
    (Unreachable, 5_000),
    (Throttled, 50_000),
    (OutcomeUnknown, TIMEOUT_US),
)


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The conditions of the network: probabilities of faults for each request, and how slow it may be.

    Where it typically takes no time at all, only the order of what happens at one instant is by chance. ``failing``:
    the store answers with an error of its own; it may have applied the request, or do so later.
    """

    typical_us: int = 5_000
    slow: float = 0.0
    throttled: float = 0.0
    refused: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    late: float = 0.0
    failing: float = 0.0

    @property
    def longest_ms(self) -> int:
        """The longest that a request takes which is answered."""
        return 2 * (LONGEST_US if self.slow else 2 * self.typical_us) // 1000


class Sending:
    """A request under way: the ``answer``, and what it did to buckets; ``knew``: the link's ``last`` before it.

    ``decided_ms``: by the clock of the process, when the first copy of the request was sent.
    """

    def __init__(self, sent_us: int, decided_ms: int, knew: Mapping[str, Application]) -> None:
        self.sent_us = sent_us
        self.decided_ms = decided_ms
        self.knew = dict(knew)
        self.answer = Future()
        self.applications: list[Application] = []


class Link:
    """What one process sees of the table. Without a ``machine``, ``skew_ms`` is how far its clock is fast.

    While the table is ``away``, no request of the process reaches it, and no answer comes back. ``last``: its last
    confirmed write to each shard. ``unread_ms``: since when a partition could not be read.
    """

    def __init__(
        self,
        kernel: Kernel,
        table: MemoryTable,
        oracle: Oracle,
        rng: Random,
        *,
        network: NetworkConditions,
        skew_ms: int,
        machine: Machine | None,
        seams: Seams,
    ) -> None:
        self._kernel = kernel
        self._table = table
        self._oracle = oracle
        self._rng = rng
        self._network = network
        self._skew_us = skew_ms * 1000
        self._machine = machine
        self.seams = seams
        self._first: dict[Key, Item] = {}  # each item as it was answered first, and last, where a fault asks for it
        self._seen: dict[Key, Item] = {}
        self.away = False
        self.last: dict[str, Application] = {}
        self.unread_ms: dict[str, int] = {}
        self._copies: dict[int, tuple[Operation[Any], list[Sending]]] = {}  # of each write of a bucket, by its identity
        self.reservations = Reservations(kernel, machine is None)

    @property
    def longest_us(self) -> int:
        """The longest that an answered request takes, both ways."""
        return 1000 * self._network.longest_ms

    def clock(self) -> int:
        """The time as the process knows it; epoch milliseconds."""
        if self._machine is not None:
            return self._machine.clock.now_ms()
        return self._kernel.epoch_ms + (self._kernel.now_us + self._skew_us) // 1000

    def doubted(self) -> bool:
        """Whether the process waits for more answers before it believes the last ones."""
        return self._machine is not None and self._machine.clock.doubted

    def send(self, operation: Operation[Any]) -> Sending:
        """Send a request; what becomes of it is decided here and now."""
        copies = self.copies(operation)
        decided_ms = copies[0].decided_ms if copies else self.clock()
        on_its_way = self.seams.sends(operation, self._seen) if self.seams.sends else operation
        sending, network, dice = Sending(self._kernel.now_us, decided_ms, self.last), self._network, self._rng.random()
        there, back = self._delay(), self._delay()
        dated = self._dated()
        if not copies:
            self._pay(operation, decided_ms)
        copies.append(sending)

        def fail(error: StoreError, delay_us: int) -> None:
            self._later(delay_us, lambda: self._fail(operation, sending, error))

        def apply(*, answered: bool) -> None:
            if self.away:
                return fail(OutcomeUnknown("no answer"), TIMEOUT_US)
            value, error = self._apply(operation, on_its_way, decided_ms, sending)
            if answered:
                arrived = dated(self._kernel.now_ms)
                self._later(back, lambda: self._arrive(operation, sending, arrived, (value, error)))
            return None

        faults: tuple[tuple[float, Callable[[], None]], ...] = (
            (float(self.away), lambda: fail(*self._lost())),
            (network.throttled, lambda: fail(Throttled("slow down"), there + back)),
            (network.refused, lambda: fail(Unreachable("no connection"), there)),
            (network.lost_before, lambda: fail(OutcomeUnknown("no answer"), TIMEOUT_US)),
            (network.failing, lambda: self._later(there, lambda: self._break(there, back, apply, fail))),
        )
        for chance, outcome in faults:
            if dice < chance:
                outcome()
                return sending
            dice -= chance
        if dice < network.lost_after:
            fail(OutcomeUnknown("no answer"), there + back)
            self._later(there, lambda: apply(answered=False))
        elif dice < network.lost_after + network.late:
            fail(OutcomeUnknown("no answer"), TIMEOUT_US)
            self._later(there + TIMEOUT_US, lambda: apply(answered=False))
        else:
            self._later(there, lambda: apply(answered=True))
        return sending

    def copies(self, operation: Operation[Any]) -> "list[Sending]":
        """What was sent of this very write of a bucket; an empty list of any other operation."""
        if not bucket_keys(operation):
            return []
        return self._copies.setdefault(id(operation), (operation, []))[1]

    def applied(self, operation: Operation[Any]) -> Sending | None:
        """The copy of a write that took effect."""
        return next((each for each in self.copies(operation) if each.applications), None)

    def _break(
        self, there: int, back: int, apply: Callable[..., None], fail: Callable[[StoreError, int], None]
    ) -> None:
        """The store answers that it failed: before it applied the request, behind that, or before it does so later."""
        if self._rng.random() < 2 / 3:
            soon, late = self._rng.randint(0, 20 * there), self._rng.randint(0, LATEST_US)
            self._later(self._rng.choice((0, soon, soon, late)), lambda: apply(answered=False))
        fail(ServerFault("500"), back)

    def _lost(self) -> tuple[StoreError, int]:
        """What a request meets while the table is away, and after how long."""
        error, after_us = self._rng.choice(AWAY)
        return error("the table is away"), after_us

    def _fail(self, operation: Operation[Any], sending: Sending, error: StoreError) -> None:
        """No answer comes, or none that tells anything."""
        self.unread_ms.update((key.pk, self._kernel.now_ms) for key in _read_by(operation))
        sending.answer.settle(error=error)

    def _arrive(
        self,
        operation: Operation[Any],
        sending: Sending,
        arrived: Callable[[], None],
        answer: tuple[Any, StoreError | None],
    ) -> None:
        """The answer comes, unless the table is away by now."""
        if self.away:
            return self._fail(operation, sending, OutcomeUnknown("no answer"))
        arrived()
        for key in _read_by(operation):
            self.unread_ms.pop(key.pk, None)
        return sending.answer.settle(*answer)

    def calm(self) -> None:
        """From now on every request is answered."""
        self._network = NetworkConditions(typical_us=self._network.typical_us)

    def _pay(self, operation: Operation[Any], now_ms: int) -> None:
        for pk, batch in self._oracle.noted.of(operation).items():
            if batch.prefetch_write is not None and batch.prefetch_write.paid:
                self.reservations.pays(operation, drawn(batch, self._oracle.noted.config_of(batch)), pk, now_ms)

    def _later(self, delay_us: int, event: Callable[[], None]) -> None:
        turns = 0 if self._network.typical_us else self._rng.randint(0, MOST_TURNS)
        self._kernel.later(delay_us, event, turns=turns)

    def _dated(self) -> Callable[[int], Callable[[], None]]:
        """What shows the clock an answer to a request that is sent now: first when it was served, then that it came."""
        machine = self._machine
        if machine is None:
            return lambda _: lambda: None
        sent_ms = machine.monotonic_ms()

        def shown(served_ms: int) -> None:
            machine.answered(served_ms, sent_ms)
            self._oracle.differs(machine.worst_ms)

        return lambda served_ms: lambda: shown(served_ms)

    def _delay(self) -> int:
        slow = self._rng.random() < self._network.slow
        longest = 2 * self._network.typical_us
        return self._rng.randint(min(500, longest), LONGEST_US if slow else longest)

    def _apply(
        self, sent: Operation[Any], operation: Operation[Any], decided_ms: int, sending: Sending
    ) -> tuple[Any, StoreError | None]:
        batches, plans = self._oracle.noted.of(sent), self._oracle.noted.plans_of(sent)
        keys = bucket_keys(operation)
        before = [self._oracle.look(key) for key in keys]
        try:
            value = self._table.execute(operation)
        except NotApplied as error:
            raise Violation(f"DynamoDB would refuse {operation}: {error}") from error
        except StoreError as error:
            return None, self._read_failed(error) if isinstance(error, ConditionFailed) else error
        if self.seams.undoes is not None and self.seams.undoes(operation):
            return self._undone(zip(keys, before, strict=True), value), None
        if (before_this := self.applied(sent)) is not None:
            if isinstance(operation, Transact) and operation.request_token is not None:
                sending.applications = before_this.applications
                return value, None
            if not _makes_an_item(operation):  # in the place of one that was deleted meanwhile, or the oracle objects
                raise Violation(f"one write took effect twice: {operation}")
        self._oracle.levels.saw(operation, self._kernel.now_ms)
        sending.applications += self._oracle.saw(dict(zip(keys, before, strict=True)), decided_ms, batches, plans)
        for application in sending.applications:
            application.sender, application.knew = self, sending.knew
            if application.drawn is not None:
                self.reservations.wrote(application, sending.sent_us)
        return self._partly(operation, self._read(value)), None

    def _undone(self, before: Iterable[tuple[Key, Item | None]], value: Any) -> Any:
        """The answer to a write that leaves everything as it was."""
        for key, item in before:
            self._table.execute(Delete(key) if item is None else Put(dict(item)))
        return value

    def _read(self, value: Any) -> Any:
        """An answer as the process reads it."""
        if self.seams.reads is None and self.seams.sends is None:
            return value
        if isinstance(value, Found):
            items = {key: self._read(item) for key, item in value.items.items()}
            return Found({key: item for key, item in items.items() if item is not None}, value.unread)
        if isinstance(value, Page):
            return Page([item for each in value.items if (item := self._read(each)) is not None], value.next)
        if not isinstance(value, dict) or "PK" not in value:
            return value
        key = Key(value["PK"], value["SK"])
        if self.seams.reads is not None:
            value = self.seams.reads(value, self._first.setdefault(key, value))
        if value is not None:
            self._seen[key] = value
        return value

    def _read_failed(self, error: ConditionFailed) -> StoreError:
        error.item = self._read(error.item)
        return error

    def _partly(self, operation: Operation[Any], value: Any) -> Any:
        """A read of several items may leave some unread."""
        if not isinstance(operation, BatchGet) or self._network.throttled < self._rng.random():
            return value
        kept = operation.keys[: self._rng.randint(1, len(operation.keys))]
        items = {key: item for key, item in value.items.items() if key in kept}
        return Found(items, tuple(key for key in operation.keys if key not in kept))


def _read_by(operation: Operation[Any]) -> Sequence[Key]:
    return operation.keys if isinstance(operation, BatchGet) else ()


def _makes_an_item(operation: Operation[Any]) -> bool:
    """Whether a write, alone or with others, asks that an item is missing, and puts it there."""
    return isinstance(operation, Put) or (
        isinstance(operation, Transact) and any(isinstance(each, Put) for each in operation.writes)
    )


def bucket_keys(operation: Operation[Any]) -> list[Key]:
    """The buckets that an operation writes."""
    writes = operation.writes if isinstance(operation, Transact) else (operation,)
    keys = [Key(write.item["PK"], write.item["SK"]) for write in writes if isinstance(write, Put)]
    keys += [write.key for write in writes if isinstance(write, Update | Delete)]
    return [key for key in keys if key.sk == "#STATE"]
