"""Where a caller stands in the line of a bucket: below which child, and what its amounts count for between children."""

from ...rules.registry import price
from ..process.fair_order import OWN, Way
from ..process.waiting_line import Turn
from .claims import Claim
from .requests import AcquireRequest


def take_place(claim: Claim, turn: Turn, request: AcquireRequest) -> None:
    """Wait in the line of a claim's bucket, behind those of the same child; keep a place that exists already."""
    if turn not in claim.cached.line:
        prices = {name: price(claim.config.by_name[name]) for name in claim.checked}
        claim.cached.line.join(turn, claim.checked, _way_from(claim, request), prices)


def _way_from(claim: Claim, request: AcquireRequest) -> Way:
    """Return the entities below a bucket, down to the one that asks; to a draw, that one is one more step."""
    up = (request.entity_id, *claim.path[:-1]) if claim.draw else claim.path[:-1]
    return (*reversed(up), OWN)
