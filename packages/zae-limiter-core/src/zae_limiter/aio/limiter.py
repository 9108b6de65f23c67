# `just variants` writes the blocking variant of this module.
"""The async rate limiter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, cast

from ..flows import acquire as acquiring
from ..flows.acquire.requests import (
    NO_DRAWS,
    NO_WAIT,
    ONE_OF_EACH,
    AcquireRequest,
    EachCallOptions,
    OldOptions,
    refuse_draws_on_runs,
    remembering,
    validate_request,
)
from ..flows.validation import validate_flag
from ..runtime.unused import warn_if_later
from ..values.draws import Draw
from ..values.estimates import Amount, Estimate
from ..values.limits import Limit, Policy, check_limits
from ..values.naming import RUN_RESOURCE, check_identifier, refuse_run
from ..values.on_refused import OnRefused
from ..wiring import (
    Decorated,
    check_decorated,
    check_key_of_calls,
    check_repository,
    of_call,
    refuse_other_limiter,
    with_key,
)
from .entities import EntityMethods
from .lease import Lease
from .limits import LimitMethods
from .repository import Repository

if TYPE_CHECKING:
    from decimal import Decimal

    from ..observers import Observer
    from ..values.checks import Check
    from ..values.explanation import Explanation
    from .budgets import RunBudget


class RateLimiter(LimitMethods, EntityMethods):
    """Token buckets of one repository. ``default_limits`` apply if no level of the repository has limits.

    ``shadow=True`` is dry-run mode: nothing is refused, ``lease.shadowed`` lists the limits that would have refused,
    and calls pass if the store is down. ``observers`` receive an event for every acquire and every lease.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *given: Any, **named: Any) -> Self:
            if cls.__init__ is RateLimiter.__init__:
                refuse_other_limiter(cls.__name__, given, named)
            return super().__new__(cls)

    def __init__(
        self,
        repository: Repository,
        *,
        default_limits: Sequence[Limit | str] | None = None,
        observers: Sequence[Observer] = (),
        shadow: bool = False,
    ) -> None:
        check_repository(repository, Repository)
        super().__init__(repository.driver, repository.namespace_state, repository._options, repository._clock)
        self.repository: Repository = repository
        """The repository that the limiter uses."""
        self._default_limits = () if default_limits is None else check_limits("default_limits", default_limits)
        self._shadow = validate_flag("shadow", shadow)
        self._plain_request = remembering(self._default_limits, shadow=self._shadow)
        lease: Callable[..., Lease] = Lease
        if observers != ():
            from .observed_lease import observed_leases

            meter = repository._store.capabilities.meter
            lease = observed_leases(observers, repository.namespace_state, meter) or Lease
        self._lease = partial(lease, repository.driver, repository.namespace_state)

    def acquire(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, Amount],
        limits: Sequence[Limit | str] | None = None,
        *,
        cascade: bool = False,
        on_unavailable: Policy | None = None,
        rollback: bool = True,
        max_wait: float = NO_WAIT,
        draws: Sequence[Draw] = NO_DRAWS,
        on_refused: OnRefused | None = None,
        max_hold: float | None = None,
        idempotency_key: str | None = None,
        key_life: float | None = None,
        **old: Unpack[OldOptions],
    ) -> Lease:
        """Return a ``Lease``: its ``async with`` block takes tokens of every named limit, or of none.

        ``limits`` replace the stored ones for this call, of ancestors too. ``cascade`` also consumes from the entity's
        parents. An exception or a cancellation in the block gives everything back, unless ``rollback`` is ``False`` or
        the lease is kept. ``max_wait``: seconds to wait at most if tokens are short; callers are served in the order of
        their arrival. ``draws``: additional buckets. Either all of them admit the call, or none is charged; adjust each
        with ``lease.draw``. ``on_refused`` replaces the policy of the levels: wait in the same way, then charge another
        bucket. ``max_hold``: seconds after which slots are released even if the block goes on; see ``lost_slots``.
        ``idempotency_key``: a retry with the same key, entity, resource and amounts counts once for ``key_life``
        seconds, by default a day; see ``lease.repeated``.
        Raises ``ValidationError`` here or on entry; on entry ``RateLimitExceeded``, ``RateLimiterUnavailable``.
        """
        if not TYPE_CHECKING and old:
            from ..renamed import refuse_arguments

            refuse_arguments(self.acquire.__qualname__, old)
        if resource == RUN_RESOURCE:
            refuse_run(entity_id)
        if (
            limits is None
            and cascade is False
            and on_unavailable is None
            and rollback is True
            and max_wait is NO_WAIT
            and draws is NO_DRAWS
            and on_refused is None
            and max_hold is None
        ):
            request = self._plain_request(entity_id, resource, consume)
        else:
            request = validate_request(
                entity_id,
                resource,
                consume,
                limits=limits,
                default_limits=self._default_limits,
                cascade=cascade,
                on_unavailable=on_unavailable,
                rollback=rollback,
                max_wait=max_wait,
                draws=draws,
                on_refused=on_refused,
                max_hold=max_hold,
                shadow=self._shadow,
            )
            if request.draws:
                refuse_draws_on_runs(request.draws)
        caller = sys._getframe(1)
        if idempotency_key is not None or key_life is not None:
            from .keyed_lease import keyed

            return keyed(self._lease, request, (caller.f_code, caller.f_lasti), idempotency_key, key_life)
        return self._lease(request, (caller.f_code, caller.f_lasti))

    def limit(
        self,
        entity_id: str | Callable[..., str],
        resource: str | Callable[..., str],
        consume: Mapping[str, Amount] | Callable[..., Mapping[str, Amount]],
        *,
        draws: Sequence[Draw] | Callable[..., Sequence[Draw]] = NO_DRAWS,
        idempotency_key: Callable[..., str | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> Callable[[Decorated], Decorated]:
        """Return a decorator: every call of the decorated function runs in the block of an ``acquire`` with these
        arguments.

        ``entity_id``, ``resource``, ``consume`` and ``draws`` are values, or are computed from the arguments of the
        call, as ``idempotency_key`` always is: ``None`` for a call without one. The options are the same for all calls,
        which raise the errors of ``acquire``. Raises ``ValidationError`` for a key that is not a function.
        """
        life = options.pop("key_life", None)
        check_key_of_calls(idempotency_key, life)

        def decorate(function: Decorated) -> Decorated:
            check_decorated(function, RateLimiter)

            @wraps(function)
            async def limited(*args: Any, **kwargs: Any) -> Any:
                what, further = of_call(consume, args, kwargs), of_call(draws, args, kwargs)
                key = {} if idempotency_key is None else with_key(idempotency_key(*args, **kwargs), life)
                async with self.acquire(
                    of_call(entity_id, args, kwargs),
                    of_call(resource, args, kwargs),
                    what,
                    draws=further,
                    **key,
                    **options,
                ):
                    answer = await function(*args, **kwargs)
                warn_if_later(answer)
                return answer

            return cast("Decorated", limited)

        return decorate

    def estimate(self, resource: str, *, default: int, most: int, quantile: float = 0.9, model: str = "") -> Estimate:
        """Return an amount for ``consume``: the tokens that were enough for a ``quantile`` of the calls of the last
        hour.

        It learns, in this process and without a request, from settled leases that took such an estimate of this
        ``resource`` and ``model``, by limit. It is ``default`` until there are 20 of them (more for a quantile above
        0.95), and never above ``most``, nor above the balance of a new bucket of its limit. Each acquire recomputes it.
        Raises ``ValidationError``.
        """
        state = self.namespace_state
        return Estimate(
            resource,
            default,
            most,
            quantile,
            model,
            lambda key, share: state.settled_amounts.quantile(key, share, state.now()),
        )

    def budget(
        self,
        name: str,
        amounts: Mapping[str, str | int | Decimal] | None = None,
        *,
        within: str,
        expires: float = 3600,
    ) -> RunBudget:
        """Return the budget of a run within an entity, which ``async with`` opens: ``{"usd": "$2", "calls": 50}``.

        All processes that open it by this name share it, until ``expires`` seconds after the first opening. It narrows
        what the entity has, and reserves nothing. ``run.acquire`` is ``acquire`` of the entity, beside the budget.
        Without ``amounts`` it joins a budget that is open. Raises ``ValidationError`` here or on entry.
        """
        from .budgets import RunBudget

        return RunBudget(self, name, amounts, within=check_identifier("within", within), expires=expires)

    async def available(
        self, entity_id: str, resource: str, limits: Sequence[Limit | str] | None = None, **old: Unpack[OldOptions]
    ) -> dict[str, int]:
        """Return the whole tokens in the entity's own bucket, by limit; negative in debt. Reads the store.

        ``limits`` replace the stored ones, as in ``acquire``. Raises ``RateLimiterUnavailable``, and
        ``ValidationError`` if no level has limits.
        """
        if not TYPE_CHECKING and old:
            from ..renamed import refuse_arguments

            refuse_arguments(self.available.__qualname__, old)
        request = validate_request(entity_id, resource, ONE_OF_EACH, limits=limits, default_limits=self._default_limits)
        return await self._run(acquiring.inspection.available(self.namespace_state, request))

    async def time_until_available(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, Amount] | None = None,
        limits: Sequence[Limit | str] | None = None,
        **old: Unpack[OldOptions],
    ) -> float:
        """Return the seconds until such an acquire can pass; ``math.inf`` if never. Includes every ancestor that the
        entity cascades to.

        Without ``consume`` it asks for one token of each limit; ``limits`` replace the stored ones, as in ``acquire``.
        Reads the store. Raises ``RateLimiterUnavailable``, ``ValidationError``.
        """
        if not TYPE_CHECKING and old:
            from ..renamed import refuse_arguments

            refuse_arguments(self.time_until_available.__qualname__, old)
        return (await self.check(entity_id, resource, consume, limits)).retry_after_seconds

    async def check(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, Amount] | None = None,
        limits: Sequence[Limit | str] | None = None,
        *,
        cascade: bool = False,
        draws: Sequence[Draw] = (),
        **old: Unpack[OldOptions],
    ) -> Check:
        """Return whether such an acquire would pass, the tokens left of each limit, and the time at which it passes.
        Read-only: takes, counts and writes nothing.

        Without ``consume`` it asks for one token of each limit. The other arguments are those of ``acquire``. One read
        of all buckets, while this process knows the limits. Raises ``RateLimiterUnavailable``, ``ValidationError``.
        """
        if not TYPE_CHECKING and old:
            from ..renamed import refuse_arguments

            refuse_arguments(self.check.__qualname__, old)
        request = self._asked(entity_id, resource, consume, limits, cascade=cascade, draws=draws)
        return await self._run(acquiring.inspection.check(self.namespace_state, request))

    async def explain(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, Amount] | None = None,
        limits: Sequence[Limit | str] | None = None,
        *,
        cascade: bool = False,
        draws: Sequence[Draw] = (),
        **old: Unpack[OldOptions],
    ) -> Explanation:
        """Return why such an acquire would pass or be refused: every bucket that it draws on, the state of each limit,
        the binding limit, and the time at which it passes. Read-only: takes, counts and writes nothing.

        Without ``consume`` it asks for one token of each limit. The other arguments are those of ``acquire``. Two reads
        for an entity and its ancestors, bypassing all caches; one more if the bucket of an ancestor has several shards.
        ``check`` costs less. Raises ``RateLimiterUnavailable``, ``ValidationError``.
        """
        if not TYPE_CHECKING and old:
            from ..renamed import refuse_arguments

            refuse_arguments(self.explain.__qualname__, old)
        request = self._asked(entity_id, resource, consume, limits, cascade=cascade, draws=draws)
        return await self._run(acquiring.inspection.explain(self.namespace_state, request))

    async def close(self) -> None:
        """Close the repository."""
        await self.repository.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from ..renamed import refuse_attribute

            refuse_attribute(self, name)

    def _asked(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, Amount] | None,
        limits: Sequence[Limit | str] | None,
        *,
        cascade: bool,
        draws: Sequence[Draw],
    ) -> AcquireRequest:
        """Return a call to look at; ``consume`` is ``None`` for one token of each limit."""
        return validate_request(
            entity_id,
            resource,
            ONE_OF_EACH if consume is None else consume,
            limits=limits,
            default_limits=self._default_limits,
            cascade=cascade,
            draws=draws,
            shadow=self._shadow,
        )
