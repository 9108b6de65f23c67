"""Deliberate faults, to prove that the simulation finds them.

Lives here: requests made wrong on their way. Never: a fault that can leave this package.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

from zae_limiter.flows.lane import Entry
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.values import NOTHING, Operation, Update

from .kernel import Violation
from .world import Tamper, honest, simulate


def _tokens(amounts: Mapping[str, Any]) -> list[str]:
    return [name for name in amounts if name.endswith("_tk")]


def no_upper_bound(operation: Operation) -> Operation:
    """An ADD does not ask whether the bucket is below its ceiling."""
    if isinstance(operation, Update) and not operation.when.absent:
        return operation._replace(when=operation.when._replace(at_most=NOTHING))
    return operation


def no_lower_bound(operation: Operation) -> Operation:
    """An ADD does not ask whether the tokens are there."""
    if isinstance(operation, Update) and _tokens(operation.add):
        kept = {name: least for name, least in operation.when.at_least.items() if name not in operation.add}
        return operation._replace(when=operation.when._replace(at_least=kept))
    return operation


def no_anchor(operation: Operation) -> Operation:
    """A write does not ask whether the shape is the one it was made for."""
    if isinstance(operation, Update):
        return operation._replace(when=operation.when._replace(equals=NOTHING))
    return operation


def give_back_to_nobody(operation: Operation) -> Operation:
    """A give-back does not ask whether the bucket is still there."""
    if isinstance(operation, Update):
        return operation._replace(when=operation.when._replace(exists=()))
    return operation


def overflow_credited(operation: Operation) -> Operation:
    """A SET credits what the ceiling cuts off."""
    if isinstance(operation, Update) and _tokens(operation.set):
        paid = {name: operation.set[name] + 1 for name in _tokens(operation.set)}
        return operation._replace(set={**operation.set, **paid})
    return operation


def _taken_or_not(entry: Entry) -> bool:
    verdicts = ("admitted", "failed")
    return entry.outcome is not None and entry.outcome.verdict in verdicts and not entry.returned


def give_back_unconfirmed() -> AbstractContextManager[Any]:
    """A write whose answer was lost is given back."""
    return patch.object(Entry, "admitted", property(_taken_or_not))


def _forget(entries: Iterable[Entry], *, events: int) -> Flow[None]:
    for entry in entries:
        if entry.admitted:
            entry.give_back(events=events)
    yield from ()


def skip_compensation() -> AbstractContextManager[Any]:
    """The side that was taken from keeps its loss when the other side refuses."""
    return patch("zae_limiter.flows.acquire.take_back", _forget)


TAMPERS: tuple[Tamper, ...] = (
    no_upper_bound,
    no_lower_bound,
    no_anchor,
    give_back_to_nobody,
    overflow_credited,
)
PATCHES: tuple[Callable[[], AbstractContextManager[Any]], ...] = (give_back_unconfirmed, skip_compensation)


def killer(tamper: Tamper, fault: Callable[[], AbstractContextManager[Any]], *, seeds: range) -> tuple[int, str]:
    """The first seed that finds the fault, and what it saw. Raises ``LookupError`` where none does."""
    for seed in seeds:
        with fault():
            finding = finding_of(seed, tamper)
        if finding and not finding_of(seed, honest):
            return seed, finding
    raise LookupError("no history found the fault")


def finding_of(seed: int, tamper: Tamper) -> str:
    """What the history of a seed does wrong, if anything."""
    try:
        simulate(seed, tamper=tamper)
    except Violation as violation:
        return str(violation.__cause__)
    return ""


def kill_all(seeds: range) -> dict[str, tuple[int, str]]:
    """Every mutant, and who killed it."""
    killed = {tamper.__name__: killer(tamper, nullcontext, seeds=seeds) for tamper in TAMPERS}
    return killed | {fault.__name__: killer(honest, fault, seeds=seeds) for fault in PATCHES}
