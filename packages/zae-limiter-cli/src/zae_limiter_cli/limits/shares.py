"""Propose shares of the regions by what their callers have asked for, within bounds.

What a region asks for is what it admitted and what it refused: admitted calls alone would never show that a share is
too small. Retries of refused callers count as well, so one run moves a share by a step at most, and no region goes
below a least share, from which it could not show that it needs more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from zae_limiter_manifest.shares import WHOLE, parts_of, write_share

from ..connection import Connection
from ..errors import CommandError
from ..paging import open_namespace

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

_ALL: Final = parts_of(WHOLE)
_PERCENT: Final = parts_of("1%")


@dataclass(frozen=True, slots=True)
class Region:
    """A region with its share, what its callers asked for, and the share that it should have: in parts of the whole."""

    name: str
    share: int
    asked: int
    proposed: int = 0


def propose(regions: Sequence[Region], *, least: int, step: int) -> list[Region]:
    """Return the regions with proposed shares, which add up to at most the whole.

    No share moves by more than a step, unless those of now add up to more than the whole. Raises ``CommandError`` if
    the regions are too many for their least shares.
    """
    if least * len(regions) > _ALL:
        raise CommandError(f"--least {write_share(least)}: {len(regions)} regions would have more than the whole")
    total = sum(each.asked for each in regions)
    free = _ALL - least * len(regions)
    if not total:
        aims = [min(each.share, _ALL) for each in regions]
    else:
        aims = [least + free * each.asked // total for each in regions]
    if sum(aims) > _ALL:  # no region was asked for anything, and together they have more than the whole
        aims = [_ALL // len(regions)] * len(regions)
    found = [_moved(each.share, aim, step) for each, aim in zip(regions, aims, strict=True)]
    over = sum(found) - _ALL
    for floor in ([each.share for each in regions], aims):  # first no region goes up, then none stays above its aim
        for place, least_here in enumerate(floor):
            taken = max(0, min(over, found[place] - least_here))
            found[place] -= taken
            over -= taken
    return [replace(each, proposed=new) for each, new in zip(regions, found, strict=True)]


def _moved(share: int, aim: int, step: int) -> int:
    """Return a share that has moved towards its aim; not by less than a percent, for which no apply is worth it."""
    return share if abs(aim - share) < _PERCENT else max(share - step, min(share + step, aim))


def look_at(connection: Connection, namespaces: Sequence[str], since: datetime, limit: str | None) -> Region:
    """Return a region as it is: its share, and what callers of the namespaces asked for since the hour of a time.

    Without a ``limit``, these are acquires, admitted or refused; else tokens of that limit. Raises ``CommandError`` if
    the namespaces have several shares.
    """
    from zae_limiter.maintenance import SyncMaintenance

    start = since.replace(minute=0, second=0, microsecond=0)
    shares, asked = set[str](), 0
    for namespace in namespaces:
        with open_namespace(connection, namespace) as repository:
            shares.add(SyncMaintenance(repository).get_provisioner_state().share or WHOLE)
            asked += _asked(repository, start, limit)
    name = str(connection.session.region_name)
    if len(shares) > 1:
        told = ", ".join(sorted(shares))
        raise CommandError(f"{name}: the namespaces have several shares ({told}): choose one with --namespace")
    return Region(name, parts_of(shares.pop()), asked)


def _asked(repository: "SyncRepository", start: datetime, limit: str | None) -> int:
    found = repository.get_usage_summary(start=start)
    if limit is None:
        return found.total_events + found.total_refused
    return sum(max(0, each.total) for each in found.limits if each.limit_name == limit)


def in_order(regions: Sequence[Region]) -> list[Region]:
    """Return the regions whose share moves, those first that get less: so the sum is never above the whole."""
    return sorted(
        (each for each in regions if each.proposed != each.share), key=lambda each: each.proposed - each.share
    )
