"""What lives here: whose usage is asked for and of which windows: the options, and what they come to.
What never does: reading it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..errors import CommandError
from ..times import parse_instant, shown

if TYPE_CHECKING:
    from zae_limiter.usage import Window

Function = TypeVar("Function", bound=Callable[..., Any])

USUALLY_BACK: Final = {"hourly": timedelta(hours=24), "daily": timedelta(days=30)}


@dataclass(frozen=True, slots=True)
class Asked:
    """An entity, a resource, or an entity on a resource; windows that begin from ``start`` on and before ``end``.

    The fields are named as the arguments of core's methods.
    """

    entity_id: str | None
    resource: str | None
    window: "Window"
    start: datetime
    end: datetime | None

    def __str__(self) -> str:
        of = " on ".join(each for each in (self.entity_id, self.resource) if each is not None)
        until = "" if self.end is None else f" until {shown(self.end)}"
        return f"{of}, {self.window}, since {shown(self.start)}{until} UTC"


def asking(function: Function) -> Function:
    """The options that say what is asked for; the command gets ``asked``, an `Asked`."""

    @wraps(function)
    def command(
        *,
        entity: str | None,
        resource: str | None,
        window: "Window",
        since: str | None,
        until: str | None,
        **kwargs: Any,
    ) -> Any:
        _check_subject(entity, resource)
        start, end = _period(window, since, until, datetime.now(UTC))
        return function(asked=Asked(entity, resource, window, start, end), **kwargs)

    options = (
        click.option("--entity", metavar="ID", help="The usage of an entity; with --resource, on that one."),
        click.option("--resource", metavar="NAME", help="The usage of a resource, by all entities."),
        click.option(
            "--window",
            type=click.Choice(["hourly", "daily"]),
            default="hourly",
            show_default=True,
            help="How long each.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="From the window of that time on: 2024-01-31, 2024-01-31T14:00Z, 24h or 7d ago; UTC.  "
            "[default: 24h, for daily windows 30d]",
        ),
        click.option("--until", metavar="TIME", help="Windows that begin before that time.  [default: now]"),
    )
    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]  # click hands it the rest


def _check_subject(entity: str | None, resource: str | None) -> None:
    from zae_limiter.naming import check_identifier, check_resource

    if entity is None and resource is None:
        raise CommandError("whose usage? Pass --entity, --resource, or both")
    if entity is not None:
        check_identifier("--entity", entity)
    if resource is not None:
        check_resource("--resource", resource)


def _period(window: "Window", since: str | None, until: str | None, now: datetime) -> tuple[datetime, datetime | None]:
    from zae_limiter.usage import EARLIEST, window_start

    end = None if until is None else parse_instant("--until", until, now)
    usually = max(EARLIEST, (end or now) - USUALLY_BACK[window])
    start = usually if since is None else parse_instant("--since", since, now)
    if end is not None and start >= end:
        raise CommandError(f"--until {until!r}: must be after --since, which is {shown(start)} UTC")
    return window_start(window, int(start.timestamp() * 1000)), end
