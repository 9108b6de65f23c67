"""Who was admitted and refused in the last minutes, by the five minutes that the aggregator counts beside the hour.

Buckets count on and keep no times, and one count before, that of the last batch, is some seconds old: so their counts
alone say nothing of a time that somebody chooses. An hour's snapshot has a count for each five minutes of the clock, in
the write that it gets anyway. So what is shown begins with the five minutes that hold the asked instant.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..columns import say_columns, say_sentence
from ..errors import CommandError
from ..times import both, duration, iso

if TYPE_CHECKING:
    from zae_limiter.maintenance import Span

LONGEST: Final = timedelta(hours=1)


class Lately(NamedTuple):
    """What an entity did on a resource."""

    entity_id: str
    resource: str
    admitted: int
    refused: int


def begin(option: str, since: datetime, now: datetime) -> datetime:
    """Return the begin of the five minutes that hold an instant. Raises ``CommandError`` for one too long ago."""
    from zae_limiter.maintenance import SPAN_MINUTES

    if not now - LONGEST <= since <= now:
        raise CommandError(f"{option}: must be at most 1h ago: --since has whole hours")
    return since.replace(minute=since.minute // SPAN_MINUTES * SPAN_MINUTES, second=0, microsecond=0)


def ranked_lately(spans: "Iterable[Span]", by: str, most: int) -> list[Lately]:
    """Return those with the most of ``by``, ``admitted`` or ``refused``; without those that have none."""
    admitted, refused = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in spans:
        admitted[each.entity_id, each.resource] += each.admitted
        refused[each.entity_id, each.resource] += each.refused
    counts = admitted if by == "admitted" else refused
    found = nsmallest(most, ((-count, place) for place, count in counts.items() if count > 0))
    return [Lately(*place, admitted[place], refused[place]) for _, place in found]


def say_lately(found: Sequence[Lately], start: datetime, now: datetime) -> None:
    """Print a row for each, below the time that it is of."""
    say_sentence(f"From {both(start)} until now, {duration((now - start).total_seconds())}, as far as it is counted:")
    say_columns(
        [
            ("ENTITY", "RESOURCE", "ADMITTED", "REFUSED"),
            *((each.entity_id, each.resource, f"{each.admitted:,}", f"{each.refused:,}") for each in found),
        ]
    )


def plain_lately(found: Sequence[Lately], by: str, start: datetime, now: datetime) -> dict[str, Any]:
    """Return the same as plain values."""
    entities = [
        {
            "entity_id": each.entity_id,
            "resource": each.resource,
            "total_events": each.admitted,
            "total_refused": each.refused,
        }
        for each in found
    ]
    return {"start": iso(start), "end": iso(now), "by": by, "entities": entities}
