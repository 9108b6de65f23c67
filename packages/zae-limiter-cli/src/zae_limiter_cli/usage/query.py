"""A query of usage: its subject, and its windows."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ..columns import say_sentence
from ..errors import CommandError
from ..paging import is_asked
from ..times import both, parse_instant

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values.usage import Window

    from ..paging import FetchPage

USUALLY_BACK: Final = {"hourly": timedelta(hours=24), "daily": timedelta(days=30)}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """An entity, a resource, an entity on a resource, or all of a namespace; windows from ``start`` on, before ``end``.
    A pattern in place of the resource chooses from what is read of all.

    The fields are named as the arguments of core's methods.
    """

    entity_id: str | None
    resource: str | None
    window: "Window"
    start: datetime
    end: datetime | None

    def __str__(self) -> str:
        of = " on ".join(each for each in (self.entity_id, self.resource) if each is not None) or "all resources"
        until = "" if self.end is None else f" until {both(self.end)}"
        return f"{of}, {self.window}, since {both(self.start)}{until}"

    def pages(self, repository: "SyncRepository") -> "FetchPage[UsageSnapshot]":
        """Return what fetches a page of the snapshots."""
        asked = asdict(self) | ({"resource": None} if self.is_of_pattern else {})

        def fetch(size: int, following: str | None) -> "tuple[tuple[UsageSnapshot, ...], str | None]":
            page = repository.get_usage_snapshots(**asked, limit=size, next=following)
            return tuple(each for each in page.snapshots if self.has(each.resource)), page.next

        return fetch

    @property
    def is_of_pattern(self) -> bool:
        """Whether it is of the resources that a pattern matches."""
        from zae_limiter.values.patterns import is_pattern

        return self.resource is not None and is_pattern(self.resource)

    @property
    def is_of_many(self) -> bool:
        """Whether it is of more resources than one."""
        return self.resource is None or self.is_of_pattern

    def has(self, resource: str) -> bool:
        """Whether a resource is one of those that are asked for."""
        return is_asked(self.resource, resource)


def usage_query(
    entity: str | None, resource: str | None, window: "Window", since: str | None, until: str | None
) -> UsageQuery:
    """Return the query that the options ask for. Raises ``CommandError`` and ``ValidationError``."""
    entity, resource = _checked(entity, resource)
    start, end = _period(window, since, until, datetime.now(UTC))
    return UsageQuery(entity, resource, window, start, end)


def _checked(entity: str | None, resource: str | None) -> tuple[str | None, str | None]:
    from zae_limiter.values.naming import check_identifier, check_resource

    return (
        None if entity is None else check_identifier("--entity", entity),
        None if resource is None else check_resource("--resource", resource, allow_pattern=True),
    )


def _period(window: "Window", since: str | None, until: str | None, now: datetime) -> tuple[datetime, datetime | None]:
    from zae_limiter.values.usage import EARLIEST, WINDOW_SECONDS, window_start

    zone = UTC if window == "daily" else None  # whose days are those of UTC
    end = None if until is None else parse_instant("--until", until, now, zone)
    usually = max(EARLIEST, (end or now) - USUALLY_BACK[window])
    start = usually if since is None else parse_instant("--since", since, now, zone)
    if end is not None and start >= end:
        raise CommandError(f"--until {until!r}: must be after --since, which is {both(start)}")
    begin = window_start(window, int(start.timestamp() * 1000))
    if since is not None and end is None and now - start < timedelta(seconds=WINDOW_SECONDS[window]):
        unit = "hours" if window == "hourly" else "days"
        live = "`zae-limiter top --for 5m` counts what live buckets do in five minutes from now"
        say_sentence(f"Usage has whole {unit}: this is since {both(begin)}. {live}.", err=True)
    return begin, end
