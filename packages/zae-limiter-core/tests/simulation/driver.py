"""Performs the steps of flows in virtual time: the third colour.

Lives here: sending, waiting, cancelling, and who holds what. Never: a decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar, cast

from zae_limiter.flows.acquire.create_with_parent import Pair
from zae_limiter.flows.process.bucket_queue import Entry, Lane, Ticket
from zae_limiter.flows.steps import Flow, Parallel, Queued, Sleep, Step, Tell, Wake
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import Put, Update

from .accounts import Account
from .kernel import Future, Kernel, Owner, Script, Task, Violation
from .network import Link, Sending
from .oracle import Oracle

T = TypeVar("T")


class Driver:
    """Runs the flows of one process."""

    def __init__(self, kernel: Kernel, link: Link, owner: Owner, rng: Random, oracle: Oracle) -> None:
        self._kernel = kernel
        self._oracle = oracle
        self._link = link
        self._owner = owner
        self._rng = rng
        self._accounts: dict[Ticket, Account] = {}
        self._due: dict[Ticket, Mapping[str, int]] = {}
        self.lanes: set[Lane] = set()

    def run(self, flow: Flow[T], account: Account) -> Script[T]:
        """The flow's result. Where it fails or is cancelled, what it took and nobody has is given back."""
        tickets: list[Ticket] = []
        try:
            return (yield from self._play(flow, tickets, account))
        except BaseException:
            if self._owner.alive:
                flow.close()
                self._abandon(tickets)
            raise

    def at_rest(self) -> None:
        """Raises ``Violation`` where somebody still waits."""
        if any(lane.busy or lane.waiting for lane in self.lanes):
            raise Violation("a lane is not at rest")

    def _play(self, flow: Flow[T], tickets: list[Ticket], account: Account) -> Script[T]:
        try:
            step = next(flow)
            while True:
                try:
                    answer = yield from self._perform(step, tickets, account)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, step: Step, tickets: list[Ticket], account: Account) -> Script[Any]:
        if isinstance(step, Queued):
            return (yield self._queue(step.ticket, tickets, account))
        if isinstance(step, Sleep):
            return (yield self._pause(step))
        if isinstance(step, Parallel):
            # What is to be queued is queued at once: a cancellation may come before a task has begun.
            parts = [
                self._queue(part.ticket, tickets, account)
                if isinstance(part, Queued)
                else Task(self._kernel, self._owner, self._perform(part, tickets, account))
                for part in step.steps
            ]
            return (yield from _gather(parts))
        if isinstance(step, Tell):
            return None
        if isinstance(step, Wake):
            return _wake(step.tickets)
        return (yield self._link.send(step).answer)

    def _pause(self, step: Sleep) -> Future:
        return self._kernel.pause(round(step.seconds * 1e6 * self._rng.uniform(0.5, 1.0)))

    def _queue(self, ticket: Ticket, tickets: list[Ticket], account: Account) -> Future:
        tickets.append(ticket)
        ticket.waker = waker = Future()
        self._enter(ticket, account)
        return waker

    def _enter(self, ticket: Ticket, account: Account) -> None:
        for part in parts(ticket):
            if isinstance(part, Entry):
                account.gives(pk_of(part), part.given)
        self._wait_in_lane(ticket, account)

    def _wait_in_lane(self, ticket: Ticket, account: Account) -> None:
        lane = ticket.lane
        for part in parts(ticket):
            self._accounts[part] = account
            if isinstance(part, Entry):
                self._due[part] = {**part.unchecked, **part.given}
        lane.waiting[ticket] = None
        self.lanes.add(lane)
        if not lane.busy:
            lane.server = self
            Task(self._kernel, self._owner, self._serve(lane)).ended.when_done(lambda: None)

    def _serve(self, lane: Lane) -> Script[None]:
        while lane.waiting:
            batch = lane.take()
            try:
                yield from self._work(lane, batch)
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"a run broke: {error!r}") from error
            for ticket in batch:
                if ticket.outcome is None:
                    raise Violation("a run left a ticket without an outcome")
            _wake(batch)
            self._unwind(ticket for ticket in batch if ticket.unwanted)
        lane.server = None

    def _work(self, lane: Lane, batch: Sequence[Ticket]) -> Script[None]:
        """Play a run, and note with each answer who was told that he is admitted."""
        flow, since = lane.work(batch), self._oracle.instant
        open_entries = [part for ticket in batch for part in parts(ticket) if isinstance(part, Entry)]
        try:
            step = next(flow)
            while True:
                open_entries = self._note(open_entries, None, since)
                if isinstance(step, (Sleep, Tell, Wake, Queued, Parallel)):
                    yield from self._beside(batch, step)
                    step = next(flow)
                    continue
                sending = self._link.send(step)
                try:
                    answer = yield sending.answer
                except StoreError as error:
                    lost = isinstance(error, OutcomeUnknown) and isinstance(step, (Put, Update))
                    step = flow.throw(error)
                    if lost and self._note(open_entries, None, since):
                        raise Violation("a write whose answer was lost is tried again") from None
                else:
                    for application in sending.applications:
                        application.confirmed = True
                    try:
                        step = flow.send(answer)
                    finally:
                        open_entries = self._note(open_entries, sending, since)
        except StopIteration:
            self._note(open_entries, None, since)

    def _beside(self, batch: Sequence[Ticket], step: Sleep | Tell | Wake | Queued | Parallel) -> Script[None]:
        """A run queues what goes back to shards that were split off: for those for whom all of it went back before."""
        if isinstance(step, (Sleep, Tell, Wake)):
            return (yield from self._perform(step, [], Account()))
        queued = cast("Sequence[Queued]", step.steps if isinstance(step, Parallel) else [step])
        wakers = []
        for ticket in (cast("Entry", each.ticket) for each in queued):
            [whose] = [
                entry
                for entry in batch
                if isinstance(entry, Entry) and any(part.given is ticket.given for part in entry.elsewhere)
            ]
            ticket.waker = Future()
            wakers.append(ticket.waker)
            self._wait_in_lane(ticket, self._accounts[whose])
        return (yield from _gather(wakers))

    def _note(self, entries: Sequence[Entry], sending: Sending | None, since: int) -> list[Entry]:
        for entry in entries:
            if entry.outcome is not None:
                self._settle(entry, sending, since)
        return [entry for entry in entries if entry.outcome is None]

    def _settle(self, entry: Entry, sending: Sending | None, since: int) -> None:
        account = self._accounts.get(entry) or Account()
        assert entry.outcome is not None
        if entry.outcome.verdict == "failed":
            account.uncertain |= bool(self._due[entry])
            return
        carried = None
        if entry.admitted and sending is not None:
            carried = next((write for write in sending.applications if write.pk == pk_of(entry)), None)
        if carried is not None:
            carried.carry(entry.checked, entry.unchecked, entry.given)
            account.took(carried.pk, entry.checked, entry.unchecked)
        elif entry.admitted and (any(entry.checked.values()) or any(entry.unchecked.values())):
            raise Violation(f"{dict(entry.checked)} {dict(entry.unchecked)} admitted, but no write was confirmed")
        self._check_dropped(entry, since, account, reached=carried is not None)

    def _check_dropped(self, entry: Entry, since: int, account: Account, *, reached: bool) -> None:
        """A correction may be dropped where what it corrects was not there at some instant of the run."""
        for name, due in self._due[entry].items():
            done = sum(part.given.get(name, 0) for part in entry.elsewhere)
            if reached:
                done += entry.unchecked.get(name, 0) + entry.given.get(name, 0)
            if done == due:
                continue
            if not self._oracle.was_absent(pk_of(entry), name, since):
                raise Violation(f"{due - done} of {name} that correct {pk_of(entry)} were dropped, but it was there")
            account.uncertain |= name not in entry.given

    def _abandon(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            if ticket.droppable and ticket in ticket.lane.waiting:
                del ticket.lane.waiting[ticket]
            elif ticket.outcome is None:
                ticket.unwanted = True
            else:
                self._unwind([ticket])

    def _unwind(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            for entry in ticket.unwind():
                self._enter(entry, self._accounts[ticket])


def _wake(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        if ticket.waker is not None:
            waker, ticket.waker = ticket.waker, None
            waker.settle()


def _gather(parts: Sequence[Future | Task]) -> Script[list[Any]]:
    """The answers of all, in order; where the one who waits is cancelled, the tasks are."""
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


def _outcome(task: Task) -> Future:
    """A future that gives a task's error as its value."""
    future = Future()
    task.ended.when_done(lambda: future.settle(task.ended.error or task.ended.value))
    return future


def parts(ticket: Ticket) -> Sequence[Ticket]:
    """The ticket, and the entries that it stands for."""
    return (ticket, ticket.child, ticket.parent) if isinstance(ticket, Pair) else (ticket,)


def pk_of(entry: Entry) -> str:
    """The bucket that an entry is about."""
    return str(cast("Any", entry.lane.work).args[1].key.pk)
