# Generated from aio/lease.py by `just variants`: edit that one.
"""The sync lease. The rules are in flows.acquire."""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ..exceptions import InfrastructureError, LeaseExpiredError
from ..flows import acquire as acquiring
from ..flows.acquire.at_once import grant_at_once
from ..flows.acquire.claims import Grant
from ..flows.acquire.fallbacks import acquire_with_fallbacks, may_wait
from ..flows.acquire.requests import AcquireRequest
from ..flows.bucket_queue import in_tokens
from ..flows.process.namespace_state import NamespaceState
from ..flows.slots import lost_slots, resume, stall
from ..flows.steps import Flow
from ..runtime import forks
from ..runtime.unused import Place, Unentered
from ..values.limit_status import LimitStatus
from ..values.limits import MILLI
from ..values.refusal import RateLimitExceeded
from ..values.token_usage import TokenUsage
from .driver import SyncDriver

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")
log = logging.getLogger(__name__)


class SyncLeaseCalls:
    """What can be done with the tokens of a lease, or with those of one of its draws."""

    __slots__ = ()

    _namespace_state: NamespaceState

    def consume(self, /, **amounts: "int | Decimal") -> None:
        """Take more tokens at once, by limit. Raises the errors of ``acquire``, and ``LeaseExpiredError``.

        ``LeaseExpiredError`` also means that the block ended before the store answered: the tokens go back.
        """
        milli = acquiring.lease.checked(self._grant, "consume", amounts)
        self._take(self._grant, milli)

    def adjust(self, /, **amounts: "int | Decimal") -> None:
        """Correct the estimate at the end of the block, up or down, in tokens; never refused, and may go into debt.

        Raises ``LeaseExpiredError``, and ``ValidationError`` if the lease would hold less than nothing.
        """
        acquiring.lease.adjust(self._grant, "adjust", amounts)

    def release(self, /, **amounts: "int | Decimal") -> None:
        """Give tokens back at the end of the block; free slots at once. Raises the errors of ``adjust``."""
        if slots := acquiring.lease.release(self._grant, amounts):
            self._run(acquiring.lease.free_slots(slots))

    def settle(self, usage: TokenUsage | None = None, most: int | None = None, /, **amounts: "int | Decimal") -> None:
        """Set what was really used; the end of the block writes the difference.

        ``usage`` sets every limit that has weights, exact to the millitoken, and what ``by_usage`` of a draw returns.
        ``amounts`` set what they name, in tokens of the limit, whatever its weights. ``None``, for an answer without
        usage, leaves the estimate. Raises ``LeaseExpiredError``, and ``ValidationError`` if ``usage`` sets nothing.

        A ``usage`` is a provider's word: with one, no limit is settled for more than ``most`` tokens, by default the
        larger of 10 million and 100 times what the lease took. What is beyond is logged and counted. ``amounts`` alone
        are as you say.
        """
        grant = self._grant
        if beyond := acquiring.lease.settle(grant, amounts, usage, most):
            _log_bounded(self._namespace_state, grant, beyond)

    def would_exceed(self, usage: TokenUsage | None = None, /, **amounts: "int | Decimal") -> tuple[LimitStatus, ...]:
        """Return the limits that would go into debt if the lease settled for this now; empty if none would.

        For a stream that may stop. Makes no request: it knows the bucket as this process has seen it last, what has
        come back since, and what the lease holds; not what other processes or open leases have used since. Shadow
        limits are left out, shards that it has not seen count as full. A lease that the store did not serve knows
        nothing. Arguments and errors are those of ``settle``.
        """
        return acquiring.lease.would_exceed(self._namespace_state, self._grant, amounts, usage)

    @property
    def consumed(self) -> dict[str, int]:
        """The consumption of the lease, in tokens by limit, corrections included."""
        return {name: amount // MILLI for name, amount in self._grant.consumed.items()}

    @property
    def weights(self) -> dict[str, Mapping[str, float]]:
        """The weights by limit, of the limits that a ``usage`` settles."""
        return dict(self._grant.weights)

    @property
    def _grant(self) -> Grant:
        raise NotImplementedError

    @property
    def _runs(self) -> tuple["SyncDrawLease", ...]:
        """The draws that count what the lease counts: of its run, and of those above it."""
        return ()

    def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        raise NotImplementedError

    def _run(self, flow: Flow[T]) -> T:
        raise NotImplementedError


class SyncDrawLease(SyncLeaseCalls):
    """What a lease holds by one of its ``draws``: of the draw's bucket, and of those above it.

    Its calls are those of the lease, and the end of the block writes their corrections together with the lease's own.
    """

    __slots__ = ("_grant_of_draw", "_lease", "_namespace_state")

    def __init__(self, lease: "SyncLease", namespace_state: NamespaceState, grant: Grant) -> None:
        self._lease = lease
        self._namespace_state = namespace_state
        self._grant_of_draw = grant

    @property
    def entity_id(self) -> str:
        """The entity of the draw."""
        return self._grant.request.entity_id

    @property
    def resource(self) -> str:
        """The resource of the draw."""
        return self._grant.request.resource

    @property
    def as_called(self) -> bool:
        """Whether the draw has no amounts of its own, but those of the call."""
        return self._grant.request.as_called

    @property
    def has_price(self) -> bool:
        """Whether the draw has a ``by_usage``."""
        return self._grant.request.by_usage is not None

    @property
    def _goes_by_usage(self) -> bool:
        """Whether a usage says what the draw has used: by its price, or because its own limits all have weights."""
        weighed = self.weights
        return self.has_price or (bool(weighed) and not self.as_called and weighed.keys() <= self.consumed.keys())

    @property
    def _grant(self) -> Grant:
        return self._grant_of_draw

    def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        self._lease._take(grant, milli, unused=unused)

    def _run(self, flow: Flow[T]) -> T:
        return self._lease._run(flow)


class SyncLease(SyncLeaseCalls):
    """The tokens that an acquire takes for the time of a block: ``with`` it.

    The end of the block writes corrections or gives the tokens back.

    A lease can be entered once: for another block, acquire again. One that is never entered warns when it is collected.
    """

    __slots__ = ("_call", "_driver", "_granted", "_namespace_state", "_process", "_request")

    def __init__(
        self, driver: SyncDriver, namespace_state: NamespaceState, request: AcquireRequest, called_at: Place
    ) -> None:
        self._driver = driver
        self._namespace_state = namespace_state
        self._request = request
        self._granted: Grant | None = None
        self._call = Unentered(request, called_at)
        self._process = forks.generation

    def draw(self, entity_id: str | None = None, *, resource: str | None = None) -> SyncDrawLease:
        """Return what the lease holds by one of its ``draws``, to consume, settle, adjust or release it alone.

        The bucket is named as in ``Draw``: what is left out is the call's. The lease's own calls are for its own bucket
        and those above it. Raises ``LeaseExpiredError`` before the block, and ``ValidationError`` for another bucket.
        """
        return SyncDrawLease(self, self._namespace_state, self._grant.draw(entity_id, resource))

    @property
    def draws(self) -> tuple[SyncDrawLease, ...]:
        """What the lease holds by each of its ``draws``, in their order."""
        return tuple(SyncDrawLease(self, self._namespace_state, each) for each in self._grant.draws)

    def _may_wait(self) -> bool:
        return may_wait(self._namespace_state, self._request)

    def keep(self) -> None:
        """Keep the tokens even if the block raises. Raises ``LeaseExpiredError``."""
        acquiring.lease.check_open(self._grant)
        self._grant.rollback = False

    @property
    def entity_id(self) -> str:
        """The entity that acquires."""
        return self._request.entity_id

    @property
    def resource(self) -> str:
        """The resource that the lease draws on: that of the call, or the one that it overflowed to."""
        return (self._request if self._granted is None else self._granted.request).resource

    @property
    def repeated(self) -> bool:
        """Whether a try with the same ``idempotency_key`` was admitted before: this one took nothing but its slots."""
        return bool(self._grant.of_key)

    @property
    def overflowed(self) -> bool:
        """Whether the limits of the call were short, or used up to the ``at`` of its policy, and another bucket serves
        it.
        """
        return self._grant.overflow is not None

    @property
    def refusal(self) -> RateLimitExceeded | None:
        """The refusal after which the lease overflowed; ``None`` if there was none."""
        return None if self._grant.overflow is None else self._grant.overflow.refusal

    @property
    def overflowed_early(self) -> LimitStatus | None:
        """The limit by whose ``at`` the lease overflowed before a refusal, as it was seen last; ``None`` if none."""
        return None if self._grant.overflow is None else self._grant.overflow.early

    @property
    def corrected(self) -> bool:
        """Whether the block has called ``settle``, ``adjust`` or ``release``."""
        return self._grant.corrected

    @property
    def waited(self) -> float:
        """The seconds that the acquire waited for its tokens."""
        return self._grant.waited

    @property
    def lost_slots(self) -> tuple[str, ...]:
        """The limits of which the lease has lost slots: ``max_hold`` is over, or this process could not renew them in
        time.

        Others may have them by now, beside the block that goes on.
        """
        return lost_slots(self._grant.taken_slots, self._namespace_state.now())

    @property
    def _took_slots(self) -> bool:
        grant = self._grant
        return grant.has_slots or (bool(grant.draws) and grant.holds_slots)

    def _stall(self) -> float | None:
        """Let slots end once they have expired, while a client is waited for; return the seconds until then, ``None``
        without slots.
        """
        return stall(self._grant.taken_slots, self._namespace_state.now())

    def _resume(self) -> None:
        """Let slots last again: the client has read."""
        resume(self._grant.taken_slots)

    @property
    def degraded(self) -> bool:
        """Whether the store was unavailable, so that this call is not counted, or later by ``share``."""
        return self._grant.outage is not None

    @property
    def statuses(self) -> list[LimitStatus]:
        """The limits' statuses after the writes that took tokens; empty if the store was unavailable.

        Corrections are in them at once, though the end of the block writes them.
        """
        return acquiring.lease.statuses(self._namespace_state, self._grant)

    @property
    def shadowed(self) -> tuple[LimitStatus, ...]:
        """The shadow limits that would have refused the acquire or a ``consume``; empty if none."""
        return acquiring.statuses.shadowed(self._grant.all_claims)

    @property
    def _grant(self) -> Grant:
        if self._granted is None:
            raise LeaseExpiredError(self._request.entity_id, self._request.resource)
        return self._granted

    def __enter__(self) -> Self:
        if not self._call.enter():  # a lease can be entered once, whatever happens
            raise LeaseExpiredError(self._request.entity_id, self._request.resource)
        granted: Grant | None = None
        if self._namespace_state.grants_at_once and self._driver.is_here:
            granted = grant_at_once(self._namespace_state, self._request, self._driver.post)
        if granted is None:
            granted = self._run(acquire_with_fallbacks(self._namespace_state, self._request))
        self._granted = granted
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._granted or self._grant
        ends = grant.close()
        if self._process != forks.generation:
            return  # a forked child has its parent's block, but not the tokens
        if error is not None and grant.rollback:
            self._roll_back(grant)
        elif ends:
            self._correct(grant, error)

    def _take(self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False) -> None:
        self._run(acquiring.lease.consume(self._namespace_state, grant, milli, unused=unused))

    def _correct(self, grant: Grant, error: BaseException | None) -> None:
        try:
            self._run(acquiring.lease.correct(self._namespace_state, grant))
        except InfrastructureError as problem:
            if error is None and grant.corrected:
                raise
            grant.lost = problem
            _log(self._namespace_state, grant, "the end of its block was not written", problem)

    def _roll_back(self, grant: Grant) -> None:
        try:
            self._run(acquiring.lease.roll_back(self._namespace_state, grant))
        except InfrastructureError as problem:
            grant.lost = problem
            _log(self._namespace_state, grant, f"{in_tokens(grant.consumed)} were not given back", problem)

    def _run(self, flow: Flow[T]) -> T:
        """Run a flow within ``acquire_timeout``."""
        return self._driver.run(flow, budget=self._namespace_state.settings.acquire_timeout)


def _log_bounded(namespace_state: NamespaceState, grant: Grant, beyond: Mapping[str, tuple[int, int]]) -> None:
    """Log the limits that were settled for their bound; at most one line a minute."""
    ending = namespace_state.said["bounded"].ending(namespace_state.now())
    if ending is not None:
        where = f"{grant.request.entity_id}/{grant.request.resource}"
        limits = {name: limit for claim in grant.claims for name, limit in claim.config.by_name.items()}
        said = ", ".join(
            f"{name} for {limits[name].show(taken)} of {limits[name].show(claimed)}"
            if name in limits and limits[name].unit
            else f"{name} for {taken} of {claimed} tokens"
            for name, (claimed, taken) in beyond.items()
        )
        log.warning("%s: settled %s; the usage of one call is bounded%s", where, said, ending)


def _log(namespace_state: NamespaceState, grant: Grant, what: str, problem: Exception) -> None:
    """Log what the end of a block did not write; at most one line a minute."""
    ending = namespace_state.said["unreturned"].ending(namespace_state.now())
    if ending is not None:
        where = f"{grant.request.entity_id}/{grant.request.resource}"
        kept = "the block's own error goes on, slots come back when they expire"
        log.warning("%s: %s (%s: %s); %s%s", where, what, type(problem).__name__, problem, kept, ending)
