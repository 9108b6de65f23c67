"""Read without writing: effective limits, available tokens, time to wait."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...operations.values import NOTHING
from ...rules.balances import force_consume
from ...rules.schedules import wait_through
from ...rules.sharding import Part, calculate_balance
from ...schema.items import BucketId, BucketState
from ...values.checks import Check
from ...values.limits import MILLI, ConfigSource, Limit, Policy
from ...values.resolution import Config
from ...values.switches import ResolvedSwitches
from ..bucket.reading import parts_of, read_whole
from ..bucket.serving import cached_bucket, resolve
from ..bucket.shifting import all_shifted, in_force
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import validate_bucket
from .acquire import find_claims
from .claims import Claim
from .disabling import is_disabled, never
from .requests import AcquireRequest
from .statuses import status_of

Resolution = tuple[list[Limit], Policy | None, ConfigSource | None]


def available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[dict[str, int]]:
    """Return whole tokens in all shards of the entity's own bucket and held by this process, by limit; negative in
    debt. Always reads the store.
    """
    [own, *_] = yield from _read_claims(namespace_state, request)
    now, config = namespace_state.now(), own.claim.config
    stored = Stored(own.states, config, NOTHING, held_of(namespace_state, own.claim.bucket, config))
    parts = {name: stored.stand(name, now, by_holds=False).parts for name in config.by_name}
    return {name: calculate_balance(each, now) // MILLI for name, each in parts.items()}


def check(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Check]:
    """Return what the acquire would find, by one read of its buckets if their limits are known. A request without
    amounts stands for one token of each limit.
    """
    found = yield from _read_claims(namespace_state, request)
    now, branches = namespace_state.now(), (request, *request.also)
    stored = [
        asked_of(namespace_state, branches[claim.draw], claim.bucket, states, claim.config) for claim, states in found
    ]
    by_holds = are_held(request, stored)
    statuses = []
    for each, asked in zip(found, stored, strict=True):
        disabled = is_disabled(request, each.claim.resolved)
        for name, amount in (asked.amounts or (dict.fromkeys(asked.config.by_name, 0) if disabled else {})).items():
            standing = asked.stand(name, now, by_holds=by_holds)
            limit = asked.config.by_name[name]
            status = status_of(each.claim, limit, standing.parts, amount, now, standing.wait_seconds)
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


class Standing(NamedTuple):
    """How a limit stands for a call.

    ``available`` is in the bucket, in millitokens; ``parts`` has what this process holds of it as well.
    """

    available: int
    parts: Sequence[Part]
    wait_seconds: float


class Stored(NamedTuple):
    """A bucket as it is stored, with what a call asks of it: ``amounts``, and what this process holds of it ahead
    (``held``), both in millitokens by limit.
    """

    states: Sequence[BucketState]
    config: Config
    amounts: Mapping[str, int]
    held: Mapping[str, int]

    def stand(self, name: str, now_ms: int, *, by_holds: bool) -> Standing:
        """Return how a limit stands. ``by_holds``: this process holds everything that the call asks for."""
        limit, held = self.config.by_name[name], self.held.get(name, 0)
        parts = parts_of(self.states, limit, now_ms)
        declared = self.config.scheduled.get(name)
        available, amount = calculate_balance(parts, now_ms), self.amounts.get(name)
        if held:
            parts[0] = Part(*force_consume(*parts[0], -held, now_ms))
        return Standing(
            available, parts, 0.0 if amount is None or by_holds else wait_through(declared, parts, amount, now_ms)
        )


def asked_of(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    bucket: BucketId,
    states: Sequence[BucketState],
    config: Config,
) -> Stored:
    """Return a bucket with what a call asks of it: one token of each limit, if it names no amounts."""
    amounts = request.amounts or dict.fromkeys(config.by_name, MILLI)
    asked = {name: amount for name, amount in amounts.items() if name in config.by_name}
    return Stored(states, config, asked, held_of(namespace_state, bucket, config))


def held_of(namespace_state: NamespaceState, bucket: BucketId, config: Config) -> Mapping[str, int]:
    """Return what this process holds of a bucket ahead, in millitokens by limit; nothing, if it holds that by other
    limits than those of the call.
    """
    cached = namespace_state.cached_buckets.get((bucket.entity_id, bucket.resource, 0))
    hold, terms = None if cached is None else cached.queue.hold, in_force(config, None, namespace_state.now())
    return NOTHING if hold is None or terms is None or not hold.goes_by(terms) else hold.left()


def are_held(request: AcquireRequest, stored: Sequence[Stored]) -> bool:
    """Return whether this process holds all that is asked for, so that the acquire passes without a request."""
    if request.shadow:
        return False
    return all(amount <= each.held.get(name, -1) for each in stored for name, amount in each.amounts.items())


class _StoredClaim(NamedTuple):
    claim: Claim
    states: Sequence[BucketState]


def _read_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[_StoredClaim]]:
    """Return the claims with the stored states of their buckets. Leave the cached buckets alone: a run may be at
    work.
    """
    claims = yield from find_claims(namespace_state, request)
    found = yield from read_whole([claim.bucket for claim in claims])
    now = namespace_state.now()
    return [
        _StoredClaim(claim, all_shifted([state.repaired(now) for state in states], claim.config, now))
        for claim, states in zip(claims, found, strict=True)
    ]
