"""What follows a refusal: wait, then overflow, then refuse.

Callers write these steps by hand: they sleep and ask again, then acquire from the bucket of prepaid credits, then give
up. Done by hand, a lease does not know which bucket it has to settle, a call counts as refused that was served, and
every service has other rules. So the steps are one policy, of the call or else of the strongest level that has one.

The wait is that of ``max_wait``, in the same lines. The overflow is one more acquire, of the same entity on another
resource. It begins after the first bucket has refused, and so holds nothing: no call takes from the refused bucket
and from the overflow. Only what certainly was refused overflows: an outage does not, and while one lasts the overflow
serves no call. Whatever goes wrong there, the first refusal stands. An acquire that is admitted pays nothing for any of
this.

With ``at``, the overflow comes first once so much of a limit is used (``early``).
"""

from ...values.on_refused import OnRefused
from ...values.refusal import AccessDisabled, RateLimitExceeded
from .. import acquire as acquiring
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .acquire import acquire
from .claims import Grant
from .counting import count_refusal
from .outage import or_by_policy
from .requests import AcquireRequest


def acquire_with_fallbacks(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    """Return the grant of ``acquire``, within the seconds that the request may wait, or that of the overflow.

    Raises the errors of ``acquire``.
    """
    if request.on_refused is not None or namespace_state.configs.has_on_refused:
        policy = policy_of(namespace_state, request)
        if policy is not None and policy.at is not None:
            early = yield from acquiring.early.acquire_early(namespace_state, request, policy)
            if early is not None:
                return early
        if policy is not None and policy.wait and not request.max_wait:
            request = request.waiting(policy.wait)
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
    cached = namespace_state.home_at(request.entity_id, request.resource)
    known = None if cached is None else namespace_state.fresh(cached)
    return known is None or (known.on_refused is not None and known.on_refused.wait > 0)


def policy_of(namespace_state: NamespaceState, request: AcquireRequest) -> OnRefused | None:
    """Return the policy of the call, else that of its levels as they were last read."""
    if request.on_refused is not None or not namespace_state.configs.has_on_refused:
        return request.on_refused
    cached = namespace_state.home_at(request.entity_id, request.resource)
    return None if cached is None or cached.resolved is None else cached.resolved.on_refused


def _after(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    refusal: RateLimitExceeded,
    caller: "acquiring.waiting.Caller | None",
) -> Flow[Grant]:
    """Return the grant of the next steps, if one serves the call. Raises the refusal, which is counted."""
    policy, grant = policy_of(namespace_state, request), None
    if policy is not None and not _is_final(refusal):
        grant, refusal = yield from _by_policy(namespace_state, request, policy, refusal, caller)
    if grant is None:
        yield from count_refusal(namespace_state, refusal)
        raise refusal
    return grant


def _by_policy(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    policy: OnRefused,
    refusal: RateLimitExceeded,
    caller: "acquiring.waiting.Caller | None",
) -> Flow[tuple[Grant | None, RateLimitExceeded]]:
    """Return the grant of a wait or of the overflow, or ``None``, and the refusal as it is by then."""
    if policy.wait and not request.max_wait:  # the acquire was the first to read the levels
        request = request.waiting(policy.wait)
        caller = acquiring.waiting.Caller(namespace_state, request)
        try:
            return (yield from caller.acquire()), refusal
        except RateLimitExceeded as later:
            refusal = later
    if policy.overflow is None or _is_final(refusal):
        return None, refusal
    grant, refusal = yield from _overflow(namespace_state, request, policy.overflow, refusal)
    if grant is not None:
        grant.waited = 0.0 if caller is None else caller.waited
    return grant, refusal


def _overflow(
    namespace_state: NamespaceState, request: AcquireRequest, resource: str, refusal: RateLimitExceeded
) -> Flow[tuple[Grant | None, RateLimitExceeded]]:
    """Return the grant of the overflow, or ``None``, and the refusal as it is by then."""
    serving = acquiring.overflow
    try:
        grant = yield from serving.acquire_from_overflow(namespace_state, request, resource, refusal)
    except RateLimitExceeded as short:
        return None, RateLimitExceeded(refusal.statuses, refusal.entity_id, refusal.resource, overflow=short.statuses)
    except serving.UNSERVED as error:
        refusal.__cause__ = error
        return None, refusal
    return grant, refusal


def _is_final(refusal: RateLimitExceeded) -> bool:
    """Return whether nothing follows a refusal: an outage's share is used up, or the bucket is disabled."""
    return refusal.by_share or isinstance(refusal, AccessDisabled)
