from dataclasses import replace
from itertools import combinations, product

import pytest

from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config, Level, LevelMode, Resolved, Said, compose, lifted

LEVELS = ("entity", "entity_default", "resource", "system")
RPM, TPM = Limit.per_minute("rpm", 1), Limit.per_minute("tpm", 1)


@pytest.mark.parametrize("set_at", [levels for n in range(1, 5) for levels in combinations(LEVELS, n)], ids=str)
def test_the_first_level_that_has_limits_wins(set_at: tuple[str, ...]) -> None:
    levels = [Level(source, (RPM,) if source in set_at else ()) for source in LEVELS]  # type: ignore[arg-type]
    assert compose(levels).source == set_at[0]


def test_it_wins_as_a_whole() -> None:
    assert compose([Level("entity", (RPM,)), Level("system", (RPM, TPM))]).limits == (RPM,)


def test_where_no_level_has_limits_none_wins() -> None:
    composed = compose([Level(source, ()) for source in LEVELS])  # type: ignore[arg-type]
    assert (composed.source, composed.limits, composed.levels) == (None, (), ())


MODES: tuple[LevelMode | None, ...] = (None, "extends", "unlimited")


@pytest.mark.parametrize("modes", list(product(MODES, repeat=3)), ids=str)
def test_levels_compose_as_the_rule_says(modes: tuple[LevelMode | None, ...]) -> None:
    limits = [(Limit.per_minute("a", 1),), (Limit.per_minute("a", 2), Limit.per_minute("b", 2)), (RPM, TPM)]
    levels = [
        Level(source, () if mode == "unlimited" else of, mode=mode)  # type: ignore[arg-type]
        for source, of, mode in zip(LEVELS, limits, modes, strict=False)
    ]
    expected: dict[str, tuple[str, Limit]] = {}
    for level in levels:
        for limit in level.limits:
            expected.setdefault(limit.name, (level.source, limit))
        if level.mode != "extends":
            break
    composed = compose(levels)
    assert {each.name: (composed.sources[each.name], each) for each in composed.limits} == expected
    assert [each.name for each in composed.limits] == sorted(expected)


def test_an_override_replaces_or_adds() -> None:
    own = Said((TPM,), "extends")
    assert lifted(own, (RPM,), extends=False) == Said((RPM,))
    assert lifted(own, (RPM,), extends=True) == Said((RPM, TPM), "extends")
    assert lifted(Said((TPM,)), (RPM,), extends=True) == Said((RPM, TPM))
    assert lifted(Said(), (RPM,), extends=True) == Said((RPM,), "extends")
    assert lifted(Said((), "unlimited"), (RPM,), extends=True) == Said((RPM,))


def test_a_config_knows_its_limits_by_name() -> None:
    assert Config((RPM, TPM), 5).by_name == {"rpm": RPM, "tpm": TPM}


def test_a_config_read_again_is_later_than_the_instant_it_is_compared_with() -> None:
    config = Config((RPM,), 5, own=True)
    assert config.born_after(4) is config
    assert config.born_after(5) == Config((RPM,), 6, own=True)
    assert config.born_after(90) == Config((RPM,), 91, own=True)


def test_a_shadow_limit_has_the_shape_of_an_enforced_one_and_another_config() -> None:
    """A flip to enforced reshapes no bucket, and reaches whoever compares what was resolved."""
    enforced, shadow = Config((Limit.per_minute("rpm", 9),), 1), Config((Limit.per_minute("rpm", 9, shadow=True),), 1)
    assert (enforced.limits, enforced.shadow, shadow.shadow) == (shadow.limits, frozenset(), frozenset({"rpm"}))
    assert shadow.marked == (Limit.per_minute("rpm", 9, shadow=True),)
    assert shadow.born_after(5).marked == shadow.marked


def test_a_config_has_the_rule_of_a_prefetched_limit() -> None:
    tpm = Limit.per_minute("tpm", 60, prefetch=1)
    config = Config((RPM, tpm), 1)
    assert (config.limits, config.by_name["tpm"]) == ((RPM, tpm._rule), tpm._rule)
    assert (config.prefetch, config.marked) == ({"tpm": 1.0}, (RPM, tpm))
    assert config.born_after(5).marked == config.marked
    assert Config((RPM, tpm), 2).limits is config.limits
    assert replace(config, shadow=frozenset({"tpm"})).marked == (RPM, replace(tpm, shadow=True))


def test_a_config_without_marks_says_what_it_has() -> None:
    config = Config((RPM, TPM), 1)
    assert (config.prefetch, config.declared, config.marked) == ({}, (), (RPM, TPM))


def test_another_prefetch_is_another_config() -> None:
    short, long = Limit.per_minute("tpm", 60, prefetch=0.5), Limit.per_minute("tpm", 60, prefetch=1)
    assert short._rule == long._rule
    first, second = (Resolved(Config((each,), 1), "system", None, (), False, 1, 1) for each in (short, long))
    assert not first.agrees_with(second)
    assert first.agrees_with(replace(first, valid_until_ms=7))
