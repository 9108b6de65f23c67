"""What code gets that was written for the other project ``zae-limiter``: errors that name what stands for it here."""

import copy
import importlib
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import zae_limiter
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.runtime import namesake

PAGE = Path(__file__).parents[4] / namesake.PAGE.partition("/blob/main/")[2]
KINDS: list[Any] = [RateLimiter, SyncRateLimiter]


def test_the_page_of_the_errors_is_there() -> None:
    assert PAGE.read_text("utf-8").startswith("# From the other zae-limiter")


@pytest.mark.parametrize("name", namesake.NAMES)
def test_an_import_says_what_stands_for_it(name: str) -> None:
    with pytest.raises(ImportError, match=f"'{name}' .*: the other zae-limiter has it; here: .*from-zae-limiter"):
        exec(f"from zae_limiter import {name}")
    assert not hasattr(importlib.import_module("zae_limiter.exceptions"), name)


def test_no_name_of_ours_is_among_theirs() -> None:
    assert namesake.NAMES.keys().isdisjoint(zae_limiter.__all__)
    assert namesake.ARGUMENTS.keys().isdisjoint({"repository", "default_limits", "observers", "shadow"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "named",
    [
        {"name": "my-app", "region": "eu-west-1"},
        {"table_name": "rate_limits", "create_stack": True},
        {"repository": None, "failure_mode": "open"},
        {"repository": None, "on_unavailable": "allow"},
    ],
    ids=str,
)
def test_a_limiter_that_opens_its_table_is_refused(kind: Any, named: Mapping[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\(\) got .*: the other zae-limiter has it; here: .*{PAGE.name}"
    ):
        kind(**named)


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_a_stack_is_no_repository(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"needs a repository, not the name of a stack: .*Repository\.open\(stack=…"):
        kind("my-app", "eu-west-1")


def test_a_limiter_of_ones_own_takes_what_it_says() -> None:
    class Mine(SyncRateLimiter):
        def __init__(self, name: str, *, region: str) -> None:
            super().__init__(SyncRepository.in_memory())
            self.told = name, region

    assert Mine("a", region="b").told == ("a", "b")


@pytest.mark.parametrize("argument", ["name", "stack_options", "skip_version_check"])
async def test_opening_names_what_stands_for_an_argument(argument: str) -> None:
    unknown: Any = {argument: 1}
    with pytest.raises(TypeError, match=rf"^SyncRepository\.open\(\) got .*'{argument}': the other zae-limiter has it"):
        SyncRepository.open(**unknown)
    with pytest.raises(TypeError, match=rf"^Repository\.open\(\) got .*'{argument}': the other zae-limiter has it"):
        await Repository.open(**unknown)


@pytest.mark.parametrize("name", ["create_stack", "delete_stack"])
def test_a_repository_deploys_nothing(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'{name}': the other zae-limiter has it; here: .*`zae-limiter de"):
        getattr(SyncRepository.in_memory(), name)


@pytest.mark.parametrize(
    ("make", "here"),
    [
        (lambda: Limit.custom("r", capacity=50, refill_amount=50, refill_period_seconds=30), "refill_period"),  # type: ignore[call-arg]
        (lambda: Limit.per_minute("r", rate=100), "capacity; the ceiling of a bucket is its burst"),  # type: ignore[call-arg]
        (lambda: Limit("r", 10, 5, 60), r"Limit\.custom\(name, capacity"),  # type: ignore[call-arg]
        (lambda: Limit(name="r", capacity=10, refill_amount=5, refill_period_seconds=60), "refill_period"),  # type: ignore[call-arg]
    ],
    ids=["custom", "per_minute", "four", "named"],
)
def test_another_spelling_of_a_limit_is_named(make: Callable[[], object], here: str) -> None:
    with pytest.raises(TypeError, match=f"the other zae-limiter has it; here: {here}"):
        make()


@pytest.mark.parametrize("name", ["refill_rate", "refill_period_seconds"])
def test_another_field_of_a_limit_is_named(name: str) -> None:
    limit = Limit.per_minute("r", 10)
    with pytest.raises(AttributeError, match=f"'{name}': the other zae-limiter has it; here: Limit.refill_"):
        getattr(limit, name)
    assert copy.deepcopy(limit) == pickle.loads(pickle.dumps(limit)) == limit


@pytest.mark.parametrize("argument", ["use_stored_limits", "failure_mode"])
def test_an_acquire_names_what_stands_for_an_argument(argument: str) -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    unknown: Any = {argument: True}
    with pytest.raises(TypeError, match=f"'{argument}': the other zae-limiter has it; here: "):
        limiter.acquire("e", "r", {"rpm": 1}, **unknown)


def test_a_repository_by_its_name_is_opened() -> None:
    unknown: Any = {"name": "my-app", "region": "eu-west-1"}
    with pytest.raises(TypeError, match=r"opens nothing: use SyncRepository\.open\(stack='my-app'\), .*from-zae"):
        SyncRepository(**unknown)
