"""What calling a function, a ``functools.partial`` or a callable object returns.

As ``inspect`` tells, which takes four milliseconds to import; every program makes a driver, which asks.
"""

from functools import partial
from typing import Final

_COROUTINE: Final = 0x80  # of `co_flags`, as `inspect` has them
_GENERATOR: Final = 0x20 | 0x200  # also one that is async


def is_awaited(called: object) -> bool:
    """Return whether the caller has to await the result."""
    return any(_flags(each) & _COROUTINE or _is_marked(each) for each in _run_by(called))


def yields(called: object) -> bool:
    """Return whether a call only makes a generator."""
    return any(_flags(each) & _GENERATOR for each in _run_by(called))


def _flags(function: object) -> int:
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return flags if isinstance(flags, int) else 0


def _is_marked(function: object) -> bool:
    """Return whether a program has called ``inspect.markcoroutinefunction`` for it."""
    if getattr(function, "_is_coroutine_marker", None) is None:
        return False
    import inspect

    return inspect.iscoroutinefunction(function)


def _run_by(called: object) -> tuple[object, object]:
    while isinstance(called, partial):
        called = called.func
    return called, getattr(type(called), "__call__", None)  # noqa: B004 - not whether it can be called
