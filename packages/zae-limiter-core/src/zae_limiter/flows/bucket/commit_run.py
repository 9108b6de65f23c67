"""One run of group commit: its pending requests, and its reaction to each answer.

This module decides and learns; ``batch`` chooses the requests that fit, ``write_plans`` builds the writes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...operations.errors import ConditionFailed, NotApplied, StoreError, Throttled, Unserved
from ...operations.retry_budget import RetryBudget
from ...operations.values import NOTHING, Get, Item, Operation, Put, Update
from ...schema.attributes import CONFIG_AS_OF, REFUSED_ASK, bucket_attributes, late_counts_of
from ...schema.items import BucketState
from ...values.resolution import Config
from .. import bucket
from ..bucket_queue import BucketRequest, Outcome, RefusalCount, Verdict, counts
from ..process.namespace_state import CachedShard, NamespaceState
from ..retry import ATTEMPTS, CAPPED_PAUSES, PAUSES, RACE_PAUSES
from ..slots import settle_slots
from ..steps import Flow, Sleep
from .batch import Batch, Room, fit_batch
from .limit_removal import TooManyLimits, excess, make_room
from .lost_answers import LostAnswers
from .shifting import begins_for, ignores_schedule, in_force
from .versions import shape_of
from .view import View
from .write_plans import Decision, WritePlan, begins_window, reshape


class CommitRun:
    """One run of a bucket's queue: the pending requests, and what the run's own answers have shown so far.

    ``has_answer``: an answer of this run has shown the bucket, or its absence. Until then no correction is dropped: the
    last seen state may be older than the amounts that come back. ``lost``: the number of lost races. ``budget``: that
    of the retries, if a request was not served. ``lost_answers``: the writes whose answers were lost.
    """

    config: Config | None = None
    slack: frozenset[str] = frozenset()
    has_answer = False
    budget: RetryBudget | None = None
    pauses: Iterator[float] | None = None
    lost = now_ms = 0

    def __init__(self, namespace_state: NamespaceState, cached: CachedShard, requests: Sequence[BucketRequest]) -> None:
        self.namespace_state = namespace_state
        self.cached = cached
        self.pending: Sequence[BucketRequest] = requests
        self.lost_answers = LostAnswers(namespace_state)
        for request in requests:  # all with the same limits, which may have been read at different times
            if request.config is not None and (self.config is None or request.config.is_newer_than(self.config)):
                self.config = request.config
            if request.slots is not None:
                request.slots.detach()

    def prepare(self) -> Flow[bool]:
        """Find the shard, repair its anchor, make room for new limits; return whether the run can go on to
        ``decide``.
        """
        cached = self.cached
        try:
            if cached.state is None and cached.id.shard:
                yield from self._find_shard()
            now = self.namespace_state.now()
            if cached.state is not None and cached.state.is_in_future(now):
                item, writes = yield from bucket.anchors.repair(cached.state, now)
                self._learn(item, now, own_writes=writes)
                if not writes:
                    yield from self._lose()
                return writes > 0
            return (yield from self._make_room(now))
        except StoreError as error:
            yield from self.failed(error, None)
            return not self.pending

    def _make_room(self, now_ms: int) -> Flow[bool]:
        """Return whether the run can go on. If a reshape would add too many limits, full ones are dropped first."""
        state, config = self.cached.state, self.config
        if state is None or config is None or not excess(state, config) or self._shape(state) is None:
            return True
        try:
            return (yield from make_room(self.cached, config, now_ms))
        except TooManyLimits as error:
            self.settle([request for request in self.pending if request.is_acquire], "failed", error)
            return True

    def _find_shard(self) -> Flow[None]:
        """Find or create a shard that this process has not seen. If there is none, settle the requests as outdated.

        What comes back goes to the shard that this one has merged with.
        """
        heir = yield from bucket.splitting.find_or_create_shard(self.namespace_state, self.cached)
        self.has_answer = True
        if self.cached.state is None:
            self._drop_corrections(heir)
            self.settle(self.pending, "outdated")

    def decide(self) -> Decision | None:
        """Return the next operation, by the last seen state; ``None`` if no request needs one."""
        self.now_ms = self.namespace_state.now()
        self.config = in_force(self.config, self.cached.state, self.now_ms)
        self.settle([request for request in self.pending if request.blocked], "refused")
        if self._has_to_read():
            return Decision(Get(self.cached.key), Batch())
        self._settle_outdated()
        self.settle(settle_slots(self.pending, self.cached.state, self.now_ms), "admitted")
        if self.cached.state is None:
            self._drop_corrections()
            if not self.pending:
                return None
        else:
            self._divide_returns(self.cached.state.shard_count)
        plan = self._plan()
        if self._rules_out_by_old_copy(plan):
            return Decision(Get(self.cached.key), Batch())
        self._settle_hopeless(plan)
        batch = fit_batch(self.pending, Room(self._there(plan), plan.ceilings, self._shadow_elsewhere()))
        if plan.reshapes:
            return self._write(plan, batch) if self.pending else None
        if batch.short and not batch.carried and plan.state is None:
            return self._write(plan, batch)  # it begins with less than its ceiling: more comes once it is there
        if batch.short:
            if not self._fresh() and not batch.carried and plan.begins_with_less(batch.short[0].checked):
                return Decision(Get(self.cached.key), Batch())
            self._refuse_or_ask(batch)
        if not batch.carried or self._ends_with_prefetch(batch, plan):
            return None
        if batch.moves_nothing and not self._is_to_count(batch):
            return self._judge(batch)
        return self._write(plan, batch)

    def _ends_with_prefetch(self, batch: Batch, plan: WritePlan) -> bool:
        """Let the write prefetch tokens. Return whether nothing is to be written: renewals alone were in vain."""
        prefetch = self.cached.prefetch
        if prefetch is not None and plan.keeps_anchor:
            self.settle(prefetch.add_to(batch, plan, self._agreed()), "admitted")
        return not self.pending

    def _agreed(self) -> Config | None:
        """Return the config if the bucket agrees with it: under other limits nothing is held."""
        return self.config if self.config is not None and self.cached.agrees_with(self.config) else None

    def _there(self, plan: WritePlan) -> Mapping[str, int]:
        """Return what the bucket has under a plan, and what this process holds of it, which can pay for a write."""
        queue, headroom = self.cached, plan.headroom
        if queue.prefetch is None or not plan.keeps_anchor or (config := self._agreed()) is None:
            return headroom
        held = queue.held(config)
        return {name: free + held.get(name, 0) for name, free in headroom.items()} if held else headroom

    def answered(self, decision: Decision, answer: Item | None) -> None:
        """Settle the requests that the answer decides."""
        cached, (operation, batch, plan) = self.cached, decision
        if plan is None:
            self._learn(answer, self.now_ms, own_writes=0)
            if cached.is_in_future(self.now_ms):
                return  # the next attempt repairs the anchor first
            self._settle_by_answer()
            self._admit(batch, [request for request in batch.carried if request.outcome is None])
            return
        self.lost_answers.first = self.lost_answers.again = None  # this write is in the place of any before it
        self.has_answer = True
        if isinstance(operation, Put) and answer is None:
            cached.learn(operation.item, self.now_ms, own_writes=1, made=plan.made(operation))
        else:
            own = operation.add if isinstance(operation, Update) else NOTHING
            cached.learn(answer, self.now_ms, own_writes=1, own=own)
        for each in batch.along:
            each.written(cached.state)
        if self.budget is not None:
            self.budget.shared(len(batch.carried))
        self._admit(batch, batch.carried)
        if self.pending:
            self._settle_by_answer()

    def _admit(self, batch: Batch, requests: Sequence[BucketRequest]) -> None:
        """Settle requests of the batch as admitted, with the shadow limits that would have refused them."""
        self.settle(requests, "admitted")
        for request, left in batch.shadow_short.items():
            if request.outcome is not None:
                request.outcome = request.outcome._replace(shadow_short=left)

    def failed(self, error: StoreError, decision: Decision | None) -> Flow[None]:
        """React to an error of the store: try again where that may help, else fail the requests."""
        lost = self.lost_answers
        if decision is not None and (item := lost.settles(error, decision)) is not None:
            return self.answered(decision, item)
        sent_before = lost.again is not None
        if lost.repeats(error, decision, self.now_ms) and (yield from self._backs_off(error)):
            return None
        lost.again, known = None, error if lost.first is None else lost.first.error  # of all that may be applied
        if decision is not None:
            self._leave(decision.batch, known if sent_before else error)
        if isinstance(error, ConditionFailed) and not lost.is_past(error.item):
            self._condition_failed(error.item, decision)
            yield from self._lose()
        elif isinstance(error, Throttled) and not sent_before and (yield from self._backs_off(error)):
            gone = [request for request in self.pending if request.unwanted and request.droppable]
            self.settle(gone, "failed", known)
        else:
            self.settle(self.pending, "failed", known)
        return None

    def _leave(self, batch: Batch, error: StoreError) -> None:
        """Leave to the next write what this one was to do beside its requests, if the error says that it was not
        applied.
        """
        if not isinstance(error, ConditionFailed | NotApplied):
            for each in batch.along:
                each.doubt()
            return
        for each in batch.along:
            each.put_back()
        if batch.refusal_counts:
            self.namespace_state.pending_refusals.put_back(self.cached, batch.refusal_counts)

    def _backs_off(self, error: StoreError) -> Flow[bool]:
        """Pause after a request that was not served, and return whether it may be sent again.

        The pause comes first: callers that come meanwhile wait for this write, and share the next one.
        """
        assert isinstance(error, Unserved), "nothing else is repeated"
        capped = isinstance(error, Throttled) and bool(error.reasons) and not error.shows_hot_key
        if isinstance(error, Throttled) and error.shows_hot_key:
            self.cached.write_rate.throttled()
        if self.pauses is None:
            self.pauses = iter(CAPPED_PAUSES if capped else PAUSES)
        self.budget = error.budget or self.budget
        if (pause := next(self.pauses, None)) is None:
            return False
        yield Sleep(pause)
        return error.may_repeat(for_others=bool(self.cached.waiting))

    def _lose(self) -> Flow[None]:
        """Count a lost race; pause from the second one on."""
        self.lost += 1
        if self.pending and 2 <= self.lost < ATTEMPTS:
            yield Sleep(RACE_PAUSES[self.lost])

    def _condition_failed(self, item: Item | None, decision: Decision | None) -> None:
        """Settle the requests that do not fit the true state, after a failed condition, at the write's own ``now``."""
        state = self._learn(item, self.now_ms, own_writes=0)
        if decision is not None and decision.plan is not None and state is not None and not self.cached.others.are_away:
            self._allow_slack(state, decision.operation, decision.plan)
        self._settle_by_answer()

    def decision_of(self, write: Update, state: BucketState | None, now_ms: int) -> Decision:
        """Return the decision behind the write of the fast path, as ``decide`` would have taken it."""
        assert state is not None, "the fast path writes to a bucket that was seen"
        self.now_ms = now_ms
        multiplier = self.namespace_state.settings.ttl_multiplier
        plan = WritePlan(self.cached, state, now_ms, multiplier, self.config, self.slack)
        batch = fit_batch(self.pending, Room(plan.headroom, plan.ceilings))
        batch.refusal_counts, batch.refused_ask = late_counts_of(write.add), write.set.get(REFUSED_ASK, "")
        return Decision(write, batch, plan)

    def settle(
        self,
        requests: Sequence[BucketRequest],
        verdict: Verdict,
        error: StoreError | None = None,
        left: Mapping[str, int] = NOTHING,
    ) -> None:
        """Give the requests their outcome, with the last seen state."""
        if not requests:
            return
        outcome = Outcome(verdict, self.cached.state, self.now_ms, error, left)
        for request in requests:
            request.outcome = outcome
        if verdict == "refused":
            self._note_short(requests)
        if verdict in {"refused", "outdated"}:
            self.cached.block_behind(requests)
        if len(requests) == len(self.pending):
            self.pending = ()
        else:
            self.pending = [request for request in self.pending if request.outcome is None]

    def _note_short(self, requests: Sequence[BucketRequest]) -> None:
        """Note that the shard was short, and beside which requests by which something may come back."""
        self.cached.short_ms = self.now_ms
        if beside := self.cached.may_return():
            for request in requests:
                request.beside = beside

    def _plan(self) -> WritePlan:
        """Return the write plan for the last seen state."""
        cached, config, state = self.cached, self.config, self.cached.state
        multiplier = self.namespace_state.settings.ttl_multiplier
        if state is None:
            return WritePlan(cached, None, self.now_ms, multiplier, config)
        if (shape := self._shape(state)) is not None:
            return reshape(cached, state, self.now_ms, multiplier, shape)
        if config is not None and self._keeps_to_its_time(config, state):
            known = config.only(state.shard_limits).with_rules(state.limits)
            return reshape(cached, state, self.now_ms, multiplier, known, shapes=False)
        return WritePlan(cached, state, self.now_ms, multiplier, config, self.slack)

    def _shadow_elsewhere(self) -> Mapping[str, int]:
        """Return what all other shards have of each shadow limit that is asked for, which takes it from any shard
        without a second write: debts included, in millitokens; an unseen shard counts as full.
        """
        names = {name for request in self.pending for name in request.shadow_amounts}
        of, config = self.cached.id, self.config
        home = self.namespace_state.home_of(of) if names else None
        if home is None or config is None or home.shard_count == 1:
            return NOTHING
        view = View(self.namespace_state.repaired_states(home, self.now_ms), config, self.now_ms)
        return {name: view.available(name, without=of.shard) for name in names if name in config.by_name}

    def _write(self, plan: WritePlan, batch: Batch) -> Decision:
        """Return the write of the batch, which also counts the pending refusals."""
        refusals = self.namespace_state.pending_refusals
        if self.cached in refusals.counts:
            batch.refusal_counts, batch.refused_ask = refusals.take(self.cached), self.cached.last_refusal.ask
        write = self.lost_answers.signed(plan.write(batch), self.cached.state, self.now_ms)
        return Decision(write, batch, plan)

    def _is_to_count(self, batch: Batch) -> bool:
        """Return whether a write is due for the sake of pending refusals."""
        return self._is_due(batch.carried)

    def _is_due(self, requests: Sequence[BucketRequest]) -> bool:
        counts = [each for each in requests if isinstance(each, RefusalCount)]
        refusals = self.namespace_state.pending_refusals
        if not counts or self.cached not in refusals.counts:
            return False
        return not all(each.reminds for each in counts) or refusals.are_due(self.cached, self.now_ms)

    def _keeps_to_its_time(self, config: Config, state: BucketState) -> bool:
        """Return whether the bucket has the values of now only once the write gives it them: a window begins, or the
        callers know a schedule that the bucket has not.
        """
        seen = state, self.pending, self.now_ms
        return begins_window(*seen) or ignores_schedule(config, *seen)

    def _shape(self, state: BucketState) -> Config | None:
        """Return the limits by which the next write shapes the bucket, ``None`` if it keeps its shape: it has them, or
        no request takes. What overflowed before a schedule's boundary pays for no correction.
        """
        if self.config is None or self.cached.agrees_with(self.config):
            return None
        if (shape := shape_of(self.config, state, self.now_ms)) is None:
            return None
        shifts = state.is_of(shape)
        if not any(request.is_acquire or (shifts and request.unchecked) for request in self.pending):
            return None
        return shape

    def _divide_returns(self, shards: int) -> None:
        """Divide the amounts that come back to a split shard among its halves."""
        for request in self.pending:
            if request.given:
                request.divide(self.cached.id.shard, shards)

    def _learn(self, item: Item | None, at_ms: int, *, own_writes: int) -> BucketState | None:
        self.has_answer = True
        state = self.cached.learn(item, at_ms, own_writes=own_writes)
        self.config = in_force(self.config, state, self.now_ms)
        return state

    def _has_to_read(self) -> bool:
        """Return whether to read the bucket first: the last seen state, older than this run, would drop a
        correction.
        """
        if self.has_answer:
            return False
        state = self.cached.state
        if state is None:
            return any(request.only_returns and request.corrected for request in self.pending)
        corrections = [request for request in self.pending if not request.is_acquire]
        if any(not counts(state, name) for request in corrections for name in request.corrected):
            return True
        # a name that is counted need not be a limit, which alone gets something back
        limits = state.shard_limits
        return any(name not in limits for each in corrections for name in (*each.given, *each.unchecked))

    def _rules_out_by_old_copy(self, plan: WritePlan) -> bool:
        """Return whether a stale copy can never admit a request: the bucket may have other limits by now."""
        if self.has_answer or plan.reshapes or self.cached.state is None or self._fresh():
            return False
        amounts = (amount for request in self.pending for amount in request.checked.items())
        return any(amount > plan.ceilings.get(name, amount) for name, amount in amounts)

    def _settle_outdated(self) -> None:
        """Settle the acquires whose limits were read before the newest config that the bucket knows of, renewals of
        what is held by them, and corrections that do not know the bucket's schedule: the callers read the limits again.
        It is each one's own config that counts: the same limits may have got another switch or path.
        """
        state, config = self.cached.state, self.config
        if state is None or config is None:
            return
        deferring = [
            each for each in self.pending if each.defers and ignores_schedule(config, state, [each], self.now_ms)
        ]
        self.settle(deferring, "outdated")
        takers = [each for each in self.pending if each.is_acquire or each.purpose == "renew"]
        agrees = self.cached.agrees_with  # which is quick, and means that they are not outdated
        others = [each for each in takers if not agrees(each.config or config)]
        if old := [each for each in others if state.compare(each.config or config) == "outdated"]:
            self.namespace_state.expire(self.cached, read_before_ms=state.item[CONFIG_AS_OF] + 1)
            self.settle(old, "outdated")

    def _drop_corrections(self, heir: BucketState | None = None) -> None:
        """Settle corrections as admitted: there is no bucket, and it was full when it expired, or has an ``heir``."""
        if heir is not None:
            for request in self.pending:
                if request.only_returns and request.corrected:
                    request.pass_on(heir.id.shard, heir.shard_count)
        dropped = [request for request in self.pending if request.only_returns and not self._makes_bucket(request)]
        self.settle(dropped, "admitted")

    def _makes_bucket(self, request: BucketRequest) -> bool:
        """Return whether a request for refusals makes the bucket that is not there."""
        is_one = isinstance(request, RefusalCount) and request.config is not None and not self.cached.id.shard
        return is_one and self._is_due([request])

    def _settle_hopeless(self, plan: WritePlan) -> None:
        """Settle the requests that no answer can admit, and drop corrections of unknown limits."""
        headroom, ceilings = plan.headroom, plan.ceilings
        outdated, hopeless = [], []
        for request in self.pending:
            if not request.amounts.keys() <= headroom.keys():
                outdated.append(request)
                continue
            for name, amount in request.checked.items():
                if amount > ceilings[name] and not plan.reshapes and not begins_for(self.config, plan.state, request):
                    hopeless.append(request)
                    break
            if not request.is_acquire:
                request.trim(headroom, plan.state)
        self.settle(outdated, "outdated")
        if hopeless:
            self.settle(hopeless, "refused", left=fit_batch(self.pending, Room(headroom, ceilings)).left())

    def _refuse_or_ask(self, batch: Batch) -> None:
        """Refuse by a fresh copy the requests that would not fit alone; the other short ones wait for the outcome.

        A caller behind a refused one in a waiting line is refused with it. A stale copy refuses nothing: if no request
        fits, ask the store with the first one.
        """
        if self._fresh():
            self.settle(batch.hopeless(), "refused", left=batch.left())
        elif not batch.carried:
            batch.carry(batch.short.pop(0))

    def _judge(self, batch: Batch) -> Decision | None:
        """Admit amounts of 0 unless a limit is in debt, by a fresh copy; without one, return the read that decides."""
        if not self._fresh():
            return Decision(Get(self.cached.key), batch)
        self._admit(batch, batch.carried)
        return None

    def _fresh(self) -> bool:
        return self.cached.is_fresh(self.now_ms, self.namespace_state.settings.staleness_ms)

    def _allow_slack(self, state: BucketState, write: Operation[Any], plan: WritePlan) -> None:
        """Make the next write absolute, with slack: a relative write failed on its upper bound while others write."""
        if isinstance(write, Update) and plan.keeps_anchor and state.anchor_ms == plan.anchor_ms:
            most, names = write.when.at_most, ((name, bucket_attributes(name).tokens) for name in plan.headroom)
            self.slack |= {name for name, tk in names if tk in most and state.item[tk] > most[tk]}

    def _settle_by_answer(self) -> None:
        """Refuse the requests that do not fit the state of the answer, at the instant of the write; keep the others.

        Nothing is refused by an anchor in the future: it is repaired first.
        """
        if self.cached.state is None or self.cached.is_in_future(self.now_ms):
            return
        self._settle_outdated()
        plan = self._plan()
        if plan.reshapes:
            return
        known = [request for request in self.pending if request.amounts.keys() <= plan.headroom.keys()]
        batch = fit_batch(known, Room(self._there(plan), plan.ceilings))
        self.settle(batch.short, "refused", left=batch.left())
