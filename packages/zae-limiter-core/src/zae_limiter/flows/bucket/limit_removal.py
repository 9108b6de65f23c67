"""Limits that no config names any more: they leave the bucket, where they are full.

Lives here: which may leave and when, and that write. Never: a write that serves somebody (frames).

A limit that comes back starts full. So one may leave only where it is full: whatever it owes, it keeps until that is
paid.
"""

from collections.abc import Collection, Sequence
from typing import Final

from ...exceptions import ValidationError
from ...limits import MAX_LIMITS
from ...operations.errors import ConditionFailed, StoreError
from ...operations.values import Conditions, Get, Update
from ...resolution import Config
from ...schema.items import ONE_WRITE, WRITES, BucketId, View, bucket_attributes
from ...token_bucket import refill_bucket
from ..process.namespace_state import Scope, Shadow, bucket_key
from ..steps import Flow

MAX_IN_BUCKET: Final = 2 * MAX_LIMITS  # those of one config, and as many that others have left behind


class Crowded(StoreError):
    """A bucket has no place for the limits that are new to it; ``problem`` is what its caller is told."""

    def __init__(self, bucket: BucketId, held: int, new: int) -> None:
        place = f"{bucket.entity_id}/{bucket.resource}"
        self.problem = ValidationError(
            "limits",
            place,
            f"its bucket holds {held} limits, and has no place for {new} more: at most {MAX_IN_BUCKET}. Those that no"
            " config names leave when they are full: wait, use fewer names, or call reset_bucket()",
        )
        super().__init__(str(self.problem))


def excess(view: View, config: Config) -> int:
    """By how many limits the bucket would be too full if it had those of the config, too."""
    if len(view.shapes) + len(config.limits) <= MAX_IN_BUCKET:
        return 0
    return max(0, len(view.shapes.keys() | config.by_name.keys()) - MAX_IN_BUCKET)


def leaving(scope: Scope, shadow: Shadow, config: Config | None) -> Sequence[str]:
    """What the config does not name and is full, where the config decides about that.

    It does where it is stored, and no older than the one behind the bucket's shape. Once in a cache life at most, so
    that a limit that a call site gives, and no level has, does not come and go with every write.
    """
    view = shadow.view
    if view is None or config is None or not config.stored or len(view.rows) <= len(config.limits):
        return ()
    now, cv = scope.now(), view.item["cv"]
    if config.read_at_ms < cv or now - cv < scope.settings.config_ttl_ms or view.is_ahead(now):
        return ()
    return full(view, _anchor(view, now), config.by_name) if shadow.agrees_with(config) else ()


def tidy(scope: Scope, shadow: Shadow, config: Config, names: Sequence[str]) -> Flow[None]:
    """Take these out. Where that fails, the next write tries again."""
    assert shadow.view is not None, "only a bucket that was seen has limits"
    try:
        yield from drop(shadow, names, scope.now(), cv=max(config.read_at_ms, shadow.view.item["cv"]))
    except StoreError:
        return


def make_room(shadow: Shadow, config: Config, now_ms: int) -> Flow[bool]:
    """Take out as many as are in the way of the config's; whether that was done. Raises ``Crowded``, ``StoreError``."""
    names = _in_the_way(shadow.view, config, now_ms)
    if names is None:  # by an old copy nobody is refused
        shadow.learn((yield Get(shadow.key)), now_ms, own_writes=0)
        names = _in_the_way(shadow.view, config, now_ms)
    if names is None and shadow.view is not None:
        new = config.by_name.keys() - shadow.view.shapes.keys()
        raise Crowded(shadow.id, len(shadow.view.shapes), len(new))
    if not names or shadow.view is None:
        return False
    return (yield from drop(shadow, names, now_ms, cv=shadow.view.item["cv"]))


def _in_the_way(view: View | None, config: Config, now_ms: int) -> Sequence[str] | None:
    """The limits that are to leave so that there is a place for the config's; ``None`` where there are not enough."""
    missing = 0 if view is None else excess(view, config)
    if view is None or not missing:
        return ()
    names = full(view, _anchor(view, now_ms), config.by_name)
    return names[:missing] if len(names) >= missing else None


def full(view: View, at_ms: int, named: Collection[str]) -> list[str]:
    """The limits that are not named and are at their ceiling at an instant, by name."""
    others = sorted(view.shapes.keys() - named)
    return [name for name in others if _is_full(view, name, at_ms)]


def drop(shadow: Shadow, names: Sequence[str], now_ms: int, *, cv: int) -> Flow[bool]:
    """The write; ``False`` where another one came first."""
    view = shadow.view
    assert view is not None, "only a bucket that was seen has limits"
    try:
        item = yield dropped(view, names, _anchor(view, now_ms), cv=cv)
    except ConditionFailed as failure:
        shadow.learn(failure.item, now_ms, own_writes=0)
        return False
    shadow.learn(item, now_ms, own_writes=1)
    return True


def dropped(view: View, names: Collection[str], at_ms: int, *, cv: int) -> Update:
    """The bucket without these limits, if they are full at ``at_ms``; what the others have stays as it is.

    The anchor moves, so that every write that was decided by the limits before it fails, and is decided again. The
    balances of the others are expressed for it, by what is minted until then.
    """
    add, least = {WRITES: ONE_WRITE}, {}
    gone: list[str] = []
    for name, shape in view.shapes.items():
        at, minted = bucket_attributes(name), shape.minted_since_anchor(at_ms)
        if name in names:
            least[at.tk] = shape.ceiling_milli - minted
            gone += [attribute for attribute in at if attribute in view.item]
        elif minted:
            add[at.tk] = minted
    when = Conditions(equals={"rf": view.anchor_ms}, at_least=least)
    return Update(bucket_key(view.id), add, {"rf": at_ms, "cv": cv}, tuple(gone), when)


def _is_full(view: View, name: str, at_ms: int) -> bool:
    shape = view.shapes[name]
    return refill_bucket(shape, view.tokens_milli(name), at_ms) >= shape.ceiling_milli


def _anchor(view: View, now_ms: int) -> int:
    return max(now_ms, view.anchor_ms + 1)
