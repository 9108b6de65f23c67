import pytest

from zae_limiter import Limit
from zae_limiter_cli.rates import rate


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1k/sec"), (60, "1k/min"), (3600, "1k/hour"), (86400, "1k/day"), (90, "1k/90s")],
)
def test_a_rate_is_told_as_on_the_command_line_where_that_has_a_word_for_it(seconds: int, text: str) -> None:
    assert rate(Limit.custom("rpm", 1000, refill_period=seconds)) == text
