"""Today's verdict: whether calls are refused now, of whom, and by which limit most of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..columns import counted
from .rows import Place, Row


@dataclass(frozen=True, slots=True)
class Verdict:
    """``trouble``: calls are refused now. ``text`` says it, ``worst`` is the limit that refuses most of them, and
    ``more`` what else there is to know. ``at``: the limit's bucket, if that was read.
    """

    trouble: bool
    text: str
    worst: str = ""
    more: str = ""
    at: Place | None = None


def verdict_of(rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the rows of a reading."""
    refusing = {Place(row.blocked_by.rpartition("/")[0], row.place.resource) for row in rows if row.blocked_by}
    refused = [row for row in rows if (row.refused_per_minute or row.barred) and row.place not in refusing]
    empty = [row for row in rows if row.is_empty]
    hours = sum(row.refused for row in rows if row.place not in refusing)
    lately = f"{hours:,} refused in this hour and the one before" if hours else ""
    if not refused:
        more = [f"{counted(len(empty), 'bucket')} of {len(rows):,} empty" if empty else "", lately]
        return Verdict(False, "No call is refused now.", more="; ".join(filter(None, more)))
    limits = [
        (row.blocked_by, row.blocked_at) if row.blocked_by else (f"{row.place.entity_id}/{row.limit}", row.place)
        for row in refused
    ]
    ((worst, at), _), *_ = Counter(limits).most_common(1)
    entities = len({row.place.entity_id for row in refused})
    who = refused[0].place.entity_id if entities == 1 else f"{entities:,} entities"
    return Verdict(True, f"Calls of {who} are refused now, most by", worst, lately, at)
