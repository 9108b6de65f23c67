"""From a call to its claims: the one walk of the path, by which every acquire, check, explanation and lease goes.

The problem: the buckets that a call draws on are known only on the way. The entity that asks names its parents, these
name theirs, each with a switch or a record that says whether to go on. The choice: ``walk`` goes as far as is known,
and returns the places that it lacks. Who asks brings what is known: ``known_claims`` what this process remembers,
``find_claims`` what it reads, ``explain`` what the store has now. So they may know different things, and cannot
disagree about what follows.

A *path* is found level by level, nearest first, in the order in which each entity has its parents. An entity that is
found twice is drawn on once, by the way that was found first. The call has a path, and so has each of its ``draws``.
The bucket that a call or a draw names gives what is asked of it there, also if another path leads to it. Any other
bucket that several paths reach belongs to the first, the call before its draws in order. There all must ask for the
same amounts: to add these up would count one call twice, and to leave some out would count it too low. So the caller
has to say what is meant, by a draw of this bucket.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from ... import values
from ...exceptions import ValidationError
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import SHARD_COUNT
from ...schema.items import BucketId
from ...values.entities import MOST_BUCKETS
from ...values.limits import MILLI, Limit
from ...values.resolution import FOLLOWS, Config, Resolved, no_room
from .. import acquire as acquiring
from ..bucket.serving import cached_shard, let_prefetch, resolve_all
from ..bucket.versions import with_birth
from ..process.late_opening import opened
from ..process.namespace_state import ANY_LEVEL, CachedShard, NamespaceState
from ..steps import Flow
from .claims import Claim, unknown_limit
from .disabling import are_old_and_disabled
from .requests import AcquireRequest

Place = tuple[str, str]  # an entity, and a resource
Known = tuple[CachedShard, Resolved, bool]  # a bucket, its limits, and whether these are to be read again
Look = Callable[[str, str], Known | None]
NOWHERE: Mapping[Place, None] = {}


class Gap(NamedTuple):
    """Why a walk is not whole: the places that are not known, and ``further`` ones that are probably behind them; or a
    ``problem``, because a path is too long.
    """

    missing: Mapping[Place, None]
    further: Mapping[Place, None]
    problem: ValidationError | None = None


def walk(request: AcquireRequest, look: Look, now: Callable[[], int]) -> tuple[list[Claim], Gap | None]:
    """Walk the paths of a call and of its draws, as far as ``look`` knows the places. Return the claims, which ``join``
    completes if there is no gap.
    """
    claims: list[Claim] = []
    missing: Mapping[Place, None] = NOWHERE
    further: Mapping[Place, None] = NOWHERE
    too_many: ValidationError | None = None
    roots, draw = (request, *request.draws) if request.draws else (request,), 0
    for root in roots:  # counted by hand, here and below: `enumerate` costs more than a step, and most walks have one
        paths: list[tuple[str, ...]] = [(root.entity_id,)]
        resource, place = root.resource, 0
        for path in paths:  # which grow while they are walked: level by level, the nearest first
            entity_id = path[-1]
            known = look(entity_id, resource)
            if known is None:
                missing = {**missing, (entity_id, resource): None}
                continue  # the others of its level are looked up all the same: one read has all that is missing
            home, resolved, stale = known
            config = resolved.config
            if root.limits or root.shadow or not resolved.is_plain:
                config = config_of(root, resolved, now)
                if config.stored:
                    too_many = too_many or no_room(f"{entity_id}/{resource}", config.limits, resolved.sources)
            claims.append(Claim(home, home, resolved, config, root.amounts, request, stale, path, place, draw))
            place += 1
            if resolved.parent_ids and (above := parents_to_ask(root, entity_id, resolved)):
                met = {each[-1] for each in paths}
                paths += [(*path, parent_id) for parent_id in above if parent_id not in met]
                further = {**further, **dict.fromkeys((each, resource) for each in resolved.further_ids)}
                if len(paths) > MOST_BUCKETS:
                    names = ", ".join(each[-1] for each in paths)
                    problem = f"draws on more than {MOST_BUCKETS} buckets: {names}; move it, or one above it"
                    return claims, Gap(NOWHERE, NOWHERE, ValidationError("entity_id", root.entity_id, problem))
        draw += 1
    return claims, Gap(missing, further, too_many) if missing or too_many is not None else None


def parents_to_ask(root: AcquireRequest, entity_id: str, resolved: Resolved) -> tuple[str, ...]:
    """Return the parents on whose buckets a call or a draw draws as well.

    Its ``cascade`` is for the entity that it names, and no other. A switch that is off comes before that of a call.
    """
    cascade = resolved.cascade
    if entity_id == root.entity_id and root.cascade is not None:
        decided = resolved.switches is not None and resolved.switches.cascade is not None
        cascade = root.cascade and (cascade or not decided)
    return resolved.parent_ids if cascade else ()


def known_claims(namespace_state: NamespaceState, request: AcquireRequest) -> list[Claim] | None:
    """Return the claims by limits that this process remembers, expired or not: an acquire reads expired ones again
    beside its write. Return ``None`` if some have to be read first.
    """
    claims, gap = walk(request, namespace_state.remembered, namespace_state.now)
    if gap is not None and gap.missing:
        return None
    if claims[0].stale:
        namespace_state.configs.misses += 1
    else:
        namespace_state.configs.hits += 1
    try:
        return _choose_shards(namespace_state, join(request, claims, gap))
    except ValidationError:  # what it remembers may have changed
        fresh_ms = namespace_state.now() - namespace_state.settings.staleness_ms
        for claim in claims:
            namespace_state.expire(claim.home, read_before_ms=fresh_ms)
        return None


def find_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[Claim]]:
    """Return the claims, each with the limits that hold for it; read limits that are unknown or have expired.

    Raises ``ValidationError`` for an amount without a limit, and if there are no limits at all. For a namespace that
    was not opened yet, raises what opening it raises.
    """
    yield from opened(namespace_state)
    claims = yield from _read_claims(namespace_state, request)
    if are_old_and_disabled(namespace_state, claims):
        claims = yield from _read_claims(namespace_state, request)
    return _choose_shards(namespace_state, claims)


def _read_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[Claim]]:
    read: dict[Place, Known] = {}
    gap: Gap | None = Gap({(each.entity_id, each.resource): None for each in request.parts}, NOWHERE)
    while gap is not None and gap.missing:
        homes = [cached_shard(namespace_state, *place) for place in gap.missing]
        beside = list[CachedShard]()
        for place in gap.further:
            if place not in read and place not in gap.missing:
                beside.append(cached_shard(namespace_state, *place))
        resolved = yield from resolve_all(namespace_state, homes, beside)
        for place, home, each in zip(gap.missing, homes, resolved, strict=True):
            read[place] = home, each, each.disables
        claims, gap = walk(request, lambda *place: read.get(place), namespace_state.now)
    return join(request, claims, gap)


def join(request: AcquireRequest, claims: list[Claim], gap: Gap | None = None) -> list[Claim]:
    """Return the claims of a walk that lacks nothing, with the amounts of their own limits, each bucket once.

    Raises ``ValidationError`` for a path of too many buckets, for an amount without a limit, and for what the draws
    leave open.
    """
    if gap is not None and gap.problem is not None:
        raise gap.problem
    is_plain = claims[0] is claims[-1] and request.amounts and not request.learns and not request.money
    if is_plain and request.amounts.keys() <= claims[0].config.by_name.keys():
        return claims
    if request.draws:
        return _join_draws(request, claims)
    _give_amounts(request, claims)
    return claims


def _join_draws(request: AcquireRequest, claims: list[Claim]) -> list[Claim]:
    """Do the same for a call with draws: each takes its amounts from its own path."""
    _give_amounts(request, [claim for claim in claims if not claim.draw])
    for number, draw in enumerate(request.draws, start=1):
        draw.follow(request)
        _give_amounts(draw, [claim for claim in claims if claim.draw == number])
    first_of: dict[BucketId, Claim] = {claim.bucket: claim for claim in claims if not claim.place}
    for claim in claims:
        first = first_of.setdefault(claim.bucket, claim)
        if first.place and first.amounts != claim.amounts:
            raise _contradiction(first, claim)
    if len(first_of) > MOST_BUCKETS:
        names = ", ".join(f"{bucket.entity_id}/{bucket.resource}" for bucket in first_of)
        problem = f"the call draws on more than {MOST_BUCKETS} buckets: {names}; leave draws out, or their cascade"
        raise ValidationError("draws", len(first_of), problem)
    return [claim for claim in claims if first_of[claim.bucket] is claim]


def _give_amounts(root: AcquireRequest, claims: Sequence[Claim]) -> None:
    """Give the claims of a path the amounts of their own limits, estimates lowered to what these allow."""
    if root.learns:
        _fit_estimates(root, [limit for claim in claims for limit in claim.config.enforced.values()])
    asked: Mapping[str, int] = root.amounts
    if root.money:
        values.money_amounts.refuse_tokens("consume", asked, [claim.config.by_name for claim in claims])
    levels = dict[str, tuple[Config, Sequence[str]]]()
    lacking: list[Claim] = []
    for claim in claims:
        by_name = claim.config.by_name
        if not by_name:
            _count_all(claim, asked)
        claim.levels = levels  # of all claims, once the loop has ended
        levels[claim.path[-1]] = claim.config, claim.resolved.parent_ids
        if asked.keys() <= by_name.keys():
            claim.amounts = asked
        else:
            claim.amounts = {name: n for name, n in asked.items() if name in by_name}
            lacking.append(claim)
    if lacking:
        _give_counted(root, claims, lacking, asked)


def _give_counted(
    root: AcquireRequest, claims: Sequence[Claim], lacking: Sequence[Claim], asked: Mapping[str, int]
) -> None:
    """Give the claims that lack limits for some of the amounts what they only count of these."""
    limited = {name for claim in claims for name in claim.config.by_name}
    for claim in lacking:
        if not claim.config.is_unlimited and (above := asked.keys() & claim.limited_above):
            claim.unlimited = {name: asked[name] for name in above}
    if asked.keys() <= limited:
        return
    unlimited = any(claim.config.is_unlimited for claim in claims)
    if root.as_called and (unlimited or not limited.isdisjoint(asked)):
        return  # a draw with the amounts of its call may lack limits for some of them, but not for all
    known: Collection[str] = limited.union(*(claim.known_names for claim in claims))
    for name in asked.keys() - known if known or not unlimited else ():
        raise unknown_limit("consume", name, f"on resource {root.resource!r}", known)
    for claim in claims:
        if not claim.config.is_unlimited:
            names = claim.counted_names
            claim.unlimited = {name: n for name, n in asked.items() if name in names}


def _count_all(claim: Claim, asked: Mapping[str, int]) -> None:
    """Let a claim without limits count what is asked for, if a level says that there are none; else raise."""
    if not claim.config.is_unlimited:
        of = claim.bucket
        way_out = "call set_limits(), set_resource_defaults() or set_system_defaults(), or pass limits="
        if len(claim.path) > 1:
            way_out += f"; set_limits({of.entity_id!r}, UNLIMITED) if it is to bound nothing of {claim.path[0]}"
        raise ValidationError("limits", f"{of.entity_id}/{of.resource}", f"no limits are configured: {way_out}")
    claim.unlimited = asked


def _fit_estimates(root: AcquireRequest, limits: Sequence[Limit]) -> None:
    """Lower each estimate to what a new bucket has of each of these limits: it may have been learnt from calls with
    larger ones, and is refused for a time, never for ever. A limit that blocks everything goes on doing so.
    """
    fitting = dict(root.amounts)
    for limit in limits:
        if limit.name in (root.learns or ()) and limit._initial_milli:
            fitting[limit.name] = min(fitting[limit.name], limit._initial_milli)
    root.amounts = fitting


def _contradiction(first: Claim, second: Claim) -> ValidationError:
    ways = []
    for each in (first, second):
        taken = ", ".join(f"{amount // MILLI} {name}" for name, amount in each.amounts.items()) or "nothing"
        ways.append(f"{' > '.join(each.path)} takes {taken}")
    problem = f"{' and '.join(ways)}: name it by a draw of its own, or give one of them cascade=False"
    return ValidationError("draws", f"{first.bucket.entity_id}/{first.bucket.resource}", problem)


def _choose_shards(namespace_state: NamespaceState, claims: list[Claim]) -> list[Claim]:
    """Return the claims, each with the shard that it asks first, and the birth of its limits."""
    for claim in claims:
        state = claim.home.state
        if state is not None and state.item[SHARD_COUNT] > 1:
            claim.target = acquiring.taking.choose_shard(namespace_state, claim.home, claim.amounts)
        if not claim.config.stored:
            claim.config = with_birth(namespace_state, claim.home, claim.target, claim.config)
        elif claim.home.passed is not ANY_LEVEL:
            claim.home.passed = ANY_LEVEL
        rereads = claim.call.rereads
        if rereads > 1 or (rereads and state is None):  # just read, and later than any invalidation of the bucket
            claim.config = replace(claim.config, read_at_ms=FOLLOWS)
        if claim.config.prefetch:
            let_prefetch(namespace_state, claim.home, claim.target)
    return claims


def config_of(request: AcquireRequest, resolved: Resolved, now: Callable[[], int]) -> Config:
    """Return the limits of a call: those that it passes, else the stored ones, else its default limits; only the stored
    ones have their birth.

    All of them are in shadow if the limiter is, or if a switch lets every acquire pass.
    """
    config = resolved.config
    if request.limits:
        own = config.own and not any(limit._unused_seconds for limit in request.limits)
        config = Config(request.limits, 0, FOLLOWS, own)
    elif not config.limits and request.default_limits and not config.stored:
        config = Config(request.default_limits, 0, config.born_ms)
    if config.since_ms >= 0:
        config = config.at(now())
    if request.shadow or (resolved.switches is not None and resolved.switches.bypasses):
        return replace(config, shadow=frozenset(config.by_name))
    return config


def current_config(
    namespace_state: NamespaceState, request: AcquireRequest, home: CachedShard, resolved: Resolved
) -> Config:
    """Return the limits of a call, with their birth, for more than it has asked of a bucket at first."""
    config = config_of(request, resolved, namespace_state.now)
    return config if config.stored else with_birth(namespace_state, home, home, config)
