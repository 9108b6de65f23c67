"""Refuse an acquire that a switch disables, on any bucket of its path.

A disabled entity has no limits that hold for any time: ``Resolved.valid_until_ms`` is over, so no way of admitting
without a look at its switches takes it, and no other acquire pays for one. What was read refuses for as long as a last
seen balance may refuse; then the records are read again. So an enabled caller is admitted within a second, although
processes cannot be called back, and an entity without a bucket has nothing to invalidate.
"""

from collections.abc import Sequence

from ...runtime.dataclass import replace
from ...values.limit_status import LimitStatus
from ...values.refusal import AccessDisabled
from ...values.resolution import Resolved
from .. import acquire as acquiring
from ..bucket.serving import resolve
from ..bucket.view import View
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .claims import Claim
from .requests import AcquireRequest


def is_disabled(request: AcquireRequest, resolved: Resolved) -> bool:
    """Return whether a switch refuses the request on a bucket; a limiter in shadow refuses no call."""
    return resolved.disables and not request.shadow


def are_old_and_disabled(namespace_state: NamespaceState, claims: Sequence[Claim]) -> bool:
    """Return whether a claim is disabled, and that or the path to it was read too long ago to refuse by; expire it.

    A refused caller writes to no bucket, so a change of an entity below the disabled one does not reach it either.
    """
    if not any(claim.stale and claim.resolved.disables for claim in claims):
        return False
    now_ms, staleness_ms = namespace_state.now(), namespace_state.settings.staleness_ms
    old = [claim for claim in claims if not claim.resolved.is_recent(now_ms, staleness_ms)]
    for claim in old:
        namespace_state.expire(claim.home)
    return bool(old)


def read_if_old_and_disabled(
    namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]
) -> Flow[bool]:
    """Read such limits again before they refuse, once; return whether there were any."""
    if request.rereads or not are_old_and_disabled(namespace_state, claims):
        return False
    for claim in claims:
        yield from resolve(namespace_state, claim.home, bucket_too=True)
    return True


def refuse_if_disabled(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]) -> None:
    """Raise ``AccessDisabled`` if one of the claims is disabled: of several, for the one that is nearest.

    It has the statuses of every limit, as last seen; those of the disabled bucket never pass.
    """
    shut = next((claim for claim in claims if is_disabled(request, claim.resolved)), None)
    if shut is None:
        return
    now = namespace_state.now()
    if not any(shut.amounts.values()):  # it has none of the limits that are asked for, and is disabled all the same
        shut.amounts = dict.fromkeys(shut.config.by_name, 0)
    for claim in claims:
        claim.decided_by_view = claim.decided_by_view or View(namespace_state.states(claim.home), claim.config, now)
    statuses = [
        never(status) if claim is shut else status
        for claim in claims
        for status in acquiring.statuses.statuses_before(claim, now)
    ]
    switch = shut.resolved.switches.disabled if shut.resolved.switches is not None else None
    asker, resource = request.asker
    raise AccessDisabled(statuses, asker, shut.home.id.entity_id, switch, resource)


def never(status: LimitStatus) -> LimitStatus:
    """Return the status of a limit of a disabled bucket."""
    return replace(status, limit=replace(status.limit, shadow=False), exceeded=True, retry_after_seconds=float("inf"))
