"""How the limits of an acquire stood, for its caller.

Lives here: statuses made of outcomes. Never: the decision itself (batch).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..bucket import Shape, build_limit_status, refill_bucket
from ..limits import MILLI, LimitStatus
from ..schema.items import View
from .lane import Entry
from .sides import Side


def statuses_before(sides: Iterable[Side], now_ms: int) -> list[LimitStatus]:
    """Every limit that was checked, as it stood when this request had taken nothing."""
    return [status for side in sides for status in _before(side, now_ms)]


def statuses_after(sides: Iterable[Side]) -> list[LimitStatus]:
    """Every limit that was taken from, as the write that took left it."""
    latest: dict[tuple[str, str], LimitStatus] = {}
    for side in sides:
        for entry in side.entries:
            if entry.admitted:
                latest |= {(status.entity_id, status.limit_name): status for status in _after(side, entry)}
    return list(latest.values())


def _before(side: Side, now_ms: int) -> Iterator[LimitStatus]:
    outcome = side.last.outcome if side.last is not None else None
    if outcome is None:
        return _statuses(side, side.amounts, side.seen, now_ms, {})
    if outcome.verdict == "admitted":
        left = {name: _balance(side, outcome.view, name, outcome.at_ms) + taken for name, taken in side.amounts.items()}
        return _statuses(side, side.amounts, outcome.view, outcome.at_ms, left)
    return _statuses(side, side.amounts, outcome.view, outcome.at_ms, outcome.left)


def _after(side: Side, entry: Entry) -> Iterator[LimitStatus]:
    outcome = entry.outcome
    if outcome is None:
        return
    balances = {name: _balance(side, outcome.view, name, outcome.at_ms) for name in entry.checked}
    before = {name: balances[name] + taken for name, taken in entry.checked.items()}
    for status in _statuses(side, entry.checked, outcome.view, outcome.at_ms, before):
        yield replace(status, available=balances[status.limit_name] // MILLI)


def _statuses(
    side: Side, amounts: Mapping[str, int], view: View | None, at_ms: int, left: Mapping[str, int]
) -> Iterator[LimitStatus]:
    for name, amount in amounts.items():
        shape = _shape(side, view, name, at_ms)
        balance = left.get(name, _balance(side, view, name, at_ms))
        yield build_limit_status(
            shape,
            balance - shape.minted_since_anchor(at_ms),
            amount,
            at_ms,
            entity_id=side.shadow.id.entity_id,
            resource=side.shadow.id.resource,
        )


def _shape(side: Side, view: View | None, name: str, at_ms: int) -> Shape:
    shape = view.shapes.get(name) if view is not None else None
    return Shape(side.config.by_name[name], at_ms) if shape is None else shape


def _balance(side: Side, view: View | None, name: str, at_ms: int) -> int:
    shape = _shape(side, view, name, at_ms)
    if view is None or name not in view.shapes:
        return shape.ceiling_milli
    return refill_bucket(shape, view.tokens_milli(name), at_ms)
