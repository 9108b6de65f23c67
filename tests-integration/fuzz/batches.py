"""A batch of random input for one surface, and its replay.

Lives here: hypothesis, which draws input, makes a failing one small, and packs it as text to be replayed.
"""

import ast
import re
import signal
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, reproduce_failure, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.strategies import SearchStrategy

from .judging import Tally

ANSWER_SECONDS = 300  # by the clock of the wall, on a machine that may be busy
LONGEST_NOTE = 1_500
_BLOB = re.compile(r"@reproduce_failure\('([^']*)', (b'[^']*'|b\"[^\"]*\")\)")

engine.MAX_SHRINKING_SECONDS = 20  # it has no setting for that; five minutes are too long for a campaign of one


@dataclass(frozen=True)
class Surface:
    """Input, and what takes one: it counts the outcomes, and raises `Unclean`. It has so long for one of them."""

    inputs: SearchStrategy[Any]
    feed: Callable[[Any, Tally], None]
    answer_seconds: float = ANSWER_SECONDS


Opened = Callable[[], AbstractContextManager[Surface]]


@dataclass
class Batch:
    """What became of a batch."""

    tally: Tally = field(default_factory=Tally)
    unclean: str | None = None
    replay: str = ""


def run_batch(surface: Surface, number: int, size: int) -> Batch:
    """Feed so much random input, until some is unclean."""
    return _run(surface, lambda test: seed(number)(settings(_settings(), max_examples=size)(test)))


def replay(surface: Surface, packed: str) -> Batch:
    """Feed one input, as `Batch.replay` has it: the version of hypothesis, a colon, and the input."""
    version, _, blob = packed.partition(":")
    return _run(surface, lambda test: reproduce_failure(version, blob.encode())(_settings()(test)))


def _settings() -> settings:
    phases = [Phase.generate, Phase.shrink]
    return settings(
        database=None,
        deadline=None,
        phases=phases,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )


def _run(surface: Surface, decorated: Callable[[Any], Any]) -> Batch:
    batch = Batch()
    timed = _Timed(surface, batch.tally)
    before = signal.signal(signal.SIGALRM, timed.ring)
    try:
        decorated(given(surface.inputs)(timed.feed))()
    except Exception as error:  # noqa: BLE001  whatever it is: it is a finding
        notes = "\n".join(getattr(error, "__notes__", []))
        batch.unclean = f"{_told(error)}\n{'' if notes.startswith('while generating') else notes[:LONGEST_NOTE]}"
        found = _BLOB.search(notes)
        batch.replay = f"{found[1]}:{ast.literal_eval(found[2]).decode()}" if found else ""
    finally:
        signal.signal(signal.SIGALRM, before)
    return batch


class _Timed:
    """What feeds a surface until an input takes too long. That one fails again at once, without another wait, where
    hypothesis asks for it again; others pass, so that it is told as it is.
    """

    def __init__(self, surface: Surface, tally: Tally) -> None:
        self._surface = surface
        self._tally = tally
        self._rang = False
        self._late: str | None = None

    def feed(self, value: Any) -> None:
        if self._late is None:
            self._feed(value)
        if self._late == repr(value):  # from one place: hypothesis takes errors of several places for several faults
            raise self._no_answer()

    def _feed(self, value: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._surface.answer_seconds)
        try:
            self._surface.feed(value, self._tally)
        except Exception:
            if not self._rang:
                raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._rang:  # also where the surface took the alarm for a refusal
            self._late = repr(value)

    def ring(self, _: int, __: FrameType | None) -> None:
        self._rang = True
        raise self._no_answer()

    def _no_answer(self) -> TimeoutError:
        return TimeoutError(f"there was no answer within {self._surface.answer_seconds:g} s")


def _told(error: BaseException) -> str:
    """The error with its causes, each with the last places it came from, the input not repeated."""
    before = error.__cause__ or error.__context__
    places = "".join(traceback.format_tb(error.__traceback__, limit=-3))
    above = f"{_told(before)}\n" if before is not None else ""
    return f"{above}{places}{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_NOTE]
    except Exception as fault:  # noqa: BLE001  that is a finding, too
        return f"(no text: {type(fault).__name__})"
