"""Walk the paths of a call and of its draws, and join them, so that each bucket is drawn on once.

The call names its own bucket, and each draw one. Such a bucket gives what is asked of it there, also if the call or
another draw cascades to it. Any other bucket that several of them reach belongs to the first, the call before its draws
in order. There all of them must ask for the same amounts: to add these up would count one call twice, and to leave some
out would count it too low. So the caller has to say what is meant, by a draw of this bucket.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from ...exceptions import ValidationError
from ...schema.items import BucketId
from ...values.entities import MOST_BUCKETS
from ...values.limits import MILLI
from ...values.resolution import Config
from .claims import Claim, Grant, no_limits, unknown_limit
from .path import Path, parents_to_ask
from .requests import AcquireRequest, DrawRequest, fit_estimates


class Met(Protocol):
    """A bucket that a call meets on its path, or on that of one of its draws."""

    @property
    def bucket(self) -> BucketId: ...

    @property
    def config(self) -> Config: ...

    @property
    def amounts(self) -> Mapping[str, int]: ...

    @property
    def unlimited_names(self) -> frozenset[str]: ...

    @property
    def path(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> int: ...


T = TypeVar("T", bound=Met)


class Walk:
    """The path of a call, or of one of its draws, with the claims on it as far as it is walked.

    ``number``: which of the draws it is, from 1; 0 for the call.
    """

    __slots__ = ("claims", "number", "path", "request")

    def __init__(self, request: AcquireRequest, number: int = 0) -> None:
        self.request = request
        self.number = number
        self.path = Path(request.entity_id)
        self.claims: list[Claim] = []

    @property
    def level(self) -> list[str]:
        """The entities that come next."""
        return self.path.order[len(self.claims) :]

    def meet(self, claim: Claim) -> bool:
        """Add the claim that comes next; return whether the path goes on above it."""
        entity_id, path = claim.cached.id.entity_id, self.path
        claim.path, claim.place, claim.draw = path.to[entity_id], len(self.claims), self.number
        self.claims.append(claim)
        above = claim.resolved.parent_ids and parents_to_ask(self.request, entity_id, claim.resolved)
        if above:
            path.rise(entity_id, above)
        return bool(above)


def walks_of(request: AcquireRequest) -> list[Walk]:
    """Return the walks of a call and of its draws, before their first step."""
    if not request.also:
        return [Walk(request)]
    return [Walk(each, number) for number, each in enumerate(request.branches)]


def join(request: AcquireRequest, walks: Sequence[Walk]) -> list[Claim]:
    """Return the claims of all walks, each with the amounts of its own limits, each bucket once.

    Raises ``ValidationError`` for an amount without a limit, and for what the draws leave open.
    """
    met = with_amounts(request, walks[0].claims)
    if not request.also:
        return met
    if request.learns:  # its estimates may be lower by now
        for draw in (*request.also, *(walk.request for walk in walks)):
            if isinstance(draw, DrawRequest) and draw.as_called:
                draw.amounts = request.amounts
    return each_once(met + [claim for walk in walks[1:] for claim in with_amounts(walk.request, walk.claims)])


def each_once(met: Sequence[T]) -> list[T]:
    """Return the buckets that a call and its draws have met, each once. Raises ``ValidationError`` for what they leave
    open, and for too many buckets.
    """
    of_bucket: dict[BucketId, T] = {each.bucket: each for each in met if not each.place}
    for each in met:
        first = of_bucket.setdefault(each.bucket, each)
        if first.place and first.amounts != each.amounts:
            raise _contradiction(first, each)
    if len(of_bucket) > MOST_BUCKETS:
        names = ", ".join(f"{bucket.entity_id}/{bucket.resource}" for bucket in of_bucket)
        problem = f"the call draws on more than {MOST_BUCKETS} buckets: {names}; leave draws out, or their cascade"
        raise ValidationError("also", len(of_bucket), problem)
    return [each for each in met if of_bucket[each.bucket] is each]


def with_amounts(request: AcquireRequest, claims: list[Claim]) -> list[Claim]:
    """Give each claim the amounts of its own limits, estimates lowered to what these allow. Raises the errors of
    ``check_limits_of``.
    """
    if request.learns:
        fit_estimates(request, [limit for claim in claims for limit in claim.config.enforced.values()])
    asked, limited = request.amounts, set[str]()
    for claim in claims:
        by_name = claim.config.by_name
        if not by_name:
            raise no_limits(claim.bucket)
        has_all = asked.keys() <= by_name.keys()
        claim.amounts = asked if has_all else {name: n for name, n in asked.items() if name in by_name}
        claim.limited = limited  # of all claims, once the loop has ended
        limited.update(by_name)
    if not asked.keys() <= limited:
        check_limits_of(request, claims)
        if not _leaves_out(request, asked.keys() - limited):
            for claim in claims:
                names = claim.unlimited_names
                claim.unlimited = {name: n for name, n in asked.items() if name in names}
    return claims


def check_limits_of(request: AcquireRequest, met: Sequence[Met]) -> None:
    """Raise ``ValidationError`` for a bucket without limits, and for an amount of a limit that no level of the path
    knows. A draw with the amounts of its call may lack limits for some of them, but not for all.
    """
    for each in met:
        if not each.config.limits:
            raise no_limits(each.bucket)
    known = {name for each in met for name in each.config.by_name}
    if _leaves_out(request, request.amounts.keys() - known):
        return
    known |= {name for each in met for name in each.unlimited_names}
    for name in request.amounts.keys() - known:
        raise unknown_limit("consume", name, f"on resource {request.resource!r}", known)


def _leaves_out(request: AcquireRequest, missing: Collection[str]) -> bool:
    """Return whether a draw with the amounts of its call leaves out those that its buckets do not limit."""
    return isinstance(request, DrawRequest) and request.as_called and len(missing) < len(request.amounts)


def draw_of(grant: Grant, entity_id: str | None, resource: str | None) -> Grant:
    """Return what a draw of the call took. Raises ``ValidationError`` if ``also`` does not name the bucket."""
    request = grant.request
    called = request if grant.overflow is None else grant.overflow.refusal  # the draws are those of the call
    wanted = entity_id or request.entity_id, resource or called.resource
    for each in grant.draws:
        if (each.request.entity_id, each.request.resource) == wanted:
            return each
    named = ", ".join(f"{each.entity_id}/{each.resource}" for each in request.also) or "none"
    raise ValidationError("draw", "/".join(map(str, wanted)), f"no draw of this call; `also` names {named}")


def _contradiction(first: Met, second: Met) -> ValidationError:
    ways = (f"{' > '.join(each.path)} takes {_shown(each)}" for each in (first, second))
    problem = f"{' and '.join(ways)}: name it by a draw of its own, or give one of them cascade=False"
    return ValidationError("also", f"{first.bucket.entity_id}/{first.bucket.resource}", problem)


def _shown(met: Met) -> str:
    return ", ".join(f"{amount // MILLI} {name}" for name, amount in met.amounts.items()) or "nothing"
