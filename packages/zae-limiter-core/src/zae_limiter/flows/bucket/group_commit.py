"""Group commit: one run serves all requests that wait for a bucket, in one write if they fit.

This module sends requests in their order; ``commit_run`` decides, drivers wait.
"""

from collections.abc import Sequence

from ...operations.errors import StoreError
from ...operations.values import Item
from ..bucket_queue import BucketRequest, Outcome
from ..process.namespace_state import CachedBucket, NamespaceState
from ..retry import ATTEMPTS, RaceLost
from ..steps import Flow, call
from .commit_run import CommitRun
from .fast_path import fast_path_update
from .prolonging import prolong


def commit(namespace_state: NamespaceState, cached: CachedBucket, requests: Sequence[BucketRequest]) -> Flow[None]:
    """Settle every request: one run, on the fast path if possible."""
    state, now_ms = cached.state, namespace_state.now()
    write = fast_path_update(namespace_state, cached, state=state, requests=requests, now_ms=now_ms)
    if write is None:
        return (yield from _serve(CommitRun(namespace_state, cached, requests), attempts=ATTEMPTS))
    failure: StoreError | None = None
    try:
        answer: Item = yield write  # as `call` does, without its cost: every warm acquire comes by here
    except StoreError as error:
        failure = error
    else:
        requests[0].outcome = Outcome("admitted", cached.learn(answer, now_ms, own_writes=1), now_ms)
        if not cached.uncontended:
            yield from prolong(namespace_state, cached, requests[0].config, now_ms)
        return
    run = CommitRun(namespace_state, cached, requests)
    yield from run.failed(failure, run.decision_of(write, state, now_ms))
    yield from _serve(run, attempts=ATTEMPTS - 1)


def _serve(run: CommitRun, *, attempts: int) -> Flow[None]:
    answered = False
    for _ in range(attempts):
        if not (yield from run.prepare()):
            continue
        decision = run.decide() if run.pending else None
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
    if answered and not run.cached.uncontended:
        yield from prolong(run.namespace_state, run.cached, run.config, run.now_ms)
