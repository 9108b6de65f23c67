"""The overflow of a call: one more acquire, of the same entity on another resource.

What sends a call there says why: a refusal, or a limit of which much is used. The lease settles there, with the
weights of the first bucket, because they say what its resource costs.
"""

from collections.abc import Sequence
from typing import Final

from ...exceptions import InfrastructureError, ValidationError
from ...operations.errors import StoreError
from ...runtime.dataclass import replace
from ...values.limit_status import LimitStatus
from ...values.refusal import RateLimitExceeded
from ...values.resolution import RESOURCE_LEVELS, Resolved
from ..bucket.serving import cached_shard, resolve
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .acquire import acquire
from .claims import Claim, Grant, Overflow
from .outage import or_by_policy
from .path import known_claims
from .requests import AcquireRequest

UNSERVED: Final = (StoreError, InfrastructureError, ValidationError)  # why an overflow serves no call, beside refusals


def acquire_from_overflow(
    namespace_state: NamespaceState, request: AcquireRequest, resource: str, why: RateLimitExceeded | LimitStatus
) -> Flow[Grant | None]:
    """Return the grant of the overflow; ``None`` if it does not serve the call: it has no limits of its own, none of
    these names, or the call draws on it already. Raises ``RateLimitExceeded``, and the errors ``UNSERVED``.
    """
    named = {request.asker, *((each.entity_id, each.resource) for each in request.draws)}
    if (request.entity_id, resource) in named:
        return None
    home = cached_shard(namespace_state, request.entity_id, resource)
    resolved = yield from resolve(namespace_state, home, bucket_too=True)
    other = overflow_request(request, resource, resolved)
    if other is None:
        return None
    first = known_claims(namespace_state, request) or ()
    grant = yield from or_by_policy(namespace_state, other, acquire(namespace_state, other))
    grant.overflow = overflow_of(request, first, grant.claims, why)
    grant.request = replace(other, on_unavailable=request.on_unavailable)
    return grant


def overflow_request(request: AcquireRequest, resource: str, resolved: Resolved) -> AcquireRequest | None:
    """Return the request to the overflow: for the amounts that it has limits of; ``None`` if it does not serve the
    call.

    Limits of all resources make no overflow: each entity would have twice of them.
    """
    if resolved.source not in RESOURCE_LEVELS:
        return None
    amounts = {name: n for name, n in request.amounts.items() if name in resolved.config.by_name}
    if not any(amounts.values()):
        return None
    return replace(
        request.at_once(),
        resource=resource,
        amounts=amounts,
        limits=(),
        default_limits=(),
        on_unavailable="block",
        rereads=0,
    )


def overflow_of(
    request: AcquireRequest,
    first: Sequence[Claim],
    serving: Sequence[Claim],
    why: RateLimitExceeded | LimitStatus,
) -> Overflow:
    """Return what the lease of an overflow has to know of the bucket that comes first."""
    here = {name for claim in serving for name in claim.config.by_name}
    there = {name for claim in first for name in (*claim.config.by_name, *claim.unlimited_names)}
    weights = {name: each for claim in reversed(first) for name, each in claim.config.weights.items()}
    return Overflow(request.resource, why, frozenset((there | request.amounts.keys()) - here), weights)
