"""How the limits of an acquire stood, for its caller.

Lives here: statuses made of outcomes, and of several shards as one. Never: the decision itself (batch, spread).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...limits import MILLI, LimitStatus
from ...operations.values import NOTHING
from ...schema.items import View
from ...sharding import Part, calculate_balance, calculate_wait, full_part, unseen_parts
from ..process.bucket_queue import Outcome
from ..process.namespace_state import Scope
from .claims import Side

ONE_MILLISECOND = 0.001


def statuses_before(sides: Iterable[Side], now_ms: int) -> list[LimitStatus]:
    """Every limit that was checked, as it stood when this request had taken nothing."""
    return [status for side in sides for status in _contended(side, _before(side, now_ms))]


def statuses_after(scope: Scope, sides: Iterable[Side]) -> list[LimitStatus]:
    """Every limit that was taken from, as the last write that took left it; other shards as they were seen last."""
    return [status for side in sides for status in _after(scope, side)]


def _before(side: Side, now_ms: int) -> list[LimitStatus]:
    outcome = side.last[0].outcome if side.last else None
    if outcome is None or side.seen:
        return _statuses(side, side.amounts, side.seen, now_ms)
    left = outcome.left
    if outcome.verdict == "admitted":
        left = {name: _balance(side, outcome, name) + taken for name, taken in side.amounts.items()}
    return _statuses(side, side.amounts, _views(outcome), outcome.at_ms, left=left)


def _balance(side: Side, outcome: Outcome, name: str) -> int:
    return calculate_balance(_parts(side, _views(outcome), name, outcome.at_ms), outcome.at_ms)


def _contended(side: Side, statuses: list[LimitStatus]) -> list[LimitStatus]:
    """All limits as exceeded where a request of several shards lost every race for what there is."""
    if not (side.refused and _was_split(side)) or any(status.exceeded for status in statuses):
        return statuses
    return [replace(status, exceeded=True, retry_after_seconds=ONE_MILLISECOND) for status in statuses]


def _was_split(side: Side) -> bool:
    """Whether the bucket has several shards, or had when it refused: it may be gone since."""
    return side.is_split or any(
        view.shard_count > 1 for entry in side.last if entry.outcome for view in _views(entry.outcome)
    )


def _after(scope: Scope, side: Side) -> list[LimitStatus]:
    entries = [entry for entry in side.entries if entry.admitted and entry.outcome is not None and entry.checked]
    if not entries:
        return []
    views = {view.id.shard: view for view in scope.views(side.shadow)} if side.is_split else {}
    amounts: dict[str, int] = {}
    at_ms = 0
    for entry in entries:
        assert entry.outcome is not None, "what is admitted has an outcome"
        at_ms = max(at_ms, entry.outcome.at_ms)
        views |= {view.id.shard: view for view in _views(entry.outcome)}
        amounts |= {name: amounts.get(name, 0) + amount for name, amount in entry.checked.items()}
    statuses = _statuses(side, amounts, [*views.values()], at_ms, count_unseen=False)
    return [replace(status, exceeded=False, retry_after_seconds=0.0) for status in statuses]


def _views(outcome: Outcome) -> Sequence[View]:
    return () if outcome.view is None else (outcome.view,)


def _statuses(
    side: Side,
    amounts: Mapping[str, int],
    views: Sequence[View],
    at_ms: int,
    *,
    left: Mapping[str, int] = NOTHING,
    count_unseen: bool = True,
) -> list[LimitStatus]:
    statuses = []
    for name, amount in amounts.items():
        parts = _parts(side, views, name, at_ms, count_unseen=count_unseen)
        if name in left and len(parts) == 1:  # what the only shard held for this request, others served
            parts = [Part(shape, left[name] - shape.minted_since_anchor(at_ms)) for shape, _ in parts]
        wait = calculate_wait(parts, amount, at_ms)
        statuses.append(
            LimitStatus(
                entity_id=side.shadow.id.entity_id,
                resource=side.shadow.id.resource,
                limit_name=name,
                limit=parts[0].shape.limit,
                available=calculate_balance(parts, at_ms) // MILLI,
                requested=amount // MILLI,
                exceeded=wait > 0,
                retry_after_seconds=wait,
            )
        )
    return statuses


def _parts(side: Side, views: Sequence[View], name: str, at_ms: int, *, count_unseen: bool = True) -> list[Part]:
    """The limit on each shard; full where it is new to one, and where there is no bucket.

    A shard that was not seen counts as full to who is refused: he is not told "never" for it. To others it counts not.
    """
    seen = [view.repaired(at_ms) for view in views]
    counts = {view.id.shard: view.shard_count for view in seen}
    limit = side.config.by_name[name]
    parts = [view.part(limit, at_ms) for view in seen]
    if count_unseen:
        parts += unseen_parts(limit, at_ms, counts)
    return parts or [full_part(limit, at_ms)]
