"""The Lambda that applies manifests of limits to a table: its handler is ``on_event``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handler import on_event

__all__ = ["on_event"]


def __getattr__(name: str) -> Any:
    if name != "on_event":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .handler import on_event  # on first use: the handler's imports are those of a whole Lambda

    return on_event
