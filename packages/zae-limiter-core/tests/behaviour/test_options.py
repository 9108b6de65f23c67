"""The options of an acquire: the same by every door, and each is checked by its name."""

import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args, get_type_hints

import pytest

from zae_limiter import Limit, RateLimiter, SyncRateLimiter, SyncRepository, ValidationError

NAMES = {"Decimal": Decimal}  # which a process without money does not import
PLACE = {"self", "entity_id", "resource", "consume", "old"}

both_variants = pytest.mark.parametrize("limiter", [RateLimiter, SyncRateLimiter])


def options_of(limiter: type) -> dict[str, Any]:
    """Those of an acquire, with their types."""
    types = get_type_hints(limiter.acquire, localns=NAMES)  # type: ignore[attr-defined]
    found = inspect.signature(limiter.acquire).parameters  # type: ignore[attr-defined]
    return {name: types[name] for name in found if name not in PLACE}


@both_variants
def test_a_decorator_takes_the_options_of_an_acquire_with_their_types(limiter: type) -> None:
    types, options = get_type_hints(limiter.limit, localns=NAMES), options_of(limiter)  # type: ignore[attr-defined]
    (declared,) = get_args(types["options"])
    assert options.pop("draws") in get_args(types["draws"])
    key = options.pop("idempotency_key")
    assert types["idempotency_key"] == Callable[..., key] | None  # one for every call would let one of them count
    assert get_type_hints(declared) == options


@pytest.mark.parametrize("option", options_of(SyncRateLimiter))
def test_an_option_that_is_wrong_is_refused_by_its_name(option: str) -> None:
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_minute("rpm", 1)]) as limiter:
        bad: Any = {option: object(), **({"idempotency_key": "order-77"} if option == "key_life" else {})}
        with pytest.raises(ValidationError) as refused:
            limiter.acquire("e", "r", {"rpm": 1}, **bad)
        assert refused.value.field == option
