"""Read without writing: effective limits, available tokens, time to wait."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...operations.values import NOTHING
from ...schema.items import BucketId, BucketState
from ...values.checks import Check
from ...values.limits import MILLI, ConfigSource, Limit, Policy
from ...values.resolution import Config
from ...values.switches import ResolvedSwitches
from ..bucket.reading import read_whole
from ..bucket.serving import cached_bucket, resolve
from ..bucket.shifting import in_force
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import validate_bucket
from .acquire import find_claims
from .claims import Claim
from .disabling import is_disabled, never
from .requests import AcquireRequest
from .view import View

Resolution = tuple[list[Limit], Policy | None, ConfigSource | None]


def available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[dict[str, int]]:
    """Return whole tokens in all shards of the entity's own bucket and held by this process, by limit; negative in
    debt. Always reads the store.
    """
    [own, *_] = yield from _read_claims(namespace_state, request)
    view = asked_of(
        namespace_state, request, own.claim.bucket, own.states, own.claim.config, namespace_state.now()
    ).view
    return {name: view.available(name) // MILLI for name in view.config.by_name}


def check(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Check]:
    """Return what the acquire would find, by one read of its buckets if their limits are known. A request without
    amounts stands for one token of each limit.
    """
    found = yield from _read_claims(namespace_state, request)
    now, branches = namespace_state.now(), (request, *request.also)
    stored = [
        asked_of(namespace_state, branches[claim.draw], claim.bucket, states, claim.config, now)
        for claim, states in found
    ]
    by_holds = are_held(request, stored)
    statuses = []
    for each, asked in zip(found, stored, strict=True):
        disabled = is_disabled(request, each.claim.resolved)
        of_disabled = dict.fromkeys(each.claim.config.by_name, 0) if disabled else {}
        for name, amount in (asked.amounts or of_disabled).items():
            status = asked.view.status(each.claim, name, amount, asked.wait(name, by_holds=by_holds))
            statuses.append(never(status) if disabled else status)
    claims = [each.claim for each in found]
    unlimited = {
        name for claim in claims for name in (claim.unlimited or () if request.amounts else claim.unlimited_names)
    }
    return Check(request.entity_id, request.resource, tuple(statuses), tuple(sorted(unlimited)))


def resolve_limits(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Resolution]:
    """Return the limits that hold, the policy of the system config, and the level that won."""
    cached = cached_bucket(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return list(resolved.config.marked), resolved.on_unavailable, resolved.source


def resolve_switches(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[ResolvedSwitches]:
    """Return the switches that hold for an entity on a resource."""
    cached = cached_bucket(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return resolved.switches or ResolvedSwitches()


class Asked(NamedTuple):
    """A bucket as it is stored, and what a call asks of it, in millitokens by limit."""

    view: View
    amounts: Mapping[str, int]

    def wait(self, name: str, *, by_holds: bool) -> float:
        """Return the seconds that a call waits for a limit. ``by_holds``: this process holds all that it asks for."""
        return 0.0 if by_holds or name not in self.amounts else self.view.wait(name, self.amounts[name])


def asked_of(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    bucket: BucketId,
    states: Sequence[BucketState],
    config: Config,
    at_ms: int,
) -> Asked:
    """Return a bucket with what a call asks of it: one token of each limit, if it names no amounts."""
    view = View.of(states, config, at_ms)
    view = view._replace(mine=held_of(namespace_state, bucket, config), reshaped=True)
    amounts = request.amounts or dict.fromkeys(config.by_name, MILLI)
    return Asked(view, {name: amount for name, amount in amounts.items() if name in config.by_name})


def held_of(namespace_state: NamespaceState, bucket: BucketId, config: Config) -> Mapping[str, int]:
    """Return what this process holds of a bucket ahead, in millitokens by limit; nothing, if it holds that by other
    limits than those of the call.
    """
    cached = namespace_state.cached_buckets.get((bucket.entity_id, bucket.resource, 0))
    hold, terms = None if cached is None else cached.queue.hold, in_force(config, None, namespace_state.now())
    return NOTHING if hold is None or terms is None or not hold.goes_by(terms) else hold.left()


def are_held(request: AcquireRequest, asked: Sequence[Asked]) -> bool:
    """Return whether this process holds all that is asked for, so that the acquire passes without a request."""
    if request.shadow:
        return False
    return all(amount <= each.view.mine.get(name, -1) for each in asked for name, amount in each.amounts.items())


class _StoredClaim(NamedTuple):
    claim: Claim
    states: Sequence[BucketState]


def _read_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[_StoredClaim]]:
    """Return the claims with the stored states of their buckets. Leave the cached buckets alone: a run may be at
    work.
    """
    claims = yield from find_claims(namespace_state, request)
    found = yield from read_whole([claim.bucket for claim in claims])
    return [_StoredClaim(claim, states) for claim, states in zip(claims, found, strict=True)]
