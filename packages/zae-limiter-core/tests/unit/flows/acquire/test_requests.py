import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from zae_limiter import Limit, RateLimiter, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.flows.acquire.requests import AcquireOptions, AcquireRequest, validate_request

OPTIONS = get_type_hints(AcquireOptions)
PLACE = {"self", "entity_id", "resource", "consume"}
NOT_OF_CALLERS = {"default_limits", "shadow"}  # of the limiter

each_option = pytest.mark.parametrize("option", OPTIONS)
both_variants = pytest.mark.parametrize("limiter", [RateLimiter, SyncRateLimiter])


def parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: each for name, each in found.items() if name not in PLACE}


def defaults(function: Callable[..., object]) -> dict[str, Any]:
    return {name: each.default for name, each in parameters(function).items()}


@both_variants
def test_acquire_has_the_options_with_their_types(limiter: type) -> None:
    types = get_type_hints(limiter.acquire)  # type: ignore[attr-defined]
    assert {name: types[name] for name in parameters(limiter.acquire)} == OPTIONS  # type: ignore[attr-defined]


@both_variants
def test_acquire_and_the_check_have_the_same_defaults(limiter: type) -> None:
    checked = {name: value for name, value in defaults(validate_request).items() if name not in NOT_OF_CALLERS}
    assert defaults(limiter.acquire) == checked  # type: ignore[attr-defined]


def test_a_request_has_the_defaults_of_the_check() -> None:
    checked = validate_request("e", "r", {"rpm": 1})
    plain = AcquireRequest("e", "r", {"rpm": 1_000})
    assert checked == plain
    assert OPTIONS.keys() <= {field.name for field in fields(AcquireRequest)}


@each_option
def test_acquire_hands_an_option_to_its_check_and_names_it(option: str) -> None:
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_minute("rpm", 1)]) as limiter:
        bad: Any = {option: object()}
        with pytest.raises(ValidationError) as refused:
            limiter.acquire("e", "r", {"rpm": 1}, **bad)
        assert refused.value.field == option
