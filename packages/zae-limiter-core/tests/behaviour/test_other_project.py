"""What code gets that was written for the other project ``zae-limiter``: errors that name what stands for it here."""

import copy
import importlib
import inspect
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


ASKING = ["acquire", "check", "explain", "available", "time_until_available"]


@pytest.mark.parametrize("method", ASKING)
@pytest.mark.parametrize("argument", ["use_stored_limits", "failure_mode"])
async def test_an_acquire_names_what_stands_for_an_argument(method: str, argument: str) -> None:
    named: Any = {argument: True}
    kinds: list[tuple[Any, Any]] = [(RateLimiter, Repository), (SyncRateLimiter, SyncRepository)]
    for kind, over in kinds:
        limiter: Any = kind(over.in_memory())
        asked: dict[str, Any] = {} if method == "available" else {"consume": {"rpm": 1}}
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{method}\(\) got .*'{argument}': the other .* here: "):
            await getattr(limiter, method)("e", "r", **asked, **named)


def test_stored_limits_move_with_their_defaults() -> None:
    limiter: Any = SyncRateLimiter(SyncRepository.in_memory())
    advice = r"leave out both it and `limits`, and pass .* `SyncRateLimiter\(repository, default_limits=…\)`; if False"
    with pytest.raises(TypeError, match=f"{advice}, .* of ancestors too"):
        limiter.acquire("e", "r", {"rpm": 1}, [Limit.per_minute("rpm", 5)], use_stored_limits=True)


def test_limits_of_a_call_hold_for_ancestors() -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.create_entity("project")
    limiter.create_entity("key", parent_id="project", cascade=True)
    limiter.set_limits("project", [Limit.per_minute("rpm", 1)])
    with limiter.acquire("key", "r", {"rpm": 5}, [Limit.per_minute("rpm", 9)]):
        pass
    assert limiter.available("project", "r", [Limit.per_minute("rpm", 9)]) == {"rpm": 4}


def test_a_wait_for_what_is_needed_names_consume() -> None:
    limiter: Any = SyncRateLimiter(SyncRepository.in_memory())
    with pytest.raises(TypeError, match="'needed': the other zae-limiter has it; here: consume"):
        limiter.time_until_available("e", "r", limits=[Limit.per_minute("rpm", 5)], needed={"rpm": 1})
    assert limiter.time_until_available("e", "r", limits=[Limit.per_minute("rpm", 5)]) == 0


@pytest.mark.parametrize(("kind", "over"), [(RateLimiter, Repository), (SyncRateLimiter, SyncRepository)])
def test_a_limiter_says_what_its_repository_has(kind: Any, over: Any) -> None:
    limiter = kind(over.in_memory())
    methods = {name for name, each in inspect.getmembers(over, inspect.isfunction) if name[0] != "_"}
    assert methods > {"get_usage_summary", "get_usage_snapshots", "get_audit_events", "invalidate_config_cache"}
    for name in methods - set(dir(kind)):
        with pytest.raises(AttributeError) as refused:
            getattr(limiter, name)
        said = f"{kind.__name__!r} has no {name!r}: it is on the repository: limiter.repository.{name}"
        assert str(refused.value) == said


@pytest.mark.parametrize("name", ["open", "_store", "namespace_id", "acquir"])
def test_a_limiter_points_to_methods_alone(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^'SyncRateLimiter' object has no attribute '{name}'$"):
        getattr(SyncRateLimiter(SyncRepository.in_memory()), name)
    with pytest.raises(AttributeError, match=f"'{name}'"):
        getattr(object.__new__(SyncRateLimiter), name)  # a half-made one, as `copy` asks it


def test_a_limiter_by_its_name_is_told_how_to_open() -> None:
    named: Any = {"name": "my-app", "region": "eu-west-1"}
    with pytest.raises(TypeError, match=r"`await Repository\.open\(stack=…, .*in tests `Repository\.in_memory\(\)`"):
        RateLimiter(**named)
    with pytest.raises(TypeError, match=r"`SyncRepository\.open\(stack=…, .*in tests `SyncRepository\.in_memory\(\)`"):
        SyncRateLimiter(**named)


def test_a_repository_by_its_name_is_opened() -> None:
    unknown: Any = {"name": "my-app", "region": "eu-west-1"}
    with pytest.raises(TypeError, match=r"opens nothing: use SyncRepository\.open\(stack='my-app'\), .*from-zae"):
        SyncRepository(**unknown)
