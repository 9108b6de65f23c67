"""When an entity was last called, as far as usage says: within an hour, or within a day where hours are gone."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from .times import iso, shown

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

_NAMES: Final = {"hourly": "hour", "daily": "day"}


def last_call(call: "UsageSnapshot | None") -> str:
    """Return it for people, in UTC: `within the hour of 2026-01-31 14:00`."""
    if call is None:
        return "never"
    at = shown(call.window_start)
    return f"within the {_NAMES[call.window]} of {at if call.window == 'hourly' else at[:10]}"


def plain_last_call(call: "UsageSnapshot | None") -> dict[str, Any] | None:
    """Return it for programs."""
    if call is None:
        return None
    return {"resource": call.resource, "window": call.window, "window_start": iso(call.window_start)}


def ends(call: "UsageSnapshot") -> datetime:
    """Return the instant before which the call was."""
    from zae_limiter.values.usage import WINDOW_SECONDS

    return call.window_start + timedelta(seconds=WINDOW_SECONDS[call.window])
