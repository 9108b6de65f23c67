"""Retried calls at once, over one table: tries of few keys in several processes, which are killed, cut off, and lose
answers, between any two steps.

Lives here: such a history, its ledger, and the faults that it finds. Never: the rules of a bucket (world, oracle).
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import InfrastructureError
from zae_limiter.flows.acquire import lease, repeats
from zae_limiter.flows.acquire.claims import Grant
from zae_limiter.flows.acquire.repeats import Try
from zae_limiter.flows.acquire.requests import validate_request
from zae_limiter.flows.bucket_queue import Waiter
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Enqueue, Flow, Parallel, Post, Settled
from zae_limiter.operations.errors import ConditionFailed, OutcomeUnknown, StoreError, Throttled
from zae_limiter.operations.values import Get, Key, Operation, Put, Update
from zae_limiter.schema import keys
from zae_limiter.schema.calls import call_key, expiry_of
from zae_limiter.values.limits import MILLI, Limit
from zae_limiter.values.refusal import RateLimitExceeded

from .kernel import EPOCH_MS, Cancelled, Violation

T = TypeVar("T")
Script = Generator[None, None, T]
Fault = Callable[[Operation[Any]], Operation[Any]]
USER, RESOURCE, LIMIT = "user", "api", "tokens"
MOST_STEPS: Final = 100_000


class BodyFailed(Exception):
    """Raised in the block of a try."""


@dataclass
class Tried:
    """What became of a try: ``ended`` well; or a ``trouble`` cost it tokens that nobody gives back."""

    key: str
    this: Try
    amount: int
    settles: int | None
    admitted: bool = False
    ended: bool = False
    trouble: bool = False


@dataclass
class Process:
    """One process, until it is killed."""

    state: NamespaceState
    alive: bool = True


@dataclass
class Task:
    """A script that runs, for a process and a try of it."""

    script: Script[Any]
    process: Process
    tried: Tried | None = None
    leaves: bool = False
    error: BaseException | None = None


@dataclass
class History:
    """One history, of a seed. ``fault``: what becomes of each operation on its way."""

    seed: int
    fault: Fault = lambda operation: operation
    table: MemoryTable = field(default_factory=MemoryTable)
    tasks: list[Task] = field(default_factory=list)
    tries: list[Tried] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng = Random(self.seed)
        self.capacity = rng.choice((10, 30, 1_000))
        self.limit = Limit.total(LIMIT, self.capacity)
        self.lost, self.killed, self.cut_off = (rng.choice((0.0, 0.0, 0.05, 0.2)) for _ in range(3))
        self.acting: Task | None = None
        self.processes = [self._process() for _ in range(rng.randint(1, 3))]
        for number in range(rng.randint(1, 3)):
            amount = rng.choice((1, 5, 10))
            for _ in range(rng.choice((1, 2, 3, 5, 5, 14))):
                process = rng.choice(self.processes)
                settles = rng.choice((None, None, 0, 3, 25))
                request = validate_request(USER, RESOURCE, {LIMIT: amount}, default_limits=(self.limit,))
                tried = Tried(f"key-{number}", Try(request, f"key-{number}", None), amount, settles)
                self.tries.append(tried)
                self._begin(self._call(process, tried), process, tried)

    def _process(self) -> Process:
        state = NamespaceState(
            "demo",
            "ns",
            stack="simulated",
            now=lambda: EPOCH_MS,
            settings=Settings(),
            pick=self.rng.randrange,
            doubted=lambda: False,
        )
        return Process(state)

    def run(self) -> None:
        """Let everything happen, and check it. Raises ``Violation``."""
        rng = self.rng
        for _ in range(MOST_STEPS):
            if not self.tasks:
                return self._check()
            task = rng.choice(self.tasks)
            if rng.random() < self.killed / 20:
                self._kill(task.process)
            elif task.tried is not None and not task.leaves and rng.random() < self.cut_off / 20:
                task.leaves, task.tried.trouble, task.error = True, True, Cancelled()
                self._step(task)
            else:
                self._step(task)
        raise Violation("it does not come to rest")

    def _step(self, task: Task) -> None:
        if task not in self.tasks:
            return
        self.acting, error, task.error = task, task.error, None
        try:
            if error is None:
                next(task.script)
            else:
                task.script.throw(error)
        except (StopIteration, Cancelled, BodyFailed, RateLimitExceeded, InfrastructureError):
            self.tasks.remove(task)

    def _kill(self, process: Process) -> None:
        process.alive = False
        for task in [each for each in self.tasks if each.process is process]:
            self.tasks.remove(task)
            if task.tried is not None:
                task.tried.trouble = True

    def _begin(self, script: Script[Any], process: Process, tried: Tried | None = None) -> None:
        self.tasks.append(Task(script, process, tried))

    # one try, as `keyed_lease` has it

    def _call(self, process: Process, tried: Tried) -> Script[None]:
        state, this, rng = process.state, tried.this, self.rng
        for _ in range(rng.choice((0, 0, 20, 60))):
            yield
        taken = yield from self._run(process, tried, repeats.enter(state, this))
        try:
            grant = yield from self._run(process, tried, repeats.claim(state, this, taken))
        except GeneratorExit:
            raise  # the process is killed
        except BaseException:
            taken.close()
            yield from self._run(process, tried, repeats.leave(state, this, taken))
            raise
        tried.admitted = True
        try:
            yield from self._body(tried, grant)
        except GeneratorExit:
            raise
        except BaseException:
            grant.close()
            yield from self._run(process, tried, repeats.leave(state, this, grant))
            raise
        grant.close()
        tried.ended = True
        if grant.has_end:
            yield from self._run(process, tried, repeats.settle(state, this, grant))

    def _body(self, tried: Tried, grant: Grant) -> Script[None]:
        for _ in range(self.rng.choice((0, 5, 40))):
            yield
        if self.rng.random() < 0.35:
            raise BodyFailed
        if tried.settles is not None:
            lease.settle(grant, {LIMIT: tried.settles})

    # a driver, in which all happens in any order

    def _run(self, process: Process, tried: Tried | None, flow: Flow[T]) -> Script[T]:
        waiters: list[Waiter] = []
        try:
            return (yield from self._play(process, tried, flow, waiters))
        except BaseException:
            flow.close()
            for waiter in waiters:
                if waiter.outcome is not None:
                    self._unwind(process, [waiter])
                elif waiter.droppable and waiter in waiter.queue.waiting:
                    del waiter.queue.waiting[waiter]
                else:
                    waiter.unwanted = True
            raise

    def _play(self, process: Process, tried: Tried | None, flow: Flow[T], waiters: list[Waiter]) -> Script[T]:
        try:
            step = next(flow)
            while True:
                try:
                    answer = yield from self._perform(process, tried, step, waiters)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, process: Process, tried: Tried | None, step: Any, waiters: list[Waiter]) -> Script[Any]:
        yield
        if isinstance(step, Operation):
            return (yield from self._send(process, tried, step))
        parts: tuple[Any, ...] = step.steps if isinstance(step, Parallel) else (step,)
        if isinstance(parts[0], Operation):
            answers: list[Any] = []
            for part in parts:
                answers.append((yield from self._send(process, tried, part)))  # noqa: PERF401 - it yields
            return answers
        entering = [part.waiter for part in parts if isinstance(part, Enqueue | Post)]
        for waiter in entering:
            self._enter(process, waiter)
        if isinstance(step, Settled):
            waiters.extend(step.waiters)
        elif not isinstance(step, Post):
            waiters.extend(entering)
            while any(waiter.outcome is None for waiter in entering):
                yield
        return None

    def _enter(self, process: Process, waiter: Waiter) -> None:
        queue = waiter.queue
        queue.waiting[waiter] = None
        if queue.server is None:
            queue.server = self
            self._begin(self._serve(process, queue), process)

    def _serve(self, process: Process, queue: Any) -> Script[None]:
        while queue.waiting:
            batch = queue.take()
            yield from self._play(process, None, queue.work(batch), [])
            self._unwind(process, [waiter for waiter in batch if waiter.unwanted])
        queue.server = None

    def _unwind(self, process: Process, waiters: Sequence[Waiter]) -> None:
        for request in (each for waiter in waiters for each in waiter.unwind()):
            self._enter(process, request)

    def _send(self, process: Process, tried: Tried | None, operation: Operation[Any]) -> Script[Any]:
        """Ask the table. A request of a key may be lost, or its answer, or come late; those of buckets are not: what
        becomes of these is another simulation's.
        """
        yield
        sent, of_key = self.fault(operation), tried is not None and "/CALL#" in _pk_of(operation)
        dice = self.rng.random() if of_key else 1.0
        if dice < self.lost:
            if dice < self.lost / 4:
                raise Throttled("too many requests")
            if tried is not None:
                tried.trouble = True
            if dice < self.lost / 2:
                self._begin(self._late(sent), Process(process.state))
            elif dice < 3 * self.lost / 4:
                self._apply(sent)
            raise OutcomeUnknown("no answer")
        answer = self.table.execute(sent)
        yield
        return answer

    def _late(self, operation: Operation[Any]) -> Script[None]:
        for _ in range(self.rng.choice((5, 50, 300))):
            yield
        self._apply(operation)

    def _apply(self, operation: Operation[Any]) -> None:
        with suppress(ConditionFailed):
            self.table.execute(operation)

    # the ledger

    def _check(self) -> None:
        """Raise ``Violation`` if the tokens of a key were taken twice, or are gone though a try of it ended well."""
        used, least, most = self._used(), 0, 0
        for key in {each.key for each in self.tries}:
            of_key = [each for each in self.tries if each.key == key]
            amount, admitted = of_key[0].amount, [each for each in of_key if each.admitted]
            settled = [each.settles for each in admitted if each.ended and each.settles is not None]
            if any(each.ended for each in admitted):
                least += min((amount, *settled))
                if not self._is_there(key):
                    raise Violation(f"{key}: a try ended well, and the key has no item")
            if admitted:
                most += max((amount, *settled))
                beyond = [each for each in admitted if each.this.role == "without a key"]
                lost = sum(each.trouble for each in of_key)  # a repeat whose answer was lost may count twice
                if len(beyond) > max(0, len(of_key) - 1 - repeats.MOST_REPEATS + lost):
                    raise Violation(f"{key}: {len(beyond)} calls count beside it: {self._told()}")
                least += sum(
                    min(amount, amount if each.settles is None else each.settles) for each in beyond if each.ended
                )
                most += sum(max(amount, each.settles or 0) for each in beyond if each.ended)
            most += amount * sum(each.trouble for each in of_key)
        if not least <= used <= most:
            raise Violation(f"{used} tokens are used, not {least} to {most}: {self._told()}")
        self._check_exactly(used)

    def _check_exactly(self, used: int) -> None:
        """Where nothing went wrong, the keys have what the bucket lacks, to the token."""
        if any(each.trouble for each in self.tries) or not all(each.alive for each in self.processes):
            return
        beyond = [each for each in self.tries if each.ended and each.this.role == "without a key"]
        expected = sum(each.amount if each.settles is None else each.settles for each in beyond)
        for key in {each.key for each in self.tries}:
            if self._is_there(key):
                of_key = [each for each in self.tries if each.key == key]
                winner = self._item(key).get("settled")
                found = [each.settles for each in of_key if each.this.id == winner]
                expected += of_key[0].amount if not found or found[0] is None else found[0]
        if used != expected:
            raise Violation(f"{used} tokens are used, and keys stand for {expected}: {self._told()}")

    def _told(self) -> list[tuple[Any, ...]]:
        return [(e.key, e.amount, e.settles, e.this.role, e.admitted, e.ended, e.trouble) for e in self.tries]

    def _used(self) -> int:
        item = self.table.execute(Get(Key(keys.pk_bucket("ns", USER, RESOURCE, 0), keys.sk_state())))
        return 0 if item is None else self.capacity - int(item[f"b_{LIMIT}_tk"]) // MILLI

    def _item(self, key: str) -> dict[str, Any]:
        return self.table.execute(Get(Key(*call_key("ns", USER, RESOURCE, key)))) or {}

    def _is_there(self, key: str) -> bool:
        item = self._item(key)
        return bool(item) and expiry_of(item) * 1000 > EPOCH_MS


def _pk_of(operation: Any) -> str:
    return str(operation.item["PK"] if isinstance(operation, Put) else getattr(operation, "key", ("",))[0])


def finding(seed: int, fault: Fault = lambda operation: operation) -> str:
    """What a history does wrong, if anything."""
    try:
        History(seed, fault).run()
    except Violation as violation:
        return str(violation)
    return ""


# faults


def _of_calls(change: Callable[[Any], Any]) -> Fault:
    return lambda operation: change(operation) if "/CALL#" in _pk_of(operation) else operation


def _put_always(operation: Any) -> Any:
    return Put(operation.item) if isinstance(operation, Put) else operation


def _without(name: str) -> Callable[[Any], Any]:
    """An update that does not ask whether an attribute is there."""

    def change(operation: Any) -> Any:
        if not isinstance(operation, Update):
            return operation
        absent = tuple(each for each in operation.when.absent if each != name)
        return operation._replace(when=operation.when._replace(absent=absent))

    return change


def _mark_nothing(operation: Any) -> Any:
    """A repeat does not say that it has the tokens."""
    if isinstance(operation, Update) and "repeats" in operation.add:
        return operation._replace(add={"seen": 1})
    return operation


def _release_nothing(operation: Any) -> Any:
    """A key that a failed call has released admits for nothing."""
    if isinstance(operation, Update) and "ttl" in operation.set:
        return operation._replace(set={"seen": True})
    return operation


def _kept_from_buckets(operation: Any) -> Any:
    """A repeat gives nothing back."""
    if isinstance(operation, Update) and any(n > 0 for name, n in operation.add.items() if name.endswith("_tk")):
        return operation._replace(add={name: n for name, n in operation.add.items() if not name.endswith("_tk")})
    return operation


class Mutant(NamedTuple):
    """One fault, and the promise that it breaks."""

    name: str
    breaks: str
    fault: Fault


MUTANTS: Final[Sequence[Mutant]] = (
    Mutant("every try puts the item", "one try is the first", _of_calls(_put_always)),
    Mutant(
        "a release does not look for repeats", "tokens stay while a repeat has them", _of_calls(_without("repeats"))
    ),
    Mutant("a repeat leaves no mark", "tokens stay while a repeat has them", _of_calls(_mark_nothing)),
    Mutant("a release changes nothing", "a key without tokens admits nobody", _of_calls(_release_nothing)),
    Mutant("every try settles", "the first settlement wins", _of_calls(_without("settled"))),
    Mutant("what is given back does not arrive", "a repeat takes nothing", _kept_from_buckets),
)


def killer(mutant: Mutant, seeds: range) -> tuple[int, str]:
    """The seed of the first history that finds a mutant. Raises ``LookupError``."""
    for seed in seeds:
        if problem := finding(seed, mutant.fault):
            return seed, problem
    raise LookupError(mutant.name)
