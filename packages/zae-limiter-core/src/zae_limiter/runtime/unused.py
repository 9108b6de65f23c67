"""Warnings about calls that limit nothing."""

import warnings
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Final

Place = tuple[CodeType, int]  # the code and its instruction: a stack for each call would cost more than the call
_RUNS_LATER: Final = (GeneratorType, AsyncGeneratorType, CoroutineType)


def warn_unentered(entity_id: str, resource: str, place: Place) -> None:
    """Warn, at the place of the call, of an acquire whose block nobody entered."""
    code, instruction = place
    lines = (line for begin, end, line in code.co_lines() if begin <= instruction < end)
    problem = f"acquire of {entity_id}/{resource}: nobody entered it, so it limited nothing: use `with` or `async with`"
    warnings.warn_explicit(problem, ResourceWarning, code.co_filename, next(lines) or code.co_firstlineno)


def warn_if_later(answer: object) -> None:
    """Warn of a decorated function that only made a generator or a coroutine: its work comes after the block."""
    if isinstance(answer, _RUNS_LATER):
        kind = type(answer).__name__
        problem = f"the limited function returned a {kind}, which runs after the block: use `acquire` around its work"
        warnings.warn(problem, ResourceWarning, stacklevel=3)
