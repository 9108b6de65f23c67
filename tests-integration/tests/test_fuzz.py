"""What lives here: a few inputs for each surface, and that what is unclean is found, made small and replayed.
What never does: many inputs, which are `just fuzz`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzz import arguments, judging, surfaces
from fuzz.__main__ import as_table
from fuzz.batches import Surface, replay, run_batch
from fuzz.campaign import Findings
from fuzz.judging import Tally, bounded
from support.integration.call_log import public_methods
from zae_limiter import ValidationError


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("name", surfaces.SURFACES)
def test_a_few_inputs_of_each_surface_are_clean(stack: ExitStack, name: str) -> None:
    surface, missing = surfaces.opened(name, stack)
    if surface is None:
        pytest.skip(str(missing))
    batch = run_batch(surface, 17, 3 if name == "cli-process" else 8)
    assert batch.unclean is None, batch.unclean[-3000:]
    assert batch.tally.inputs > 0


def test_every_public_method_is_fed() -> None:
    fed = {
        *arguments.methods(),
        *arguments.OPENING,
        "consume",
        "adjust",
        "settle",
        "release",
        "would_exceed",
        "keep",
        "draw",
    }
    known = {name.split(".")[1] for name in public_methods()}
    properties = {
        "as_called",
        "has_price",
        "consumed",
        "corrected",
        "degraded",
        "draws",
        "entity_id",
        "lost_slots",
        "name",
        "namespace_id",
        "overflowed",
        "overflowed_early",
        "refusal",
        "repeated",
        "resource",
        "shadowed",
        "statuses",
        "waited",
        "weights",
    }
    assert known - fed == properties


def broken(act: Callable[[int], object], *documented: type[Exception]) -> Surface:
    """A surface that fails for what is not below 100."""

    def feed(value: int, tally: Tally) -> None:
        with judging.judging(tally, *documented):
            if value >= 100:
                act(value)

    return Surface(st.integers(0), feed)


def fault(act: Callable[[int], object], *documented: type[Exception]) -> str:
    """What a campaign says of a surface, and of the input that it prints to replay."""
    surface = broken(act, *documented)
    found = run_batch(surface, 1, 200)
    assert found.unclean is not None
    again = replay(surface, found.replay)
    assert again.tally.inputs <= 1
    assert again.unclean is not None
    return again.unclean


def test_an_error_that_is_not_documented_is_found() -> None:
    nothing: dict[int, str] = {}
    told = fault(lambda value: nothing[value])
    assert "Unclean: KeyError: 100\n" in told


def refused(field: str, value: object, problem: str) -> None:
    raise ValidationError(field, value, problem)


def test_a_message_of_two_lines_is_found() -> None:
    assert "is not one printable line" in fault(lambda value: refused("amount", value, "a\nb"), ValidationError)


def test_a_message_without_end_is_found() -> None:
    assert "the message has" in fault(lambda value: refused("amount", value, "x" * 5000), ValidationError)


@pytest.mark.long
def test_an_answer_that_comes_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "CPU_SECONDS", 0.05)

    def slow(_: int) -> None:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass

    assert "Unclean: it took 0.1 s" in fault(slow)


@pytest.mark.parametrize("documented", [(), (OSError,)], ids=["told as unclean", "taken for a refusal"])
def test_an_input_without_an_answer_costs_one_wait(documented: tuple[type[Exception], ...]) -> None:
    waits: list[int] = []

    def stay(value: int) -> None:
        waits.append(value)
        time.sleep(60)

    surface = replace(broken(stay, *documented), answer_seconds=0.2)
    found = run_batch(surface, 1, 200)
    assert len(waits) == 1
    assert found.unclean is not None
    assert "TimeoutError: there was no answer within 0.2 s" in found.unclean
    again = replay(surface, found.replay)
    assert again.unclean is not None
    assert waits == [waits[0]] * 2


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a part of a life")
def test_an_answer_that_takes_much_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PEAK_BYTES", 30_000_000)
    assert "MB\n" in fault(lambda value: str(b"x" * 50_000_000))


def test_what_fits_the_bounds_is_clean() -> None:
    with bounded():
        pass
    assert run_batch(broken(lambda _: None), 1, 50).tally.accepted >= 50


def test_the_table_has_a_line_for_each_surface() -> None:
    lines = as_table({"a": Findings(Tally(3, 4)), "b": Findings(missing="not here: no npm")}).splitlines()
    assert lines[1].split() == ["a", "7", "3", "4", "0"]
    assert lines[2].split(maxsplit=1) == ["b", "not here: no npm"]
