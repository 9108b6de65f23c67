"""Show switches, in words for people and as plain values for programs, and set those of a level that entities share."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zae_limiter import Switches, SyncRepository
    from zae_limiter.values import ResolvedSwitches, SetSwitch


def set_shared(
    repository: "SyncRepository", resource: str | None, fields: dict[str, Any], reason: str | None, principal: str
) -> None:
    """Change the switches of a resource, or of the system."""
    if resource is not None:
        repository.set_resource_switches(resource, **fields, reason=reason, principal=principal)
    else:
        repository.set_system_switches(**fields, reason=reason, principal=principal)


def values_of(switches: "Switches") -> tuple[str, str, str]:
    """Return ``disabled``, ``bypass`` and ``cascade`` of a level in words."""
    words = {True: "yes", False: "no", None: "inherit"}
    return words[switches.disabled], words[switches.bypass], switches.cascade or "inherit"


def plain_switches(switches: "Switches") -> dict[str, Any]:
    """Return the switches of a level by name; ``null`` for one that is left to the next level."""
    return asdict(switches)


def plain_resolved(resolved: "ResolvedSwitches | None") -> dict[str, Any]:
    """Return the switches that hold by name, each with its level and reason; ``null`` for one that no level sets."""
    found = {} if resolved is None else asdict(resolved)
    return {name: _without_pattern(found.get(name)) for name in ("disabled", "bypass", "cascade")}


def _without_pattern(switch: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a switch as plain values; with its pattern only where one sets it."""
    return switch and {name: value for name, value in switch.items() if name != "pattern" or value is not None}


def sentences(entity_id: str, resource: str, resolved: "ResolvedSwitches | None") -> list[str]:
    """Return a sentence for each switch that is in force, with the level that sets it and the reason."""
    if resolved is None:
        return []
    found = []
    if resolved.disables and resolved.disabled is not None:
        found.append(f"{entity_id} is disabled on {resource} by {_by(resolved.disabled)}.")
    if resolved.bypasses and resolved.bypass is not None:
        found.append(f"{entity_id} bypasses its limits on {resource} by {_by(resolved.bypass)}.")
    if resolved.cascade is not None:
        does = "cascades" if resolved.cascade.value == "on" else "does not cascade"
        found.append(f"{entity_id} {does} on {resource} by {_by(resolved.cascade)}.")
    return found


def lines_of(resolved: "ResolvedSwitches | None") -> Iterator[str]:
    """Yield a line for each switch that a level sets, whether it is in force or not: its value, level and reason."""
    words = {True: "yes", False: "no"}
    for name in ("disabled", "bypass", "cascade"):
        switch: SetSwitch | None = getattr(resolved, name, None)
        if switch is not None:
            value = switch.value if isinstance(switch.value, str) else words[switch.value]
            yield f"{name}: {value}, by {_by(switch)}"


def _by(switch: "SetSwitch") -> str:
    return f"{switch.setter}{switch.because}"
