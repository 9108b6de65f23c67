"""Performs the steps of flows in virtual time: the third variant.

Lives here: sending, waiting, cancelling, and the accounts of callers. Never: a decision.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar, cast

from zae_limiter.flows.acquire.at_once import grant_at_once
from zae_limiter.flows.acquire.claims import Claim, Grant
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.acquire.taking import PathRequest
from zae_limiter.flows.bucket_queue import BucketRequest, RunQueue, Waiter
from zae_limiter.flows.process.namespace_state import NamespaceState
from zae_limiter.flows.steps import (
    Enqueue,
    Flow,
    Log,
    Parallel,
    Post,
    Remind,
    Settled,
    Sleep,
    Sleeper,
    Step,
    Wait,
    Wake,
)
from zae_limiter.operations.errors import ConditionFailed, NotApplied, OutcomeUnknown, StoreError
from zae_limiter.operations.values import NOTHING, Operation, Put, Update
from zae_limiter.values.resolution import Config

from .accounts import Account
from .bucket_items import SLOTS
from .kernel import Future, Kernel, Owner, Script, Task, Violation
from .network import Link, Sending
from .oracle import Oracle
from .reservations import Held, Served, rules_of
from .shadows import token_of
from .sharing import ByShare, Sharing
from .waits import Bell

T = TypeVar("T")


class Run:
    """A run of a queue, which began behind so many writes; its ``open`` requests, and a write whose answer was lost."""

    doubted: Operation[Any] | None = None

    def __init__(self, flow: Flow[None], since: int, open_requests: list[BucketRequest]) -> None:
        self.flow = flow
        self.since = since
        self.open = open_requests


class Driver:
    """Runs the flows of one process."""

    def __init__(
        self,
        kernel: Kernel,
        link: Link,
        owner: Owner,
        rng: Random,
        oracle: Oracle,
        *,
        namespace_state: NamespaceState,
        held: Held,
        sharing: Sharing,
    ) -> None:
        self.namespace_state = namespace_state
        self._held = held
        self.sharing = sharing
        self._playing: Account | None = None
        self._kernel = kernel
        self._oracle = oracle
        self.link = link
        self._owner = owner
        self._rng = rng
        self._accounts: dict[Waiter, Account] = {}
        self._due: dict[Waiter, Mapping[str, int]] = {}
        self._carried: list[tuple[Operation[Any], Sequence[BucketRequest]]] = []  # each write, and whom it serves
        self.queues: set[RunQueue] = set()
        self._bell = Bell(kernel, owner)

    def run(self, flow: Flow[T], account: Account) -> Script[T]:
        """The flow's result. Where it fails or is cancelled, what it took and nobody has is given back."""
        waiters: list[Waiter] = []
        try:
            return (yield from self._play(flow, waiters, account))
        except BaseException:
            if self._owner.alive:
                flow.close()
                self._abandon(waiters)
            raise

    def at_rest(self) -> None:
        """Raises ``Violation`` where somebody still waits."""
        if any(queue.busy or queue.waiting for queue in self.queues):
            raise Violation("a queue is not at rest")

    def counted_once(self) -> None:
        """Raises ``Violation`` where two writes took effect for one request."""
        counted = set[tuple[BucketRequest, int]]()
        for write, requests in self._carried:
            if (sending := self.link.applied(write)) is not None:
                life = sending.applications[0].life  # of a bucket that was deleted, nobody can tell
                if again := counted.intersection(served := {(request, life) for request in requests}):
                    raise Violation(f"two writes took effect for one request: {len(again)} of {write}")
                counted |= served

    def _play(self, flow: Flow[T], waiters: list[Waiter], account: Account) -> Script[T]:
        try:
            step = self._goes_on(partial(next, flow), account)
            while True:
                try:
                    answer = yield from self._perform(step, waiters, account)
                except StoreError as error:
                    step = self._goes_on(partial(flow.throw, error), account)
                else:
                    step = self._goes_on(partial(flow.send, answer), account)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _goes_on(self, go_on: Callable[[], Any], account: Account | None) -> Any:
        """The next step of a flow. What is held serves its requests meanwhile; without an account, those of a run."""
        self._held.driver, self._playing = self, account
        return go_on()

    def grant_at_once(self, request: AcquireRequest, account: Account) -> Grant | None:
        """What the process holds, if it is enough; then without a flow."""
        granted = grant_at_once(self.namespace_state, self.told(request), self.post)
        for claim in granted.all_claims if granted is not None else ():
            pk, events, prefetch = claim.target.key.pk, 1 if any(claim.amounts.values()) else 0, claim.home.prefetch
            assert prefetch is not None, "what it holds served it"
            self._note_served(pk, claim.amounts, events, claim.resolved.config, prefetch)
            account.took(pk, claim.amounts)
        return granted

    def told(self, request: AcquireRequest) -> AcquireRequest:
        """What the process is told that a caller asks for."""
        return self.link.seams.asks(request) if self.link.seams.asks else request

    def served(self, request: BucketRequest) -> None:
        """What is held served a request of the flow that runs."""
        pk, account = pk_of(request), self._playing
        taken = {**request.amounts, **request.unchecked}
        amounts = {name: taken.get(name, 0) - request.given.get(name, 0) for name in {**taken, **request.given}}
        counted = {**request.counts.amounts, **request.unlimited}
        self._note_served(pk, amounts, request.counts.events, request.config, request.queue.prefetch, counted)
        if account is not None:  # what goes back to other shards was given back before
            account.gives(pk, request.given)
            account.took(pk, request.amounts, request.unchecked)
            account.counts(pk, counted)

    def asks_again(self) -> None:
        """The caller whose flow runs was refused beside what came back, and asks again."""
        if self._playing is not None:
            self._playing.asked_again += 1

    def by_share(self, claims: Iterable[Claim], amounts: Mapping[str, int], *, checked: bool, asked_ms: int) -> None:
        """A share let these through; negative amounts came back to it."""
        for claim in claims:
            part = {name: amount for name, amount in amounts.items() if name in claim.config.by_name}
            events = 1 if checked and any(part.values()) else 0
            bucket = claim.home.id.pk.rpartition("#")[0]
            let = ByShare(self.link, bucket, self._oracle.instant, self._kernel.now_ms, part, events, checked, asked_ms)
            self.sharing.admitted.append(let)

    def _note_served(
        self,
        pk: str,
        amounts: Mapping[str, int],
        events: int,
        config: Config | None,
        holder: object,
        counted: Mapping[str, int] = NOTHING,
    ) -> None:
        oracle, bucket = self._oracle, pk.rpartition("#")[0]
        served = Served(bucket, oracle.instant, self._kernel.now_ms, amounts, events, rules_of(config), holder, counted)
        oracle.served.append(served)
        self.link.reservations.spend(served, self.link.clock())

    def post(self, waiter: Waiter) -> None:
        """Put a waiter into its queue; nobody waits for it."""
        self._enter(waiter, Account())

    def _remind(self, step: Remind) -> None:
        def remind() -> None:
            if self._owner.wakes_us > self._kernel.now_us:
                self._kernel.later(self._owner.wakes_us - self._kernel.now_us, remind)
            elif self._owner.alive:
                self.post(step.waiter)

        self._kernel.later(round(step.seconds * 1e6), remind)

    def _perform(self, step: Step | Wait, waiters: list[Waiter], account: Account) -> Script[Any]:
        if isinstance(step, Enqueue):
            return (yield self._queue(step.waiter, waiters, account))
        if isinstance(step, Sleep):
            return (yield self._pause(step))
        if isinstance(step, Wait):
            return (yield self._wait(step, account))
        if isinstance(step, Parallel):
            # What is to be queued is queued at once: a cancellation may come before a task has begun.
            parts = [
                self._queue(part.waiter, waiters, account)
                if isinstance(part, Enqueue)
                else Task(self._kernel, self._owner, self._perform(part, waiters, account))
                for part in step.steps
            ]
            return (yield from _take_from_many(parts))
        if isinstance(step, Log):
            return None
        if isinstance(step, Wake):
            return _wake(step.waiters) if self.link.seams.wakes else None
        if isinstance(step, Post):
            return self.post(step.waiter)
        if isinstance(step, Remind):
            return self._remind(step)
        if isinstance(step, Settled):
            self._accounts |= dict.fromkeys(step.waiters, account)
            return waiters.extend(step.waiters)
        return (yield self.link.send(step).answer)

    def _wait(self, step: Wait, account: Account) -> Future:
        duration_us = round(step.seconds * 1e6)
        if account.waits is None:
            raise Violation("somebody waits for tokens who does not acquire")
        woken = self._kernel.pause(duration_us)
        if step.sleeper is not None:
            step.sleeper.waker = woken
        account.waits.sleep(duration_us, woken)
        self._bell.sleeps(woken, account.waits, for_slots=step.sleeper is not None)
        return woken

    def _pause(self, step: Sleep) -> Future:
        return self._kernel.pause(round(step.seconds * 1e6 * self._rng.uniform(0.5, 1.0)))

    def _queue(self, waiter: Waiter, waiters: list[Waiter], account: Account) -> Future:
        waiters.append(waiter)
        waiter.waker = waker = Future()
        self._enter(waiter, account)
        return waker

    def _enter(self, waiter: Waiter, account: Account) -> None:
        for part in parts(waiter):
            if isinstance(part, BucketRequest) and not self.sharing.is_payment(part):
                account.gives(pk_of(part), part.given)
                self._oracle.slots.gives(part)
        self._wait_in_queue(waiter, account)

    def _wait_in_queue(self, waiter: Waiter, account: Account) -> None:
        queue = waiter.queue
        for part in parts(waiter):
            self._accounts[part] = account
            if isinstance(part, BucketRequest):
                self._due[part] = _corrected(part)
        queue.waiting[waiter] = None
        self.queues.add(queue)
        if not queue.busy:
            queue.server = self
            Task(self._kernel, self._owner, self._serve(queue)).ended.when_done(lambda: None)

    def _serve(self, queue: RunQueue) -> Script[None]:
        while queue.waiting:
            batch = queue.take()
            try:
                yield from self._work(queue, batch)
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"a run broke: {error!r}") from error
            for waiter in batch:
                if waiter.outcome is None:
                    raise Violation("a run left a waiter without an outcome")
            _wake(batch)
            self._unwind(waiter for waiter in batch if waiter.unwanted)
        queue.server = None

    def _work(self, queue: RunQueue, batch: Sequence[Waiter]) -> Script[None]:
        """Play a run, and note with each answer the requests that it admits."""
        parts_ = [part for waiter in batch for part in parts(waiter)]
        run = Run(queue.work(batch), self._oracle.instant, [each for each in parts_ if isinstance(each, BucketRequest)])
        try:
            step = self._goes_on(partial(next, run.flow), None)
            while True:
                self._note(run, None)
                if isinstance(step, (Sleep, Log, Wake, Remind, Enqueue, Parallel, Post)):
                    yield from self._beside(batch, step)
                    step = self._goes_on(partial(next, run.flow), None)
                    continue
                sending = self._send(run, step)
                try:
                    answer = yield sending.answer
                except StoreError as error:
                    step = self._failed(run, step, error)
                else:
                    step = self._answered(run, sending, answer)
        except StopIteration:
            self._note(run, None)

    def _send(self, run: "Run", step: Any) -> Sending:
        """Send the operation of a run, and note whom it serves."""
        if isinstance(step, Wait):
            raise Violation("a write of a bucket waits for tokens")
        if run.doubted is not None and run.open and step is not run.doubted:
            raise Violation("another write is sent in the place of one whose answer was lost")
        sending = self.link.send(step)
        if len(self.link.copies(step)) == 1 and token_of(step) is not None:
            carried = self._oracle.noted.carried(step)
            self._carried.append((step, run.open if carried is None else carried))
        return sending

    def _answered(self, run: "Run", sending: Sending, answer: Any) -> Any:
        """The next step of a run behind an answer."""
        run.doubted = None
        self._confirm(sending)
        try:
            return self._goes_on(partial(run.flow.send, answer), None)
        finally:
            self._note(run, sending)

    def _failed(self, run: "Run", sent: Operation[Any], error: StoreError) -> Any:
        """The next step of a run behind an error. A failed condition may prove that a copy was applied before."""
        if isinstance(error, ConditionFailed | NotApplied) and len(self.link.copies(sent)) < 2:
            self.link.reservations.not_applied(sent)
        lost = isinstance(error, OutcomeUnknown) and isinstance(sent, (Put, Update))
        proof = self.link.applied(sent) if isinstance(error, ConditionFailed) else None
        run.doubted = sent if lost or (run.doubted is sent and isinstance(error, NotApplied)) else None
        try:
            step = self._goes_on(partial(run.flow.throw, error), None)
        finally:
            if proof is not None and any(each.admitted for each in run.open):
                self._confirm(proof)
                self._note(run, proof)
        self._note(run, None)
        if lost and run.open and not self._may_repeat(sent):
            raise Violation("a write whose answer was lost is tried again") from None
        return step

    def _may_repeat(self, write: Operation[Any]) -> bool:
        """Whether a write may be sent again: it has a token, or serves nobody and moves the anchor or makes a shard."""
        if token_of(write) is not None:
            return True
        moves = isinstance(write, Put) or (isinstance(write, Update) and "rf" in write.set)
        return moves and self._oracle.noted.carried(write) is None

    def _confirm(self, sending: Sending) -> None:
        for application in sending.applications:
            application.confirmed = True
            application.follows = self.link.last.get(application.pk)
            self.link.last[application.pk] = application
            self.link.reservations.confirmed(application)

    def _beside(
        self, batch: Sequence[Waiter], step: Sleep | Log | Wake | Remind | Enqueue | Parallel | Post
    ) -> Script[Any]:
        """A run queues what goes back to other shards, split off or merged with: for those for whom all of it went back
        before.
        """
        if isinstance(step, Post):
            waiter = cast("BucketRequest", step.waiter)
            if waiter.purpose:  # of what the shard was to count
                return self.post(waiter)
            return self._wait_in_queue(waiter, self._accounts[_whose(batch, waiter)])
        if isinstance(step, (Sleep, Log, Wake, Remind)):
            return (yield from self._perform(step, [], Account()))
        queued = cast("Sequence[Enqueue]", step.steps if isinstance(step, Parallel) else [step])
        wakers = []
        for waiter in (cast("BucketRequest", each.waiter) for each in queued):
            waiter.waker = Future()
            wakers.append(waiter.waker)
            self._wait_in_queue(waiter, self._accounts[_whose(batch, waiter)])
        return (yield from _take_from_many(wakers))

    def _note(self, run: "Run", sending: Sending | None) -> None:
        for request in run.open:
            if request.outcome is not None:
                self._settle(request, sending, run.since)
        run.open = [request for request in run.open if request.outcome is None]

    def _settle(self, request: BucketRequest, sending: Sending | None, since: int) -> None:
        account = self._accounts.get(request) or Account()
        assert request.outcome is not None
        if request.outcome.verdict == "failed":
            account.uncertain |= bool(self._due[request])
            if self.sharing.is_payment(request) or account.keeps:
                self.sharing.failed(self.link, pk_of(request), request, request.outcome.error)
            return
        if request.outcome.verdict == "outdated" and request.defers and request.outcome.state is not None:
            account.uncertain |= bool(self._due[request])  # the lease sends it again, unless its time is over
            account.took(pk_of(request), request.given)
            return
        carried = None
        if request.admitted and sending is not None:
            carried = next((write for write in sending.applications if write.pk == pk_of(request)), None)
        if carried is not None:
            carried.carry(request)
            carried.served.append((account, request, account.granted))
            if self.sharing.is_payment(request):
                self.sharing.paid(self.link, carried, request)
            else:
                account.took(carried.pk, request.taken, request.unchecked)
                account.counts(carried.pk, {**request.counts.amounts, **request.not_taken, **request.unlimited})
            if carried.slots is not None:
                self._oracle.slots.took(self._owner, request, carried)
                self._ring(request, carried.bucket)
            not_taken = {name: amount for name, amount in request.not_taken.items() if name != SLOTS}
            for name, amount in not_taken.items():
                self._oracle.not_taken(carried, name, amount)
        elif request.admitted and (any(request.amounts.values()) or any(request.unchecked.values())):
            raise Violation(f"{dict(request.amounts)} {dict(request.unchecked)} admitted, but no write was confirmed")
        self._check_dropped(request, since, account, reached=carried is not None)

    def _ring(self, request: BucketRequest, bucket: str) -> None:
        """Slots came back by a request of this process, which is to wake somebody, if it is there and awake itself.

        A process that has forgotten the bucket knows nobody who waits for it: he looks again himself.
        """
        if request.slots is not None and request.slots.freed and self.link.longest_us and not self._oracle.forgetful:
            self._bell.rings(bucket, 3 * self.link.longest_us)

    def _check_dropped(self, request: BucketRequest, since: int, account: Account, *, reached: bool) -> None:
        """A correction may be dropped where what it corrects was not there at some instant of the run."""
        for name, due in self._due[request].items():
            done = sum(part.given.get(name, 0) + abs(part.counts.amounts.get(name, 0)) for part in request.elsewhere)
            if reached:
                done += _corrected(request).get(name, 0)
            if done == due:
                continue
            if name in request.given and self._oracle.never_had(pk_of(request)):
                raise Violation(f"{due - done} of {name} go back to {pk_of(request)}, a shard that was never there")
            if request.only_returns and self._oracle.has_merged(pk_of(request), name, since):
                raise Violation(f"{due - done} of {name} are dropped that go back to {pk_of(request)}, which merged")
            if not self._oracle.was_absent(pk_of(request), name, since):
                raise Violation(f"{due - done} of {name} that correct {pk_of(request)} were dropped, but it was there")
            account.uncertain |= name not in request.given
        if request.admitted or request.only_returns or not request.given:
            return
        account.uncertain = True  # the lease corrects shard 0 in place of one that has merged
        account.took(f"{pk_of(request).rpartition('#')[0]}#0", request.given)

    def _abandon(self, waiters: Sequence[Waiter]) -> None:
        for waiter in waiters:
            if waiter.droppable and waiter in waiter.queue.waiting:
                del waiter.queue.waiting[waiter]
            elif waiter.outcome is None:
                waiter.unwanted = True
            else:
                self._unwind([waiter])

    def _unwind(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            for request in waiter.unwind():
                self._enter(request, self._accounts[waiter])


def _wake(waiters: Sequence[Sleeper]) -> None:
    for waiter in waiters:
        if waiter.waker is not None:
            waker, waiter.waker = waiter.waker, None
            waker.settle()


def _take_from_many(parts: Sequence[Future | Task]) -> Script[list[Any]]:
    """The answers of all, in order; where the waiting task is cancelled, the others are."""
    every, answers = [part if isinstance(part, Future) else _outcome(part) for part in parts], []
    try:
        for future in every:
            answers.append((yield future))  # noqa: PERF401  a comprehension cannot yield
    except BaseException:
        for part in parts:
            if isinstance(part, Task):
                part.cancel()
        raise
    return answers


def _whose(batch: Sequence[Waiter], waiter: BucketRequest) -> BucketRequest:
    """The request whose amounts another one brings to another shard."""
    [whose] = [
        request
        for request in batch
        if isinstance(request, BucketRequest)
        and any(part.given is waiter.given and part.counts is waiter.counts for part in request.elsewhere)
    ]
    return whose


def _outcome(task: Task) -> Future:
    """A future that gives a task's error as its value."""
    future = Future()
    task.ended.when_done(lambda: future.settle(task.ended.error or task.ended.value))
    return future


def _corrected(request: BucketRequest) -> dict[str, int]:
    """The amounts of a correction, in whichever direction."""
    kinds = (request.unchecked, request.given, request.counts.amounts)
    names = request.corrected - {SLOTS}
    return {name: sum(abs(kind.get(name, 0)) for kind in kinds) for name in names}


def parts(waiter: Waiter) -> Sequence[Waiter]:
    """The waiter, and the bucket requests that it stands for."""
    return (waiter, *waiter.requests) if isinstance(waiter, PathRequest) else (waiter,)


def pk_of(request: BucketRequest) -> str:
    """The bucket of a request."""
    return str(cast("Any", request.queue.shard).key.pk)
