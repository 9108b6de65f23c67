"""Warn about calls that limit nothing."""

import warnings
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Final, Protocol

Place = tuple[CodeType, int]  # the code and its instruction: a stack for each call would cost more than the call
_RUNS_LATER: Final = (GeneratorType, AsyncGeneratorType, CoroutineType)


class Asked(Protocol):
    """What a call asks for."""

    @property
    def entity_id(self) -> str: ...

    @property
    def resource(self) -> str: ...


class _Call:
    """A call of ``acquire``: what it asks for, and its place in the code."""

    __slots__ = ("asked", "place")

    def __init__(self, asked: Asked, place: Place) -> None:
        self.asked = asked
        self.place = place

    def enter(self) -> bool:
        """Note that the block is entered; return ``False`` if it was before."""
        return False


class Unentered(_Call):
    """A call of ``acquire`` whose block was not entered: it warns, at the place of the call, when it is collected.

    Once entered it becomes a ``_Call``, which has no ``__del__``: a signal that came in it would be lost.
    """

    __slots__ = ()

    def enter(self) -> bool:
        try:
            del self.place  # one step: of two threads that enter, one finds it
        except AttributeError:
            return False
        self.__class__ = _Call  # type: ignore[assignment]
        return True

    def __del__(self) -> None:
        """Warn of an acquire that limited nothing."""
        if not hasattr(self, "place"):  # a signal came while it was made, or entered
            return
        code, instruction = self.place
        lines = (line for begin, end, line in code.co_lines() if begin <= instruction < end)
        what = f"acquire of {self.asked.entity_id}/{self.asked.resource}"
        problem = f"{what}: it was never entered, so it limited nothing: use `with` or `async with`"
        warnings.warn_explicit(problem, ResourceWarning, code.co_filename, next(lines) or code.co_firstlineno)


def warn_if_later(answer: object) -> None:
    """Warn of a decorated function that only made a generator or a coroutine: its work comes after the block."""
    if isinstance(answer, _RUNS_LATER):
        kind = type(answer).__name__
        problem = f"the limited function returned a {kind}, which runs after the block: use `acquire` around its work"
        warnings.warn(problem, ResourceWarning, stacklevel=3)
