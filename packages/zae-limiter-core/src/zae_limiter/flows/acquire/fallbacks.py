"""What follows a refusal: wait, then overflow, then refuse.

Callers write these steps by hand: they sleep and ask again, then acquire from the bucket of prepaid credits, then give
up. Done by hand, a lease does not know which bucket it has to settle, a call counts as refused that was served, and
every service has other rules. So the steps are one policy, of the call or else of the strongest level that has one.

The wait is that of ``max_wait``, in the same lines. The overflow is one more acquire, of the same entity on another
resource. It begins after the first bucket has refused, and so holds nothing: no call takes from the refused bucket
and from the overflow. Only what certainly was refused overflows: an outage does not, and while one lasts the overflow
serves no call. Whatever goes wrong there, the first refusal stands. An acquire that is admitted pays nothing for any of
this.
"""

from collections.abc import Sequence
from typing import Final

from ...exceptions import InfrastructureError, ValidationError
from ...operations.errors import StoreError
from ...runtime.dataclass import replace
from ...values.on_refused import OnRefused
from ...values.refusal import AccessDisabled, RateLimitExceeded
from ...values.resolution import Resolved
from .. import acquire as acquiring
from ..bucket.serving import cached_shard, resolve
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .acquire import acquire
from .claims import Claim, Grant, Overflow
from .counting import count_refusal
from .outage import or_by_policy
from .path import known_claims
from .requests import AcquireRequest

OF_THE_RESOURCE: Final = ("entity", "tier", "resource")  # the levels that name it


def acquire_with_fallbacks(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    """Return the grant of ``acquire``, within the seconds that the request may wait, or that of the overflow.

    Raises the errors of ``acquire``.
    """
    if namespace_state.configs.has_on_refused and not request.max_wait:
        request = _with_wait(namespace_state, request)
    caller = acquiring.waiting.Caller(namespace_state, request) if request.max_wait else None
    try:
        if caller is None:
            grant = yield from or_by_policy(namespace_state, request, acquire(namespace_state, request))
        else:
            grant = yield from caller.acquire()
    except RateLimitExceeded as refusal:
        grant = yield from _after(namespace_state, request, refusal, caller)
    return grant


def ends_with_refusal(namespace_state: NamespaceState, request: AcquireRequest) -> bool:
    """Return whether nothing follows a refusal: neither a wait nor an overflow, of the call or of any level."""
    return not (request.max_wait or request.on_refused is not None or namespace_state.configs.has_on_refused)


def may_wait(namespace_state: NamespaceState, request: AcquireRequest) -> bool:
    """Return whether an acquire may wait for its tokens: by the call, or by its levels, which may be unknown yet."""
    if request.max_wait or request.on_refused is not None:
        return bool(request.max_wait)
    cached = namespace_state.cached_shards.get((request.entity_id, request.resource, 0))
    known = None if cached is None else namespace_state.fresh(cached)
    return known is None or (known.on_refused is not None and known.on_refused.wait > 0)


def _with_wait(namespace_state: NamespaceState, request: AcquireRequest) -> AcquireRequest:
    """Return the request with the wait of its levels, as far as this process knows them."""
    policy = _policy_of(namespace_state, request)
    return replace(request, max_wait=policy.wait) if policy is not None and policy.wait else request


def _policy_of(namespace_state: NamespaceState, request: AcquireRequest) -> OnRefused | None:
    """Return the policy of the call, else that of its levels as they were last read."""
    if request.on_refused is not None or not namespace_state.configs.has_on_refused:
        return request.on_refused
    cached = namespace_state.cached_shards.get((request.entity_id, request.resource, 0))
    return None if cached is None or cached.resolved is None else cached.resolved.on_refused


def _after(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    refusal: RateLimitExceeded,
    caller: "acquiring.waiting.Caller | None",
) -> Flow[Grant]:
    """Return the grant of the next steps, if one serves the call. Raises the refusal, which is counted."""
    policy = _policy_of(namespace_state, request)
    if policy is not None and not _is_final(refusal):
        try:
            if policy.wait and not request.max_wait:  # the acquire was the first to read the levels
                request = replace(request, max_wait=policy.wait)
                caller = acquiring.waiting.Caller(namespace_state, request)
                return (yield from caller.acquire())
        except RateLimitExceeded as later:
            refusal = later
        if policy.overflow is not None and _may_overflow(request, policy.overflow, refusal):
            grant, refusal = yield from _overflow(namespace_state, request, policy.overflow, refusal)
            if grant is not None:
                grant.waited = 0.0 if caller is None else caller.waited
                return grant
    yield from count_refusal(namespace_state, refusal)
    raise refusal


def _may_overflow(request: AcquireRequest, resource: str, refusal: RateLimitExceeded) -> bool:
    """Return whether a refused call may be served by a resource: by none that it draws on already."""
    named = {request.asker, *((each.entity_id, each.resource) for each in request.draws)}
    return (request.entity_id, resource) not in named and not _is_final(refusal)


def _is_final(refusal: RateLimitExceeded) -> bool:
    """Return whether nothing follows a refusal: an outage's share is used up, or the bucket is disabled."""
    return refusal.by_share or isinstance(refusal, AccessDisabled)


def _overflow(
    namespace_state: NamespaceState, request: AcquireRequest, resource: str, refusal: RateLimitExceeded
) -> Flow[tuple[Grant | None, RateLimitExceeded]]:
    """Return the grant of the overflow, or ``None``, and the refusal as it is by then."""
    try:
        home = cached_shard(namespace_state, request.entity_id, resource)
        resolved = yield from resolve(namespace_state, home, bucket_too=True)
        other = _request(request, resource, resolved)
        if other is None:
            return None, refusal
        refused = known_claims(namespace_state, request) or ()
        grant = yield from or_by_policy(namespace_state, other, acquire(namespace_state, other))
    except RateLimitExceeded as short:
        return None, RateLimitExceeded(refusal.statuses, refusal.entity_id, refusal.resource, overflow=short.statuses)
    except (StoreError, InfrastructureError, ValidationError) as error:
        refusal.__cause__ = error
        return None, refusal
    grant.overflow = _of(request, refused, grant.claims, refusal)
    grant.request = replace(other, on_unavailable=request.on_unavailable)
    return grant, refusal


def _request(request: AcquireRequest, resource: str, resolved: Resolved) -> AcquireRequest | None:
    """Return the request to the overflow: for the amounts that it has limits of; ``None`` if it does not serve the
    call.

    Limits of all resources make no overflow: each entity would have twice of them.
    """
    if resolved.source not in OF_THE_RESOURCE:
        return None
    amounts = {name: n for name, n in request.amounts.items() if name in resolved.config.by_name}
    if not any(amounts.values()):
        return None
    return replace(
        request,
        resource=resource,
        amounts=amounts,
        limits=(),
        default_limits=(),
        on_unavailable="block",
        max_wait=0.0,
        rereads=0,
    )


def _of(
    request: AcquireRequest, refused: Sequence[Claim], serving: Sequence[Claim], refusal: RateLimitExceeded
) -> Overflow:
    """Return what the lease of an overflow has to know of the bucket that refused."""
    here = {name for claim in serving for name in claim.config.by_name}
    there = {name for claim in refused for name in (*claim.config.by_name, *claim.unlimited_names)}
    weights = {name: each for claim in reversed(refused) for name, each in claim.config.weights.items()}
    return Overflow(refusal, frozenset((there | request.amounts.keys()) - here), weights)
