"""Group commit: one run serves all requests that wait for a bucket, in one write if they fit.

An item of DynamoDB takes at most 1,000 writes a second, each write costs a unit, and writes that one process sends side
by side can make each other's conditions fail. So a process has one write under way for each shard of a bucket, and what
arrives meanwhile shares the next one, as transactions of a database share one write of its log (DeWitt and others,
1984). There is no timer: the first request of an idle bucket leaves at once, and the busier a bucket is, the more
requests a write serves.

The price is that callers share what happens to a write: behind a slow one all wait, if a condition fails all are
decided again, and if its answer is lost for good all fail. Requests are served first come first served, but one that
does not fit does not block a smaller one behind it; who must not be overtaken waits in a ``waiting_line``. A caller's
own task used to write for everybody; its cancellation took all others with it, so that is the work of drivers now.

docs/design/admission.md ("One acquire", "Lost races"); docs/decisions/who-serves-a-queue.md. This module sends requests
in their order; ``commit_run`` decides, drivers wait.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ...operations.errors import StoreError
from ...operations.values import Item
from ...schema.attributes import TTL
from ...values.limits import MILLI
from ...values.resolution import Config
from ..bucket_queue import BucketRequest, Outcome, RefusalCount, renewal, slot_renewal
from ..process.namespace_state import CachedShard, NamespaceState
from ..retry import ATTEMPTS, RaceLost
from ..slots import Renewing
from ..steps import Flow, Log, Remind, Wake, call
from .commit_run import CommitRun
from .fast_path import fast_path_update
from .write_plans import WritePlan, expires_at
from .writing import Change, write

RENEWS_AGAIN: Final = 0.2  # seconds after a renewal that failed


def commit(namespace_state: NamespaceState, cached: CachedShard, requests: Sequence[BucketRequest]) -> Flow[None]:
    """Settle every request: one run, on the fast path if possible."""
    state, now_ms = cached.state, namespace_state.now()
    update = fast_path_update(namespace_state, cached, state=state, requests=requests, now_ms=now_ms)
    if update is None:
        yield from _serve(CommitRun(namespace_state, cached, requests), attempts=ATTEMPTS)
        for request in requests:  # most have nothing to be followed
            if request.slots is not None:
                yield from _follow_slots(namespace_state, cached, requests)
                break
        return (yield from _follow_refusals(namespace_state, cached, requests))
    failure: StoreError | None = None
    try:
        answer: Item = yield update  # as `call` does, without its cost: every warm acquire comes by here
    except StoreError as error:
        failure = error
    else:
        state = cached.learn(answer, now_ms, own_writes=1, own=update.add)
        requests[0].outcome = Outcome("admitted", state, now_ms)
        if not cached.others.are_away:
            yield from _prolong(namespace_state, cached, requests[0].config, now_ms)
        return
    run = CommitRun(namespace_state, cached, requests)
    yield from run.failed(failure, run.decision_of(update, state, now_ms))
    yield from _serve(run, attempts=ATTEMPTS - 1)


def _serve(run: CommitRun, *, attempts: int) -> Flow[None]:
    answered = False
    for _ in range(attempts):
        if run.lost_answers.again is None and not (yield from run.prepare()):
            continue
        decision = run.lost_answers.again or (run.decide() if run.pending else None)
        if decision is None:
            break
        try:
            answer = yield from call(decision.operation)
        except StoreError as error:
            yield from run.failed(error, decision)
        else:
            run.answered(decision, answer)
            answered = True
    else:
        run.settle(run.pending, "failed", RaceLost())
    if answered and not run.cached.others.are_away:
        yield from _prolong(run.namespace_state, run.cached, run.config, run.now_ms)
    yield from _remind(run.namespace_state, run.cached, run.config)


def _prolong(namespace_state: NamespaceState, cached: CachedShard, config: Config | None, now_ms: int) -> Flow[None]:
    """Postpone a ``ttl`` that comes before the bucket is full, because other processes have consumed meanwhile. After a
    failure the next write sets it.
    """
    state = cached.state
    if state is None or config is None or TTL not in state.item:
        return
    full_at_ms = state.full_at_ms
    if state.item[TTL] * 1000 >= full_at_ms:
        return
    plan = WritePlan(cached, state, now_ms, namespace_state.settings.ttl_multiplier, config)
    ttl = expires_at(plan, config, full_at_ms - now_ms)
    if ttl is None:
        return
    try:
        item = yield from call(write(state, Change(state.anchor_ms, ttl=ttl), now_ms))
    except StoreError:
        return
    cached.learn(item, now_ms, own_writes=1)


def _follow_slots(
    namespace_state: NamespaceState, cached: CachedShard, requests: Sequence[BucketRequest]
) -> Flow[None]:
    """Wake as many callers that wait for slots as slots came back, in their order, and arrange the next renewal."""
    working = [(request, request.slots) for request in requests if request.slots is not None]
    freed = sum(sum(slots.freed.values()) for request, slots in working if request.admitted)
    if freed and cached.line:
        yield Wake(cached.line.sleeping(namespace_state.now(), most=freed // MILLI))
    for request, slots in working:
        if isinstance(slots, Renewing):
            yield from _tell_of_ended(namespace_state, cached, slots)
            if slots.is_last:
                pause = 0.0 if request.admitted else RENEWS_AGAIN
                seconds = slots.held.next(namespace_state.now(), at_least=pause)
                if seconds is not None:
                    yield Remind(slot_renewal(cached, request.config, slots.held), seconds)


def _tell_of_ended(namespace_state: NamespaceState, cached: CachedShard, renewal: Renewing) -> Flow[None]:
    """Log slots that were taken from their holders, at most one line a minute: a client may cause many."""
    ending = namespace_state.said["ended slots"].ending(namespace_state.now()) if renewal.frees else None
    if ending is not None:
        names = ", ".join(sorted({each.taken.limit for each in renewal.frees}))
        why = "their leases held them for max_hold, or their clients have not read for as long as the limit's expires"
        values = cached.id, names, why, ending
        yield Log(__name__, logging.WARNING, "%s: slots of %s are free for others: %s%s", values=values)


def _follow_refusals(
    namespace_state: NamespaceState, cached: CachedShard, requests: Sequence[BucketRequest]
) -> Flow[None]:
    """Arrange the next reminder behind one: of refusals since, or of those that its write has not counted."""
    if any(isinstance(request, RefusalCount) and request.reminds for request in requests):
        in_ms = namespace_state.pending_refusals.remind(cached, namespace_state.now(), came=True)
        config = None if cached.state is not None else cached.last_refusal.config
        if in_ms is not None and (cached.state is not None or config is not None):
            yield Remind(RefusalCount(cached, config, reminds=True), in_ms / 1000)


def _remind(namespace_state: NamespaceState, cached: CachedShard, config: Config | None) -> Flow[None]:
    """Arrange for a write that counts what was spent of a prefetch, for when no acquire follows."""
    prefetch = cached.prefetch
    if prefetch is None:
        return
    if cached.known and cached.state is None:
        if cached.id.shard:
            return  # shard 0 counts it, if there is one
        prefetch.count((), namespace_state.now())  # nothing is left that could count it
    if not prefetch.is_used:
        namespace_state.prefetches.in_use.pop(prefetch, None)
        return
    namespace_state.prefetches.in_use[prefetch] = renewal(cached, config, "end")
    if (seconds := prefetch.reminder()) is not None:
        yield Remind(renewal(cached, config, "count"), seconds)
