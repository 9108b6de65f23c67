"""Walk the paths of a call and of its draws, and join them, so that each bucket is drawn on once.

A draw names its bucket, and nothing else names it: so this bucket gives what the draw says, also if the call or another
draw cascades to it. Any other bucket that several of them reach belongs to the first, the call before its draws in
their order. There all of them must ask for the same amounts: to add these up would count one call twice, and to leave
some out would count it too low. So the caller has to say what is meant, by a draw of this bucket.
"""

from collections.abc import Sequence

from ...exceptions import ValidationError
from ...schema.items import BucketId
from ...values.entities import MOST_BUCKETS
from ...values.limits import MILLI
from .claims import Claim, Grant, no_limits, no_such_limit
from .path import Path, parents_to_ask
from .requests import AcquireRequest, DrawRequest


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
        entity_id = claim.cached.id.entity_id
        claim.path, claim.place, claim.draw = self.path.to[entity_id], len(self.claims), self.number
        self.claims.append(claim)
        above = parents_to_ask(self.request, entity_id, claim.resolved)
        if above:
            self.path.rise(entity_id, above)
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
    if not request.also:
        return with_amounts(request, walks[0].claims)
    claims = [claim for walk in walks for claim in with_amounts(walk.request, walk.claims)]
    of_bucket: dict[BucketId, Claim] = {claim.cached.id: claim for claim in claims if not claim.place}
    for claim in claims:
        first = of_bucket.setdefault(claim.cached.id, claim)
        if first.place and first.amounts != claim.amounts:
            raise _contradiction(first, claim)
    if len(of_bucket) > MOST_BUCKETS:
        names = ", ".join(f"{bucket.entity_id}/{bucket.resource}" for bucket in of_bucket)
        problem = f"the call draws on more than {MOST_BUCKETS} buckets: {names}; leave draws out, or their cascade"
        raise ValidationError("also", len(of_bucket), problem)
    return [claim for claim in claims if of_bucket[claim.cached.id] is claim]


def with_amounts(request: AcquireRequest, claims: list[Claim]) -> list[Claim]:
    """Give each claim the amounts of its own limits. Raises ``ValidationError`` for an amount without a limit; a draw
    with the amounts of its call may lack some of them, but not all.
    """
    for claim in claims:
        if not claim.config.limits:
            raise no_limits(claim.cached.id)
        claim.amounts = {name: amount for name, amount in request.amounts.items() if name in claim.config.by_name}
    drawn = {known for claim in claims for known in claim.amounts}
    if drawn and isinstance(request, DrawRequest) and request.as_called:
        return claims
    for name in request.amounts.keys() - drawn:
        raise no_such_limit(request, name, {known for claim in claims for known in claim.config.by_name})
    return claims


def draw_of(grant: Grant, entity_id: str | None, resource: str | None) -> Grant:
    """Return what a draw of the call took. Raises ``ValidationError`` if ``also`` does not name the bucket."""
    request = grant.request
    wanted = entity_id or request.entity_id, resource or request.resource
    for each in grant.draws:
        if (each.request.entity_id, each.request.resource) == wanted:
            return each
    named = ", ".join(f"{each.entity_id}/{each.resource}" for each in request.also) or "none"
    raise ValidationError("draw", "/".join(map(str, wanted)), f"no draw of this call; `also` names {named}")


def _contradiction(first: Claim, second: Claim) -> ValidationError:
    ways = (f"{' > '.join(each.path)} takes {_shown(each)}" for each in (first, second))
    problem = f"{' and '.join(ways)}: name it by a draw of its own, or give one of them cascade=False"
    return ValidationError("also", f"{first.cached.id.entity_id}/{first.cached.id.resource}", problem)


def _shown(claim: Claim) -> str:
    return ", ".join(f"{amount // MILLI} {name}" for name, amount in claim.amounts.items()) or "nothing"
