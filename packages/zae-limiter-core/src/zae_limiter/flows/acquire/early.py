"""The overflow before the limit: from a part of it used on, calls ask the overflow first (``OnRefused.at``).

What is used is what this process has seen last of the buckets of the call's own path, so a call makes no request more,
and this keeps no state: a window that begins anew, or tokens that come back, send the next call to its own bucket
again. So the part is as exact as what others took since, and the limit itself stays exact. What the call's draws have
left counts not: the overflow takes them along.

Overflowed calls show nothing of the first bucket. So limits that have expired are read with their buckets before the
decision, in place of the read beside the write; and slots, which others free, count only as long as a copy may refuse
by them. A bucket that this process has never seen is asked first.
"""

from collections.abc import Sequence

from ...exceptions import RateLimiterUnavailable
from ...operations.errors import OUTAGE, StoreError
from ...values.limit_status import LimitStatus
from ...values.on_refused import OnRefused
from ...values.refusal import RateLimitExceeded
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .claims import Claim, Grant
from .copies import fresh_shards
from .inspection import asked_of, used_limits
from .outage import or_by_policy
from .overflow import UNSERVED, acquire_from_overflow
from .path import find_claims, known_claims
from .requests import AcquireRequest


def acquire_early(namespace_state: NamespaceState, request: AcquireRequest, policy: OnRefused) -> Flow[Grant | None]:
    """Return the grant of the overflow, if so much of a limit is used that it comes first and it serves the call;
    ``None`` if the call's own bucket is to be asked. Raises the errors of ``acquire`` but for refusals.
    """
    known = known_claims(namespace_state, request)
    if known is None or policy.percent is None or policy.overflow is None:
        return None
    try:
        claims = yield from _read_again(namespace_state, request, known)
        status = _used(namespace_state, claims, policy.percent)
        if status is None:
            return None
        return (yield from acquire_from_overflow(namespace_state, request, policy.overflow, status))
    except (RateLimitExceeded, *UNSERVED) as error:
        failure = error.__cause__ if isinstance(error, RateLimiterUnavailable) else error
        if isinstance(failure, StoreError) and isinstance(failure, OUTAGE):  # which would also be that of a second try
            return (yield from or_by_policy(namespace_state, request, _failed(failure)))
        return None  # the first bucket serves the call, or says why not


def _used(namespace_state: NamespaceState, claims: Sequence[Claim], percent: int) -> LimitStatus | None:
    """Return the first limit of a call of which so much is used, by what was seen last; ``None`` if there is none."""
    now_ms = namespace_state.now()
    states = [namespace_state.states(claim.home) for claim in claims]
    asked = [asked_of(namespace_state, claim, seen, now_ms) for claim, seen in zip(claims, states, strict=True)]
    for claim, status in used_limits([*zip(claims, asked, strict=True)], percent):
        if status.limit.kind != "concurrent" or fresh_shards(namespace_state, claim, now_ms):
            return status
    return None


def _read_again(
    namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]
) -> Flow[Sequence[Claim]]:
    """Return the claims with limits that hold; those that have expired are read with their buckets, once for all
    callers.
    """
    stale = [claim.home for claim in claims if claim.stale and not claim.home.busy]
    if not stale:
        return claims
    for home in stale:
        home.known = False
    try:
        return (yield from find_claims(namespace_state, request))
    finally:
        for home in stale:
            home.known = True  # also in an outage, where what was known decides


def _failed(error: StoreError) -> Flow[Grant]:
    """Fail as an acquire does."""
    yield from ()
    raise error
