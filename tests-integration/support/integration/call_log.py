"""What lives here: a note of every public method that was called, and of whether it answered or refused.
What never does: which of them have to be called.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from zae_limiter import (
    DrawLease,
    Lease,
    RateLimiter,
    Repository,
    SyncDrawLease,
    SyncLease,
    SyncRateLimiter,
    SyncRepository,
)

from .awaited import Variant

CLASSES: dict[Variant, tuple[type, ...]] = {
    "async": (RateLimiter, Repository, Lease, DrawLease),
    "sync": (SyncRateLimiter, SyncRepository, SyncLease, SyncDrawLease),
}


class CallLog:
    """The methods that answered and those that raised, as ``LimitMethods.get_limits``, by the async class."""

    def __init__(self) -> None:
        self.answered: set[str] = set()
        self.refused: set[str] = set()

    @contextmanager
    def taken(self, method: str) -> Iterator[None]:
        """Note how a call ends."""
        try:
            yield
        except BaseException:
            self.refused.add(method)
            raise
        self.answered.add(method)


def public_methods() -> set[str]:
    """Everything that a user may call or read on a limiter, a repository and a lease."""
    return {_name(inspect.getattr_static(cls, name)) for cls in CLASSES["async"] for name in _public(cls)}


def watch(variant: Variant, patch: pytest.MonkeyPatch) -> CallLog:
    """Take notes of every public method of a variant until ``patch`` is undone."""
    notes = CallLog()
    for cls in CLASSES[variant]:
        for name in _public(cls):
            member = inspect.getattr_static(cls, name)
            patch.setattr(cls, name, _noted(notes, _name(member), member))
    return notes


def _name(member: Any) -> str:
    """The class that defines a method, and its name: what a limiter inherits, it need not be asked for twice."""
    is_property = isinstance(member, property)
    function: Any = member.fget if is_property else inspect.unwrap(getattr(member, "__func__", member))
    return str(function.__qualname__).removeprefix("Sync")


def _public(cls: type) -> list[str]:
    kinds = (property, classmethod, staticmethod)
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("_")}
    return [name for name, member in found.items() if isinstance(member, kinds) or inspect.isfunction(member)]


def _noted(notes: CallLog, method: str, member: Any) -> Any:
    if isinstance(member, property):
        return property(_noted(notes, method, member.fget))
    if isinstance(member, (classmethod, staticmethod)):
        return type(member)(_noted(notes, method, member.__func__))
    return _watched(notes, method, member)


def _watched(notes: CallLog, method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with notes.taken(method):
            return await function(*args, **kwargs)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with notes.taken(method):
            return function(*args, **kwargs)

    return awaited if inspect.iscoroutinefunction(function) else called
