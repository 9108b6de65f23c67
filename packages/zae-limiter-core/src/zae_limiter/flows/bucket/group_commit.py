"""Group commit: one run serves all requests that waited for a bucket, in one write where they fit.

Lives here: what follows each answer. Never: who fits (batch), the writes (write_plans), waiting (drivers).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...operations.errors import ConditionFailed, Conflict, StoreError, Throttled
from ...operations.values import NOTHING, Get, Item, Put, Update
from ...resolution import Config
from ...schema.attributes import ANCHOR, CONFIG_READ_AT, TTL, bucket_attributes
from ...schema.items import BucketState
from ...token_bucket import reached_at
from ..process.bucket_queue import BucketRequest, Outcome, Verdict
from ..process.namespace_state import CachedBucket, NamespaceState
from ..retry import ATTEMPTS, PAUSES, RACE_PAUSES, RaceLost
from ..steps import Flow, Sleep, call
from .anchor_repair import repair
from .batch import Batch, UpdateDraft, fit_batch
from .contest import insists
from .fast_path import fast_path_update
from .limit_removal import TooManyLimits, excess, make_room
from .splitting import find_or_create_shard
from .write_plans import ConsumeWrite, CreateWrite, ReshapeWrite, WritePlan, expires_at


def commit(namespace_state: NamespaceState, cached: CachedBucket, requests: Sequence[BucketRequest]) -> Flow[None]:
    """Settle every request."""
    state, now_ms = cached.state, namespace_state.now()
    write = fast_path_update(namespace_state, cached, state=state, requests=requests, now_ms=now_ms)
    if write is None:
        return (yield from _serve(_CommitRun(namespace_state, cached, requests), attempts=ATTEMPTS))
    failure: StoreError | None = None
    try:
        answer = yield from call(write)
    except StoreError as error:
        failure = error
    else:
        requests[0].outcome = Outcome("admitted", cached.learn(answer, now_ms, own_writes=1), now_ms)
        if cached.uncontended:
            return
    run = _CommitRun(namespace_state, cached, requests)
    decision = run.decision_of(write, state, now_ms)
    if failure is None:
        yield from run.prolong()
    else:
        yield from run.failed(failure, decision)
        yield from _serve(run, attempts=ATTEMPTS - 1)


def _serve(run: "_CommitRun", *, attempts: int) -> Flow[None]:
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
        yield from run.prolong()


def _is_newer(config: Config, state: BucketState) -> bool:
    """Whether the config decides over the bucket's shape: it was read since, or holds now."""
    return config.given or config.read_at_ms > state.item[CONFIG_READ_AT]


class _Decision(NamedTuple):
    """One request to the store, and the requests that it serves. A plan of ``None`` only looks at the bucket."""

    operation: Put | Update | Get
    batch: Batch
    plan: WritePlan | None = None


