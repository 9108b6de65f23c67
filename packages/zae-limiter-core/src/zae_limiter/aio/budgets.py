# `just variants` writes the blocking variant of this module.
"""The async budget of a run. The rules are in values.run_budgets, its bucket in flows.records.run_budgets.

A run is a layer above ``acquire``: each of its calls is an acquire with one draw more for each run. What is left here
is to refuse by the clock: once before a call, and once behind it, because a call may have waited or slept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..exceptions import ValidationError
from ..flows import acquire as acquiring
from ..flows.acquire.claims import Grant
from ..flows.acquire.requests import (
    NO_DRAWS,
    AcquireRequest,
    OwnBucketOptions,
    check_names,
    refuse_draws_on_runs,
    validate_request,
)
from ..flows.records import run_budgets as budgets
from ..runtime.dataclass import replace
from ..values.draws import Draw
from ..values.estimates import Amount
from ..values.limit_status import LimitStatus
from ..values.limits import MILLI, Limit
from ..values.naming import RUN_RESOURCE
from ..values.refusal import BudgetEnded, RateLimitExceeded
from ..values.run_budgets import (
    KEPT_SECONDS,
    LONGEST,
    check_budget,
    check_costs,
    check_expires,
    check_run,
    cost_of,
    entity_of,
)
from ..values.token_usage import TokenUsage
from .lease import DrawLease, Lease, _log_bounded
from .observed_lease import ObservedLease

if TYPE_CHECKING:
    from decimal import Decimal

    from .limiter import RateLimiter

    Amounts = Mapping[str, int | Decimal]


class RunBudget:
    """What a run may use within an entity: ``limiter.budget(...)`` returns it, ``async with`` opens it.

    It narrows, and reserves nothing: each call takes from the entity's buckets and from those of the run and of all
    runs above it, or from none. All processes that open it by its name share it. It ends by its time, or by ``end``;
    the end of the block ends nothing.
    """

    def __init__(
        self,
        limiter: RateLimiter,
        name: str,
        amounts: Mapping[str, str | int | Decimal] | None,
        *,
        within: str,
        expires: float,
        above: RunBudget | None = None,
    ) -> None:
        self._limiter = limiter
        self._name = check_run(name)
        self._given = () if amounts is None else check_budget(amounts)
        self._life_ms = check_expires(expires)
        self._above = above
        self._within = within
        self._entity_id = entity_of([each._name for each in self._chain], within)
        self._open: budgets.OpenBudget | None = None
        self._ended = False

    async def open(self) -> Self:
        """Open the budget, or join it if another process has: its amounts and its end are those of the first.

        One write; one read without amounts. Raises ``BudgetEnded`` if it is over, ``ValidationError`` for other
        amounts than it has, and without amounts if no process has opened it. Raises ``RateLimiterUnavailable``.
        """
        above, state = self._above, self._limiter.namespace_state
        if above is not None and above._open is None:
            await above.open()
        until_ms = state.now() + self._life_ms
        if above is not None:
            above._refuse_if_over(None)  # its name may be that of another run by now, which finds no bucket of this one
            until_ms = min(until_ms, above._found.until_ms)
        flow = budgets.open_budget(state, self._name, self._entity_id, self._given, until_ms)
        self._open = await self._limiter._run(flow)
        self._ended = self._open.ended
        self._refuse_if_over(None)
        return self

    async def __aenter__(self) -> Self:
        return self if self._open is not None else await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the block, and nothing else."""

    def budget(
        self, name: str, amounts: Mapping[str, str | int | Decimal] | None = None, *, expires: float = math.inf
    ) -> RunBudget:
        """Return the budget of a run below this one: its calls count in both. It ends with this one at the latest."""
        seconds = LONGEST if expires == math.inf else expires
        return type(self)(self._limiter, name, amounts, within=self._within, expires=seconds, above=self)

    def acquire(
        self,
        resource: str,
        consume: Mapping[str, Amount],
        *,
        costs: Mapping[str, Amount] | None = None,
        by_usage: Callable[[TokenUsage], Mapping[str, int | Decimal]] | None = None,
        draws: Sequence[Draw] = NO_DRAWS,
        idempotency_key: str | None = None,
        key_life: float | None = None,
        **options: Unpack[OwnBucketOptions],
    ) -> RunLease:
        """Return a lease, as ``limiter.acquire`` of the entity does: its block takes from the entity, and from the run.

        ``costs``: what the call takes of the run's limits, by default what ``consume`` has of them; of ``calls`` one.
        Each limit must be named by one of the two. ``by_usage`` returns what a usage of the call costs the run:
        ``lease.settle(usage)``, and the integrations, settle by it. ``idempotency_key`` is a key of this run: another
        run, and the entity itself, may have the same. Other options are those of ``limiter.acquire``. Raises its
        errors, and ``BudgetEnded``, a ``RateLimitExceeded``, once the run, or one above it, is over.
        """
        runs, limiter = self._chain, self._limiter
        costs = check_costs(costs, [each._found.limits for each in runs])
        of_runs = [each._draw(consume, costs, by_usage) for each in runs]
        check_names(options, OwnBucketOptions, "costs", "by_usage", "draws", "idempotency_key", "key_life")
        request = validate_request(
            self._within,
            resource,
            consume,
            default_limits=limiter._default_limits,
            shadow=limiter._shadow,
            draws=[*draws, *of_runs],
            **options,
        )
        refuse_draws_on_runs(request.draws[: -len(of_runs)])
        caller = sys._getframe(1)
        called_at, make = (caller.f_code, caller.f_lasti), _leases(limiter._lease)
        if idempotency_key is None and key_life is None:
            lease: RunLease = make(request, called_at)
        else:
            from .keyed_runs import keyed_by_run

            ends_at = self._found.until_ms // MILLI + KEPT_SECONDS  # until then the name is that of this run
            place = self._entity_id, f"{RUN_RESOURCE}#{request.resource}"  # which no acquire by a name reaches
            lease = keyed_by_run(make, request, called_at, idempotency_key, key_life, place, ends_at)
        lease._budget = self
        return lease

    async def left(self) -> dict[str, int]:
        """Return the whole tokens that are left of each limit, here and in all runs above: the least. Reads the store.

        Of money, millionths. All are 0 once the run is over. Raises ``RateLimiterUnavailable``.
        """
        runs, state = self._chain, self._limiter.namespace_state
        found = await self._limiter._run(budgets.left_of(state, [each._entity_id for each in runs]))
        over = any(each._is_over or not there for each, there in zip(runs, found, strict=True))
        return {
            limit.name: 0 if over else max(0, min(each[limit.name] for each in found if limit.name in each))
            for limit in self._found.limits
        }

    async def end(self) -> None:
        """End the budget, and those below it, for all processes: one write. What was admitted may still settle."""
        state = self._limiter.namespace_state
        if not self._is_gone:  # by now the name may be that of another run
            await self._limiter._run(budgets.end_budget(state, self._entity_id, self._found.limits))
        self._ended = True

    async def _look(self) -> None:
        """Read whether the run, or one above it, was ended."""
        runs, state = self._chain, self._limiter.namespace_state
        found = await self._limiter._run(budgets.left_of(state, [each._entity_id for each in runs]))
        for each, there in zip(runs, found, strict=True):
            each._ended = each._ended or not there

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._name

    @property
    def within(self) -> str:
        """The entity whose buckets its calls take from."""
        return self._within

    @property
    def entity_id(self) -> str:
        """The entity of its own bucket, which ``why``, usage and the console show, on the resource ``budget``."""
        return self._entity_id

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Its limits, as the first opening gave them."""
        return self._found.limits

    @property
    def expires_in(self) -> float:
        """The seconds until it is over; 0 once it is, as far as this process has seen."""
        state = self._limiter.namespace_state
        return 0.0 if self._is_over else (self._found.until_ms - state.now()) / 1000

    @property
    def _chain(self) -> list[RunBudget]:
        """The runs above it, the topmost first, then itself."""
        return [*([] if self._above is None else self._above._chain), self]

    @property
    def _found(self) -> budgets.OpenBudget:
        if self._open is None:
            raise ValidationError("budget", self._name, "is not open: use it in its block, or open() it")
        return self._open

    @property
    def _is_over(self) -> bool:
        state = self._limiter.namespace_state
        self._ended = self._ended or budgets.is_ended(state, self._entity_id)
        return self._ended or state.now() >= self._found.until_ms

    @property
    def _is_gone(self) -> bool:
        """Whether its bucket may have been removed."""
        return self._limiter.namespace_state.now() >= self._found.until_ms + KEPT_SECONDS * MILLI

    def _draw(
        self,
        consume: Mapping[str, Amount],
        costs: Mapping[str, Any],
        by_usage: Callable[[TokenUsage], Mapping[str, int | Decimal]] | None,
    ) -> Draw:
        limits = self._found.limits
        amounts = cost_of(self._name, limits, consume, costs)
        return Draw(self._entity_id, RUN_RESOURCE, amounts, cascade=False, by_usage=by_usage, limits=limits)

    def _refuse_if_over(self, request: AcquireRequest | None, cause: BaseException | None = None) -> None:
        """Raise ``BudgetEnded`` if the run, or one above it, is over. A limiter in shadow refuses nothing."""
        over = next((each for each in self._chain if each._is_over), None)
        if over is not None and not self._limiter._shadow:
            raise over._refusal(request) from cause

    def _refusal(self, request: AcquireRequest | None) -> BudgetEnded:
        draws = () if request is None else request.draws
        place = next((rank for rank, each in enumerate(draws, 1) if each.entity_id == self._entity_id), 0)
        asked: Mapping[str, int] = draws[place - 1].amounts if place else {}
        statuses = [
            LimitStatus(
                self._entity_id,
                RUN_RESOURCE,
                limit.name,
                limit,
                available=0,
                requested=asked.get(limit.name, 0) // MILLI,
                exceeded=True,
                retry_after_seconds=math.inf,
                path=(self._entity_id,),
                draw=place,
            )
            for limit in self._found.limits
        ]
        resource = RUN_RESOURCE if request is None else request.resource
        return BudgetEnded(statuses, self._within, resource, self._name, not self._ended)


class RunLease(Lease):
    """The tokens that a call of a run takes for the time of a block, of the entity and of the run.

    ``settle``, ``adjust``, ``release`` and ``consume`` reach each bucket that has the limit: the run's, the entity's,
    or both. The draws of the run are the last of ``draws``.
    """

    _budget: RunBudget  # without slots, so that the lease of an observed limiter can be one, too

    async def __aenter__(self) -> Self:
        budget, request = self._budget, self._request
        try:
            budget._refuse_if_over(request)
        except BudgetEnded:
            self._call.enter()  # and so it was limited
            raise
        left = budget.expires_in
        self._request = request = replace(request, max_wait=min(request.max_wait, left), longest_wait=left)
        try:
            await super().__aenter__()
        except RateLimitExceeded as refusal:
            budget._refuse_if_over(request, refusal)
            raise
        try:
            budget._refuse_if_over(request)
        except BudgetEnded as late:  # it waited, or slept: what it took goes back
            self._grant.rollback = True
            await Lease.__aexit__(self, type(late), late, late.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._grant
        if grant.draws and any(each._is_gone for each in self._budget._chain):
            grant.draws = grant.draws[: -len(self._budget._chain)]  # by now the names may be those of other runs
        await super().__aexit__(kind, error, trace)

    async def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        self._budget._refuse_if_over(self._request)
        await super()._take(grant, milli, unused=unused)
        try:
            self._budget._refuse_if_over(self._request)
        except BudgetEnded:  # as in __aenter__: what came behind the end goes back with that of the block
            if not unused:
                with grant.lock:
                    acquiring.lease.note_correction(grant, {name: -amount for name, amount in milli.items()})
            raise

    async def consume(self, /, **amounts: int | Decimal) -> None:
        """Take more tokens at once, by limit, of the entity and of the run. Raises as ``Lease.consume``."""
        await self._in_all("consume", amounts, undo=-1)

    async def adjust(self, /, **amounts: int | Decimal) -> None:
        """Correct the estimate at the end of the block, of the entity and of the run, as ``Lease.adjust`` does."""
        await self._in_all("adjust", amounts, undo=-1)

    async def release(self, /, **amounts: int | Decimal) -> None:
        """Give tokens back at the end of the block, of the entity and of the run; free slots at once."""
        await self._in_all("release", amounts, undo=1)

    async def _in_all(self, call: str, amounts: Amounts, *, undo: int) -> None:
        """Make a call for each bucket that has the limits, or for none."""
        own, of_runs = self._divided(amounts)
        done: list[tuple[DrawLease, Amounts]] = []
        try:
            for draw, part in of_runs:
                if part:
                    await getattr(draw, call)(**part)
                    done.append((draw, part))
            if own:
                await getattr(super(), call)(**own)
        except BaseException:
            for draw, part in done:  # with the end of the block: until then the run has less, never more
                await draw.adjust(**{name: undo * amount for name, amount in part.items()})
            raise

    async def settle(
        self, usage: TokenUsage | None = None, most: int | None = None, /, **amounts: int | Decimal
    ) -> None:
        """Set what was really used, of the entity and of the run, whose ``by_usage`` says what a ``usage`` costs it.

        Arguments and errors are those of ``Lease.settle``.
        """
        own, of_runs = self._divided(amounts)
        of_own, grant = self._weighed(usage, of_runs), self._grant
        parts: list[tuple[Grant, Amounts, TokenUsage | None, int | None]] = []
        if own or of_own is not None:
            parts.append((grant, own, of_own, most))
        for draw, part in of_runs:
            if part or (usage is not None and draw.has_price):
                parts.append((draw._grant, part, usage if draw.has_price else None, None))
        found = [(part[0], *acquiring.lease.settlement(*part)) for part in parts]
        with grant.lock:  # all or none: the end of the block waits for it, and closes the draws behind it
            acquiring.lease.check_open(grant)
            for each, milli, beyond in found:
                acquiring.lease.note_settlement(each, milli, beyond)
        for each, _, beyond in found:
            if beyond:
                _log_bounded(self._namespace_state, each, beyond)

    def would_exceed(self, usage: TokenUsage | None = None, /, **amounts: int | Decimal) -> tuple[LimitStatus, ...]:
        """Return the limits, of the entity and of the run, that would go into debt if the lease settled for this."""
        own, of_runs = self._divided(amounts)
        of_own, found = self._weighed(usage, of_runs), tuple[LimitStatus, ...]()
        if own or of_own is not None:
            found = super().would_exceed(of_own, **own)
        for draw, part in of_runs:
            if part or (usage is not None and draw.has_price):
                found += draw.would_exceed(usage if draw.has_price else None, **part)
        return found

    @property
    def consumed(self) -> dict[str, int]:
        """The consumption of the lease, in tokens by limit of the entity and of the run, corrections included."""
        of_runs = {name: amount for draw in self._runs for name, amount in draw.consumed.items()}
        return {**of_runs, **{name: amount // MILLI for name, amount in self._grant.consumed.items()}}

    @property
    def _runs(self) -> tuple[DrawLease, ...]:
        return self.draws[-len(self._budget._chain) :]

    def _weighed(self, usage: TokenUsage | None, of_runs: Sequence[tuple[DrawLease, Amounts]]) -> TokenUsage | None:
        """Return the usage if it is for the entity's own limits: they have weights, or the runs do not know it."""
        return usage if self.weights or not any(part or draw.has_price for draw, part in of_runs) else None

    def _divided(self, amounts: Amounts) -> tuple[Amounts, Sequence[tuple[DrawLease, Amounts]]]:
        """Return the amounts of the entity's own limits, and of unknown ones; then those of each run."""
        grant = self._grant
        known = {*grant.consumed, *(name for claim in grant.claims for name in claim.config.by_name)}
        runs = self._runs
        of_runs = [(draw, {name: amounts[name] for name in draw.consumed if name in amounts}) for draw in runs]
        elsewhere = {name for _, part in of_runs for name in part} - known
        return {name: amount for name, amount in amounts.items() if name not in elsewhere}, of_runs


class ObservedRunLease(ObservedLease, RunLease):
    """The lease of a call of a run, of a limiter with observers."""

    __slots__ = ()


def _leases(plain: Callable[..., Lease]) -> Callable[..., RunLease]:
    """Return what makes the leases of a run, as a limiter makes those of its acquires."""
    assert isinstance(plain, partial), "a limiter makes its leases of a repository's parts"
    kind = ObservedRunLease if plain.func is ObservedLease else RunLease
    return partial(kind, *plain.args, **plain.keywords)
