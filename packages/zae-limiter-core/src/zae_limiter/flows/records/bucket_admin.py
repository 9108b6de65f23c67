"""Tokens given by hand: a bucket made full, or credited; told in the audit events.

Lives here: what is written then, and on which conditions. Never: what an acquire gives back (frames).
"""

from collections.abc import Callable, Mapping, Sequence

from ...audit import AuditAction, Cause
from ...exceptions import ValidationError
from ...limits import MILLI, Limit, check_amounts
from ...naming import check_limit_name
from ...operations.values import Conditions, Put, Update
from ...schema import keys
from ...schema.items import ONE_WRITE, WRITES, BucketId, View, bucket_attributes
from ...token_bucket import share
from ..bucket.anchor_repair import repair
from ..bucket.reading import bucket_of, read_whole
from ..optimistic import Write, optimistic
from ..process.namespace_state import Scope
from ..retry import ATTEMPTS, RaceLost, key_of
from ..steps import Flow
from .audit import Plain, event


def checked_credit(tokens: Mapping[str, int]) -> dict[str, int]:
    """The amounts in millitokens by limit. Raises ``ValidationError``."""
    if not isinstance(tokens, Mapping) or not tokens:
        raise ValidationError("tokens", tokens, "must map at least one limit to an amount, like {'rpm': 10}")
    for name in tokens:
        check_limit_name("tokens", name)
    milli = check_amounts("tokens", tokens)
    for name, amount in milli.items():
        if amount == 0:
            raise ValidationError(f"tokens[{name!r}]", 0, "must be at least 1")
    return milli


def reset_bucket(scope: Scope, entity_id: str, resource: str, cause: Cause) -> Flow[bool]:
    """Make every limit of a bucket full as of now, debt or not; ``False`` where there is no bucket.

    It gets a new anchor. So a write that was decided by the balances before it fails, and is decided again.
    """

    def writes(views: Sequence[View]) -> Sequence[Write]:
        now = scope.now()
        full = {name: limit.burst for name, limit in _limits_of(views).items()}
        told = _event(scope, cause, "bucket_reset", views, {"available": full})
        return [*(_filled(view, now) for view in views), told]

    return (yield from _give(scope, entity_id, resource, cause, writes))


def credit_bucket(scope: Scope, entity_id: str, resource: str, credit: Mapping[str, int], cause: Cause) -> Flow[bool]:
    """Add tokens (in millitokens, by limit), each shard its share; ``False`` where there is no bucket.

    What is above the ceiling then is forgotten by the next write, as with a refill: balances stay where they are as of
    the anchor, so that none on it is needed; only that nobody has split a shard since its share was counted.
    """

    def writes(views: Sequence[View]) -> Sequence[Write]:
        limits = _limits_of(views)
        for name in credit.keys() - limits.keys():
            raise ValidationError("tokens", name, f"is no limit of the bucket, which has: {', '.join(sorted(limits))}")
        given = {name: amount // MILLI for name, amount in credit.items()}
        told = _event(scope, cause, "bucket_credited", views, {"credited": given})
        return [*(_credited(view, credit) for view in views), told]

    return (yield from _give(scope, entity_id, resource, cause, writes))


def _give(
    scope: Scope, entity_id: str, resource: str, cause: Cause, writes: Callable[[Sequence[View]], Sequence[Write]]
) -> Flow[bool]:
    """All shards in one transaction, decided again where one of them changed its shape."""

    def attempt() -> Flow[tuple[Sequence[Write], Sequence[View]]]:
        views = yield from _read_repaired(scope, BucketId(scope.namespace_id, entity_id, resource))
        return writes(views) if views else (), views

    views = yield from optimistic(cause, attempt)
    for view in views:
        _ask_again(scope, view)
    return bool(views)


def _read_repaired(scope: Scope, bucket: BucketId) -> Flow[Sequence[View]]:
    """Every shard; what is given to one whose anchor a wrong clock has set ahead, its repair would take away."""
    for _ in range(ATTEMPTS):
        [views] = yield from read_whole([bucket])
        now = scope.now()
        ahead = [view for view in views if view.is_ahead(now)]
        if not ahead:
            return views
        for view in ahead:
            yield from repair(view, now)
    raise RaceLost


def _filled(view: View, now_ms: int) -> Update:
    anchor_ms = max(now_ms, view.anchor_ms + 1)
    full: dict[str, int] = {"rf": anchor_ms}
    for name, shape in view.shapes.items():  # full now, where the anchor has to lie ahead
        full[bucket_attributes(name).tk] = shape.ceiling_milli + shape.minted(anchor_ms) - shape.minted(now_ms)
    return Update(key_of(view.item), add={WRITES: ONE_WRITE}, set=full, when=Conditions(equals={"rf": view.anchor_ms}))


def _credited(view: View, credit: Mapping[str, int]) -> Update:
    shapes = {name: view.shapes[name] for name in credit if name in view.shapes}
    add = {bucket_attributes(name).tk: share(credit[name], s.shard, s.shards) for name, s in shapes.items()}
    same = Conditions(exists=("PK", *add), equals={"shard_count": view.shard_count})
    return Update(key_of(view.item), add={**add, WRITES: ONE_WRITE}, when=same)


def _event(scope: Scope, cause: Cause, action: AuditAction, views: Sequence[View], after: Plain) -> Put:
    bucket = bucket_of(views, scope.now())
    before = {"available": bucket.available}
    return event(scope, cause, action, bucket.entity_id, before=before, after=after, resource=bucket.resource)


def _ask_again(scope: Scope, view: View) -> None:
    """Have this process refuse nobody any more by what it last saw of the bucket."""
    shadow = scope.shadows.get(keys.parse_bucket_pk(view.item["PK"])[1:])
    if shadow is not None:
        shadow.seen_at_ms = min(shadow.seen_at_ms, scope.now() - scope.settings.staleness_ms)


def _limits_of(views: Sequence[View]) -> dict[str, Limit]:
    return {name: shape.limit for view in reversed(views) for name, shape in view.shapes.items()}
