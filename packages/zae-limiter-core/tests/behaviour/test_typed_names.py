"""Names and texts that users type from other pages, other libraries and habit: they work, or say what does."""

import json
import pickle
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import zae_limiter
from zae_limiter import (
    Limit,
    OnUnavailable,
    Options,
    RateLimiter,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
    exceptions,
    schema,
)
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.stores import MemoryStore

TABLE_PAGE = Path(__file__).parents[4] / "docs" / "design" / "table.md"
RPM = Limit.per_minute("rpm", 100)
TEXTS: list[Limit | str] = ["rpm: 100/min", Limit.per_day("tpd", 5000)]


def test_every_exception_is_in_the_module_of_exceptions() -> None:
    names = [name for name in zae_limiter.__all__ if isinstance(getattr(zae_limiter, name), type)]
    errors = [name for name in names if issubclass(getattr(zae_limiter, name), Exception)]
    assert {"RateLimitExceeded", "AccessDisabled", "ValidationError"} <= {*errors}
    for name in errors:
        assert getattr(exceptions, name) is getattr(zae_limiter, name)
    with pytest.raises(AttributeError, match="has no attribute 'RateLimitExceded'"):
        _ = exceptions.RateLimitExceded  # type: ignore[attr-defined]  # that is the mistake


def test_the_public_keys_are_those_that_the_page_of_the_table_lists() -> None:
    section = TABLE_PAGE.read_text(encoding="utf-8").partition("## Keys in Python")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == {*schema.__all__}
    for name in schema.__all__:
        assert hasattr(schema, name)


async def test_a_policy_is_a_member_or_its_text() -> None:
    assert [*map(str, OnUnavailable)] == ["block", "allow", "share"]
    assert (OnUnavailable.ALLOW, {OnUnavailable.BLOCK: 1}["block"], json.dumps(OnUnavailable.SHARE)) == (  # type: ignore[index]
        "allow",
        1,
        '"share"',
    )
    repository = Repository.in_memory(on_unavailable=OnUnavailable.ALLOW)
    await repository.set_system_defaults([RPM], on_unavailable=OnUnavailable.SHARE)
    _, policy = await repository.get_system_defaults()
    assert policy is OnUnavailable.SHARE
    limiter = RateLimiter(repository)
    async with limiter.acquire("ann", "api", {"rpm": 1}, on_unavailable=OnUnavailable.BLOCK):
        pass
    assert pickle.loads(pickle.dumps(policy)) is policy
    with pytest.raises(ValidationError, match="must be one of 'block', 'allow', 'share'"):
        Repository.in_memory(on_unavailable="alow")  # type: ignore[arg-type]  # that is the mistake


@pytest.mark.parametrize("kind", [Repository, SyncRepository])
@pytest.mark.parametrize(
    ("given", "named", "stack"),
    [
        ((), {"name": "shop"}, "shop"),
        ((), {"stack": "shop", "region": "us-east-1"}, "shop"),
        (("shop",), {}, "shop"),
        (("shop", "us-east-1"), {}, "shop"),
        ((), {}, "my-app"),
    ],
)
def test_a_repository_that_is_constructed_says_how_to_open_one(kind: Any, given: Any, named: Any, stack: str) -> None:
    waits = "await " if kind is Repository else ""
    way = f"{waits}{kind.__name__}.open(stack={stack!r}), {waits}{kind.__name__}.sqlite('limits.db') or"
    with pytest.raises(TypeError, match=re.escape(f"{kind.__name__}(...) opens nothing: use {way}")):
        kind(*given, **named)


@pytest.mark.parametrize(
    "name", ["per_second", "per_minute", "per_hour", "per_day", "per_week", "per_month", "per_year", "custom"]
)
def test_an_error_of_a_constructor_names_it_as_it_was_written(name: str) -> None:
    for given in ((), ("rpm",)):
        with pytest.raises(TypeError, match=rf"^Limit\.{name}\(\) missing"):
            getattr(Limit, name)(*given)


async def test_a_text_is_a_limit_wherever_limits_are_asked() -> None:
    repository = Repository.in_memory()
    limiter = RateLimiter(repository, default_limits=TEXTS)
    assert await limiter.available("ann", "api") == {"rpm": 100, "tpd": 5000}
    assert await limiter.available("ann", "api", ["rpm: 7/min"]) == {"rpm": 7}
    assert (await limiter.check("ann", "api", {"rpm": 8}, ["rpm: 9/min"])).passes
    async with limiter.acquire("bob", "api", {"rpm": 1}, limits=["rpm: 3/min"]) as lease:
        assert lease.statuses[0].limit == Limit.per_minute("rpm", 3)
    await repository.set_system_defaults(TEXTS)
    await repository.set_resource_defaults("gpt-4", TEXTS)
    await repository.set_limits("ann", TEXTS, resource="gpt-4")
    await repository.set_limits(
        "ann", ["rpm: 500/min"], resource="gpt-4", override_until=datetime.now(UTC) + timedelta(hours=1)
    )
    await repository.set_tier_limits("pro", TEXTS, resource="gpt-4")
    await repository.set_many_limits({("eve", "gpt-4"): TEXTS})
    stored = [Limit.per_minute("rpm", 100), Limit.per_day("tpd", 5000)]
    assert await repository.get_resource_defaults("gpt-4") == stored
    assert await repository.get_limits("eve", resource="gpt-4") == stored


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (["100/min"], "must be a name and a limit, such as rpm: 100/min"),
        ("rpm: 100/min", r"must be a list of limits, like \['rpm: 100/min'\]"),
        ({"rpm": "100/min"}, r"must be a list of limits, like \['rpm: 100/min'\]"),
        (["rpm: 100/min", RPM], "is given twice"),
        ([100], r"is not a Limit: make one with Limit.per_minute\(name, capacity\)"),
    ],
)
def test_what_is_no_list_of_limits_says_what_is(limits: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits)


@pytest.mark.parametrize("region", [None, "us-east-1"])
async def test_an_open_without_aws_names_what_needs_none(
    region: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(StoreRefusedError) as refused:
        await Repository.open(region=region)
    for way in ("Repository.in_memory()", "Repository.sqlite('limits.db')", "zae-limiter local up"):
        assert way in str(refused.value)


async def test_a_repository_over_a_store_is_made_as_before() -> None:
    assert (await Repository.over(MemoryStore(), Options(stack="shop"))).name == "default"
