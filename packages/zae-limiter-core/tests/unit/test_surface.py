"""How much of the library a user sees: names at the top, and where the others are."""

import ast
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import zae_limiter
from zae_limiter import (
    Limit,
    RateLimiter,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    exceptions,
    maintenance,
    values,
)

MOST_TOP_NAMES = 45
MOST_OF_THE_REPOSITORY = 64
OF_THE_LIMITER = {
    "acquire",
    "available",
    "budget",
    "check",
    "close",
    "estimate",
    "explain",
    "limit",
    "time_until_available",
}
OF_BOTH = {
    *("create_entity", "get_entity", "delete_entity", "get_children"),
    *(
        f"{verb}_{what}"
        for verb in ("set", "get", "delete")
        for what in ("limits", "resource_defaults", "system_defaults")
    ),
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_top_has_few_names() -> None:
    assert len(zae_limiter.__all__) <= MOST_TOP_NAMES


@pytest.mark.parametrize(("limiter", "repository"), [(RateLimiter, Repository), (SyncRateLimiter, SyncRepository)])
def test_a_method_has_one_home(limiter: type, repository: type) -> None:
    assert public(limiter) == OF_THE_LIMITER | OF_BOTH
    assert public(limiter) & public(repository) == OF_BOTH | {"close"}
    assert len(public(repository)) <= MOST_OF_THE_REPOSITORY
    for name in OF_BOTH:
        assert getattr(limiter, name) is getattr(repository, name)


def test_a_limit_shows_no_internals() -> None:
    shown = public(Limit) - {each.name for each in fields(Limit)}
    assert shown == {
        *("blocks", "during", "from_dict", "parse", "text", "to_dict", "usable_burst", "weigh"),
        *("per_second", "per_minute", "per_hour", "per_day", "per_week", "per_month", "per_year"),
        *("concurrent", "custom", "money", "quota", "show", "total"),
    }


def test_every_exception_is_in_the_module_of_exceptions() -> None:
    def tree(root: type[Exception]) -> set[str]:
        return {root.__name__}.union(*(tree(each) for each in root.__subclasses__()))

    ours = {each for each in tree(zae_limiter.ZAELimiterError) if not each.startswith("_")}
    here = {each for each in ours if getattr(exceptions, each, None) is not None}
    assert {*exceptions.__all__} == here
    assert {"RateLimitExceeded", "AccessDisabled", "ValidationError"} <= here


@pytest.mark.parametrize("module", [zae_limiter, exceptions, maintenance, values])
def test_a_type_checker_sees_every_name(module: ModuleType) -> None:
    """It reads what is defined, and what is imported for it."""
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    imported = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    seen = {alias.asname for each in imported for alias in each.names}
    seen |= {each.name for each in tree.body if isinstance(each, ast.ClassDef)}
    assert {*module.__all__} <= seen


@pytest.mark.parametrize("module", [exceptions, maintenance, values])
def test_every_name_of_a_door_is_there(module: ModuleType) -> None:
    for name in module.__all__:
        assert hasattr(module, name)
        assert name in dir(module)
    with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'Nothing'"):
        _ = module.Nothing
