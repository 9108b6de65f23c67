from itertools import combinations

import pytest

from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config, Level, winner

LEVELS = ("entity", "entity_default", "resource", "system")
RPM, TPM = Limit.per_minute("rpm", 1), Limit.per_minute("tpm", 1)


@pytest.mark.parametrize("set_at", [levels for n in range(1, 5) for levels in combinations(LEVELS, n)], ids=str)
def test_the_first_level_that_has_limits_wins(set_at: tuple[str, ...]) -> None:
    levels = [Level(source, (RPM,) if source in set_at else ()) for source in LEVELS]  # type: ignore[arg-type]
    won = winner(levels)
    assert won is not None
    assert won.source == set_at[0]


def test_it_wins_as_a_whole() -> None:
    won = winner([Level("entity", (RPM,)), Level("system", (RPM, TPM))])
    assert won is not None
    assert won.limits == (RPM,)


def test_where_no_level_has_limits_none_wins() -> None:
    assert winner([Level(source, ()) for source in LEVELS]) is None  # type: ignore[arg-type]


def test_a_config_knows_its_limits_by_name() -> None:
    assert Config((RPM, TPM), 5).by_name == {"rpm": RPM, "tpm": TPM}


def test_a_config_read_again_is_later_than_the_instant_it_is_compared_with() -> None:
    config = Config((RPM,), 5, own=True)
    assert config.read_again_after(4) is config
    assert config.read_again_after(5) == Config((RPM,), 6, own=True)
    assert config.read_again_after(90) == Config((RPM,), 91, own=True)


def test_a_shadow_limit_has_the_shape_of_an_enforced_one_and_another_config() -> None:
    """A flip to enforced reshapes no bucket, and reaches whoever compares what was resolved."""
    enforced, shadow = Config((Limit.per_minute("rpm", 9),), 1), Config((Limit.per_minute("rpm", 9, shadow=True),), 1)
    assert (enforced.limits, enforced.shadow, shadow.shadow) == (shadow.limits, frozenset(), frozenset({"rpm"}))
    assert shadow.marked == (Limit.per_minute("rpm", 9, shadow=True),)
    assert shadow.read_again_after(5).marked == shadow.marked
