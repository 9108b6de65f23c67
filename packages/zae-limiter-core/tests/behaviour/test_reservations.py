"""What estimates that learn spare: false refusals of the worst case, over-runs of the mean."""

from pathlib import Path

import pytest

from support.core.reservations import MOST, TPM, WAYS, row, run

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "kinds.md"


def test_a_learnt_quantile_refuses_less_than_the_worst_case_and_over_runs_less_than_the_mean() -> None:
    worst, mean, learnt = (
        run(WAYS[name], load=2.5, calls=900)
        for name in ("the worst case, 8,000", "the mean, 600", "what 90 % of the calls used")
    )
    assert (worst.debts, learnt.falsely) == (0, 0)
    assert worst.falsely > 0.6 * worst.calls
    assert 2 * learnt.debts < 1.2 * mean.debts
    assert learnt.above / learnt.admitted < mean.above / mean.admitted
    assert -learnt.deepest < MOST + TPM / 20
    assert learnt.used > 2 * worst.used


@pytest.mark.slow
@pytest.mark.long
def test_the_table_of_the_guide_is_what_the_calls_make() -> None:
    text = GUIDE.read_text("utf-8")
    for name, way in WAYS.items():
        assert row(name, run(way, load=0.7), run(way, load=1.5)) in text
