"""What calling a function, a ``functools.partial`` or a callable object returns."""

from functools import partial


def is_awaited(called: object) -> bool:
    """Return whether the caller has to await the result."""
    import inspect

    return any(map(inspect.iscoroutinefunction, _run_by(called)))


def yields(called: object) -> bool:
    """Return whether a call only makes a generator."""
    import inspect

    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in _run_by(called))


def _run_by(called: object) -> tuple[object, object]:
    while isinstance(called, partial):
        called = called.func
    return called, getattr(type(called), "__call__", None)  # noqa: B004 - not whether it can be called
