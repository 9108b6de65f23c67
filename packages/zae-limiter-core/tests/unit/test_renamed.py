"""The table of old names, which is deleted with 1.0."""

from typing import Any

import pytest

import zae_limiter
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, renamed
from zae_limiter.exceptions import ValidationError
from zae_limiter.runtime import namesake


def test_a_moved_name_warns_and_works() -> None:
    for old, new in renamed.NAMES.items():
        module, _, name = new.rpartition(".")
        vars(zae_limiter).pop(old, None)
        with pytest.warns(DeprecationWarning, match=f"from {module} import {name}"):
            assert getattr(zae_limiter, old) is not None
        assert old not in zae_limiter.__all__


@pytest.mark.parametrize("kind", [RateLimiter, Repository, SyncRateLimiter, SyncRepository])
def test_an_old_method_names_the_new_one(kind: type) -> None:
    repository = (Repository if kind in (RateLimiter, Repository) else SyncRepository).in_memory()
    made: Any = repository if isinstance(repository, kind) else kind(repository)
    for old, new in renamed.ATTRIBUTES[kind.__name__.removeprefix("Sync")].items():
        with pytest.raises(AttributeError) as refused:
            getattr(made, old)
        here = namesake.in_blocking(new) if kind.__name__.startswith("Sync") else new
        assert str(refused.value).endswith(f"has no attribute {old!r}: use {here}")
    with pytest.raises(AttributeError, match=r"has no attribute 'acquir'$"):
        _ = made.acquir


def test_an_old_argument_names_the_new_one() -> None:
    with pytest.raises(TypeError, match=r"^f\(\) got an unexpected keyword argument 'x'$"):
        renamed.refuse_arguments("f", {"x": 1})
    for old, new in renamed.ARGUMENTS.items():
        with pytest.raises(TypeError, match=f"'{old}': use {new}"):
            renamed.refuse_arguments("f", {old: 1})


@pytest.mark.parametrize("kind", [SyncRateLimiter, RateLimiter])
@pytest.mark.parametrize("method", ["acquire", "check", "explain"])
async def test_also_is_answered_with_draws(kind: Any, method: str) -> None:
    limiter = kind((Repository if kind is RateLimiter else SyncRepository).in_memory())
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{method}\(\) got an .* 'also': use draws=$"):
        await getattr(limiter, method)("e", "r", {"rpm": 1}, also=[])


def test_a_text_with_ahead_names_prefetch() -> None:
    with pytest.raises(ValidationError, match="`ahead` is `prefetch` now: write `prefetch 1s`"):
        Limit.parse("rpm: 10k/min ahead 1s")


@pytest.mark.parametrize("make", [Limit, Limit.custom, Limit.per_second, Limit.per_minute, Limit.per_day])
def test_ahead_is_answered_with_prefetch(make: Any) -> None:
    with pytest.raises(TypeError, match=r"\(\) got an unexpected keyword argument 'ahead': use prefetch=$"):
        make("rpm", 60, ahead=1)