class _CommitRun:
    """One run of a bucket's queue: who is still pending, and what its own answers have shown so far.

    ``seen``: one of them has shown the bucket, there or absent. What was seen before may be older than what now comes
    back, so that nothing is dropped by it. ``lost``: how many races.
    """

    config: Config | None = None
    slack: frozenset[str] = frozenset()
    seen = False
    lost = 0
    reshapes_lost = 0
    now_ms = 0

    def __init__(
        self, namespace_state: NamespaceState, cached: CachedBucket, requests: Sequence[BucketRequest]
    ) -> None:
        self.namespace_state = namespace_state
        self.cached = cached
        self.pending: Sequence[BucketRequest] = requests
        self.pauses = iter(PAUSES)
        for request in requests:  # all with the same limits
            if request.config is not None and (self.config is None or request.config.is_newer_than(self.config)):
                self.config = request.config

    def prepare(self) -> Flow[bool]:
        """Whether there is a shard that can be written: one that was found, and whose anchor no wrong clock has set."""
        cached = self.cached
        try:
            if cached.state is None and cached.id.shard:
                yield from self._find_shard()
            now = self.namespace_state.now()
            if cached.state is not None and cached.state.is_ahead(now):
                item, writes = yield from repair(cached.state, now)
                self._learn(item, now, own_writes=writes)
                if not writes:
                    yield from self._lose()
                return writes > 0
            return (yield from self._make_room(now))
        except StoreError as error:
            yield from self.failed(error, None)
            return not self.pending

    def _make_room(self, now_ms: int) -> Flow[bool]:
        """Whether the bucket has a place for the limits of the config, where they are to be its own."""
        state, config = self.cached.state, self.config
        if state is None or config is None or not excess(state, config) or not self._is_to_reshape(state, config):
            return True
        try:
            return (yield from make_room(self.cached, config, now_ms))
        except TooManyLimits as error:
            self.settle([request for request in self.pending if request.checked], "failed", error)
            return True

    def _find_shard(self) -> Flow[None]:
        """Look for a shard that this process has not seen; without it, whoever consumes is to look at the bucket."""
        yield from find_or_create_shard(self.namespace_state, self.cached)
        self.seen = True
        if self.cached.state is None:
            self._drop_corrections()
            self.settle(self.pending, "outdated")

    def decide(self) -> _Decision | None:
        """The next request to the store, by the last seen state; ``None`` if nobody needs one any more."""
        self.now_ms = self.namespace_state.now()
        if self._has_to_look():
            return _Decision(Get(self.cached.key), Batch())
        if self.cached.state is None:
            self._drop_corrections()
            if not self.pending:
                return None
        else:
            self._send_on(self.cached.state.shard_count)
        plan = self._plan()
        self._sort_out(plan)
        batch = fit_batch(self.pending, plan.headroom, plan.ceilings)
        if plan.reshapes:
            return _Decision(plan.write(batch), batch, plan) if self.pending else None
        if batch.short:
            self._refuse_or_probe(batch, plan)
        if not batch.carried:
            return None
        if batch.moves_nothing:
            return self._judge(batch)
        return _Decision(plan.write(batch), batch, plan)

    def answered(self, decision: _Decision, answer: Item | None) -> None:
        """Settle the requests that the answer decides."""
        cached, (operation, batch, plan) = self.cached, decision
        if plan is None:
            self._learn(answer, self.now_ms, own_writes=0)
            if cached.is_ahead(self.now_ms):
                return  # the anchor is repaired first, then they are judged
            self._settle_by_answer()
            self.settle([request for request in batch.carried if request.outcome is None], "admitted")
            return
        item = operation.item if isinstance(operation, Put) else answer
        self._learn(item, self.now_ms, own_writes=1)
        if plan.reshapes and self.config is not None:
            cached.reshaped = self.config.limits, self.now_ms
        self.settle(batch.carried, "admitted")
        if self.pending:
            self._settle_by_answer()

    def failed(self, error: StoreError, decision: _Decision | None) -> Flow[None]:
        """The request to the store was not applied: try again where that may help."""
        pause = next(self.pauses, None) if isinstance(error, Throttled) else None
        if isinstance(error, Throttled) and not isinstance(error, Conflict):
            self.cached.write_rate.throttled()
        if isinstance(error, ConditionFailed):
            self._refused(error.item, None if decision is None else decision.plan)
            yield from self._lose()
        elif pause is not None:
            yield Sleep(pause)
        else:
            self.settle(self.pending, "failed", error)

    def _lose(self) -> Flow[None]:
        """Others were first: from the second time on, let them finish."""
        self.lost += 1
        if self.pending and 2 <= self.lost < ATTEMPTS:
            yield Sleep(RACE_PAUSES[self.lost])

    def _refused(self, item: Item | None, plan: WritePlan | None) -> None:
        """A condition did not hold: settle the requests that the true state, as of that write, does not fit."""
        state = self._learn(item, self.now_ms, own_writes=0)
        if plan is not None:
            self.reshapes_lost += plan.reshapes
            if state is not None and not self.cached.uncontended:
                self._note_relative_above(state, plan)
        self._settle_by_answer()

    def decision_of(self, write: Update, state: BucketState | None, now_ms: int) -> _Decision:
        """The decision that the write of the fast path is, as the other rules would have taken it."""
        assert state is not None, "the fast path writes to a bucket that was seen"
        self.now_ms = now_ms
        multiplier = self.namespace_state.settings.ttl_multiplier
        plan = ConsumeWrite(self.cached, state, now_ms, multiplier, self.config, self.slack)
        batch = fit_batch(self.pending, plan.headroom, plan.ceilings)
        plan.write(batch)
        return _Decision(write, batch, plan)

    def settle(
        self,
        requests: Sequence[BucketRequest],
        verdict: Verdict,
        error: StoreError | None = None,
        left: Mapping[str, int] = NOTHING,
    ) -> None:
        """Give the requests their outcome, by the state seen last."""
        outcome = Outcome(verdict, self.cached.state, self.now_ms, error, left)
        for request in requests:
            request.outcome = outcome
        if len(requests) == len(self.pending):
            self.pending = ()
        else:
            self.pending = [request for request in self.pending if request.outcome is None]

    def prolong(self) -> Flow[None]:
        """Write a ``ttl`` again that comes before the bucket is full: others consumed what we had not seen."""
        state, config, now = self.cached.state, self.config, self.now_ms
        multiplier = self.namespace_state.settings.ttl_multiplier
        if state is None or config is None or TTL not in state.item:
            return
        plan = ConsumeWrite(self.cached, state, now, multiplier, config, frozenset())
        shard_limits = state.shard_limits.values()
        longest_ms = max(reached_at(s, state.tokens_milli(s.limit.name), s.ceiling_milli) for s in shard_limits) - now
        ttl = expires_at(plan, config, longest_ms)
        if ttl is None or state.item[TTL] * 1000 >= now + longest_ms:
            return
        draft = UpdateDraft()
        draft.expire(ttl, state.item)
        draft.equals[ANCHOR] = state.anchor_ms
        draft.count_write(Batch())
        try:
            item = yield from call(draft.update(self.cached.key))
        except StoreError:
            return  # the next write sets it
        self.cached.learn(item, now, own_writes=1)

    def _plan(self) -> WritePlan:
        """The kind of write that the last seen state asks for."""
        cached, config, state = self.cached, self.config, self.cached.state
        multiplier = self.namespace_state.settings.ttl_multiplier
        if state is None:
            assert config is not None, "a request that consumes carries its config"
            return CreateWrite(cached, self.now_ms, multiplier, config)
        if config is not None and not cached.agrees_with(config) and any(request.checked for request in self.pending):
            if not _is_newer(config, state):
                self.namespace_state.expire(cached)
            elif insists(
                self.namespace_state, cached, state, config, self.pending, lost=self.reshapes_lost, now_ms=self.now_ms
            ):
                return ReshapeWrite(cached, state, self.now_ms, multiplier, config)
        return ConsumeWrite(cached, state, self.now_ms, multiplier, config, self.slack)

    def _is_to_reshape(self, state: BucketState, config: Config) -> bool:
        if self.cached.agrees_with(config) or not _is_newer(config, state):
            return False
        return any(request.checked for request in self.pending)

    def _send_on(self, shards: int) -> None:
        """What was taken before the shard was split goes back to each half."""
        for request in self.pending:
            if request.given:
                request.divide(self.cached.id.shard, shards)

    def _learn(self, item: Item | None, at_ms: int, *, own_writes: int) -> BucketState | None:
        self.seen = True
        return self.cached.learn(item, at_ms, own_writes=own_writes)

    def _has_to_look(self) -> bool:
        """Whether a correction would be dropped by what was seen before this run."""
        if self.seen:
            return False
        state = self.cached.state
        if state is None:
            return any(request.given and not request.unchecked for request in self.pending)
        known = state.shard_limits.keys()
        corrections = (request for request in self.pending if not request.checked)
        return any(not (request.given.keys() <= known and request.unchecked.keys() <= known) for request in corrections)

    def _drop_corrections(self) -> None:
        """Without a bucket there is nothing to give back to: it was full when it expired."""
        self.settle([request for request in self.pending if request.given and not request.unchecked], "admitted")

    def _sort_out(self, plan: WritePlan) -> None:
        """Settle whom no answer could help."""
        headroom, ceilings = plan.headroom, plan.ceilings
        outdated, hopeless = [], []
        for request in self.pending:
            for name, amount in request.checked.items():
                if name not in headroom:
                    outdated.append(request)
                    break
                if amount > ceilings[name] and not plan.reshapes:
                    hopeless.append(request)
                    break
            if not request.checked:
                request.trim(headroom)
        if outdated:
            self.settle(outdated, "outdated")
        if hopeless:
            self.settle(hopeless, "refused", left=headroom)

    def _refuse_or_probe(self, batch: Batch, plan: WritePlan) -> None:
        """Refuse, by a fresh copy, the requests that would not fit alone; those behind others wait for the outcome.

        An old copy refuses nobody: if nobody fits, the first one asks the store.
        """
        headroom = plan.headroom
        if self._fresh():
            hopeless = [e for e in batch.short if any(amount > headroom[name] for name, amount in e.checked.items())]
            if hopeless:
                self.settle(hopeless, "refused", left=headroom)
        elif not batch.carried:
            batch.carry(batch.short.pop(0))

    def _judge(self, batch: Batch) -> _Decision | None:
        """Amounts of 0 are admitted unless the limit is in debt."""
        if not self._fresh():
            return _Decision(Get(self.cached.key), batch)
        self.settle(batch.carried, "admitted")
        return None

    def _fresh(self) -> bool:
        return self.cached.is_fresh(self.now_ms, self.namespace_state.settings.staleness_ms)

    def _note_relative_above(self, state: BucketState, plan: WritePlan) -> None:
        """A relative write failed at the ceiling while others write too: the next is absolute, with slack."""
        if isinstance(plan, ConsumeWrite) and state.anchor_ms == plan.state.anchor_ms:
            names = ((name, bucket_attributes(name).tokens) for name in plan.headroom)
            self.slack |= {name for name, tk in names if tk in plan.upper and state.item[tk] > plan.upper[tk]}

    def _settle_by_answer(self) -> None:
        """Refuse what does not fit the state that the answer showed, at the instant of the write; keep the rest.

        By an anchor that is to be repaired nobody is judged.
        """
        if self.cached.state is None or self.cached.is_ahead(self.now_ms):
            return
        plan = self._plan()
        if plan.reshapes:
            return
        known = [request for request in self.pending if request.checked.keys() <= plan.headroom.keys()]
        batch = fit_batch(known, plan.headroom, plan.ceilings)
        if batch.short:
            self.settle(batch.short, "refused", left=batch.left(plan.headroom, plan.ceilings))
