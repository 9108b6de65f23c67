"""Answers of a store, damaged in any way, to every public method, blocking and not."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from hypothesis import strategies as st

from support.core.hostile_calls import CALLS, Variant, filled, lines, trial
from zae_limiter import ZAELimiterError

from ..batches import Surface
from ..judging import Tally, Unclean, check_text, judging

Drawn = tuple[str, Variant, int]


@contextmanager
def opened() -> Iterator[Surface]:
    """A table in this process for each call."""
    items = filled()

    def feed(drawn: Drawn, tally: Tally) -> None:
        name, variant, seed = drawn
        with lines() as logged, judging(tally, ZAELimiterError):
            asyncio.run(trial(items, name, variant, Random(seed)))
        for line in logged:
            check_text(line.getMessage())
            if line.exc_info:
                raise Unclean(f"a line of the log has a traceback: {line.getMessage()}")

    variants = st.sampled_from(["async", "sync"])
    yield Surface(st.tuples(st.sampled_from(sorted(CALLS)), variants, st.integers(0, 2**32)), feed)
