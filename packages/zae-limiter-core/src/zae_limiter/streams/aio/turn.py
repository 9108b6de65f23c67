"""One request at a time: who waits for a task that asks the store."""

from asyncio import Lock as Turn

__all__ = ["Turn"]
