"""Find entities without a call since an instant.

Who was called since is known by the daily windows of the namespace, which have those without a record, too. Of all
others the newest window is read, a query for each resource that they have used. A window in which the instant is may
have a call behind it: its entity is not idle.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ..columns import say_columns
from ..last_call import ends, last_call, plain_last_call
from ..paging import every_row
from .query import UsageQuery

if TYPE_CHECKING:
    from zae_limiter import Entity, SyncRepository, UsageSnapshot
    from zae_limiter.values import KnownEntity

    Only = Callable[[Iterable["Known"]], Iterable["Known"]]

LOOKS_BACK: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Idle:
    """An entity without a call since then, and the newest window with one."""

    entity_id: str
    record: "Entity | None"
    call: "UsageSnapshot | None"


@dataclass(frozen=True, slots=True)
class Known:
    """An entity of the namespace, with its record if it has one."""

    entity_id: str
    record: "Entity | None" = None


def read_idle(repository: "SyncRepository", since: datetime, back_to: datetime | None, only: "Only") -> list[Idle]:
    """Return the entities of the namespace that are idle, those without any call first, then the longest idle.

    ``only`` chooses among all. One that has neither a record nor limits nor a bucket is known by its usage from
    ``back_to`` on.
    """
    from zae_limiter.maintenance import SyncMaintenance

    known, called = dict[str, Known](), set[str]()
    for each in every_row(lambda size, behind: _page(repository, size, behind)):
        known[each.entity_id] = Known(each.entity_id, each.record)
    begin = back_to or min(since, datetime.now(since.tzinfo) - LOOKS_BACK)
    for used in every_row(UsageQuery(None, None, "daily", begin, None).pages(repository)):
        known.setdefault(used.entity_id, Known(used.entity_id))
        if used.total_events and used.window_start >= since:
            called.add(used.entity_id)
    left = [each for each in only(known.values()) if each.entity_id not in called]
    calls = SyncMaintenance(repository).get_last_calls([each.entity_id for each in left])
    found = [Idle(each.entity_id, each.record, calls.get(each.entity_id)) for each in left]
    return sorted((each for each in found if each.call is None or ends(each.call) <= since), key=_rank)


def _page(repository: "SyncRepository", size: int, behind: str | None) -> tuple[Sequence["KnownEntity"], str | None]:
    page = repository.list_entities(limit=size, next=behind)
    return page.entities, page.next


def _rank(each: Idle) -> tuple[float, str]:
    return 0 if each.call is None else ends(each.call).timestamp(), each.entity_id


def say_idle(found: Sequence[Idle]) -> None:
    """Print a row for each entity."""
    names = (each.record.name if each.record is not None and each.record.name else "-" for each in found)
    rows = ((each.entity_id, name, last_call(each.call)) for each, name in zip(found, names, strict=True))
    say_columns([("ENTITY", "NAME", "LAST CALL (UTC)"), *rows])


def plain_idle(each: Idle) -> dict[str, Any]:
    """Return an idle entity as plain values."""
    record = None if each.record is None else asdict(each.record)
    return {"entity_id": each.entity_id, "record": record, "last_call": plain_last_call(each.call)}
