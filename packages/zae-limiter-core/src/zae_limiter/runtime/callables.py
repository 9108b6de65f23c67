"""What a call gives: that of a function, of a ``functools.partial``, or of an object whose class has ``__call__``."""

import inspect
from functools import partial


def is_awaited(called: object) -> bool:
    """Whether its result has to be awaited."""
    return any(map(inspect.iscoroutinefunction, _run_by(called)))


def yields(called: object) -> bool:
    """Whether it only makes a generator."""
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in _run_by(called))


def _run_by(called: object) -> tuple[object, object]:
    while isinstance(called, partial):
        called = called.func
    return called, getattr(type(called), "__call__", None)  # noqa: B004 - not whether it can be called
