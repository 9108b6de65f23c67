"""One request at a time: who waits for a thread that asks the store."""

from threading import Lock as Turn

__all__ = ["Turn"]
