"""The surfaces by name, each in a file of its own, which is imported when it is opened."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Final

from support.integration.fetch import Unavailable

from ..batches import Opened, Surface

SURFACES: Final[Mapping[str, str]] = {
    "library": "library:in_memory",
    "library-dynoxide": "library:on_dynoxide",
    "answers": "answers:opened",
    "values": "values:opened",
    "estimates": "estimates:opened",
    "manifest": "manifest:opened",
    "plan-files": "plan_files:opened",
    "provisioner": "provisioner:opened",
    "stack-events": "stack_events:opened",
    "aggregator": "aggregator:opened",
    "cli": "cli:in_process",
    "cli-process": "cli:in_a_process",
}


def opened(name: str, stack: ExitStack) -> tuple[Surface | None, str | None]:
    """The surface until ``stack`` ends, or why this machine has it not."""
    try:
        return stack.enter_context(_opener(name)()), None
    except Unavailable as reason:
        return None, f"not here: {reason}"


def _opener(name: str) -> Opened:
    module, _, function = SURFACES[name].partition(":")
    found: Callable[..., Opened] | Opened = getattr(import_module(f"{__name__}.{module}"), function)
    return found  # type: ignore[return-value]
