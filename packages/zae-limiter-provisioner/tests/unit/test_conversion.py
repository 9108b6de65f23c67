from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import Limit, ValidationError
from zae_limiter_manifest import (
    LIMIT_FIELDS,
    Address,
    LimitDecl,
    ManifestError,
    OnRefusedDecl,
    ResourceDecl,
    SystemDecl,
)
from zae_limiter_provisioner.conversion import live_item, to_stored_config


def test_a_declared_limit_has_the_fields_of_a_limit_in_their_order() -> None:
    """A manifest has the kind after the window, which tells it."""
    of_core = [each.name for each in fields(Limit) if each.name not in {"name", "kind"}]
    assert [name for name in LIMIT_FIELDS if name != "kind"] == of_core
    assert LIMIT_FIELDS.index("kind") > LIMIT_FIELDS.index("window")


def test_a_declaration_is_as_it_was_after_it_was_stored_and_read() -> None:
    values: dict[str, Any] = {name: 10 + place for place, name in enumerate(LIMIT_FIELDS[:4])}
    decl = ResourceDecl(
        {
            "rpm": LimitDecl(
                **{**values, "shadow": True, "prefetch": 0.5, "weights": {"input": 1, "cached": 0.1, "reasoning": 4}}
            ),
            "usd": LimitDecl(250, burst=300, window="month", timezone="Europe/Berlin", starts_on=15, alert=(80, 95)),
            "seats": LimitDecl(3, window="0 6 * * MON"),
            "credits": LimitDecl(3, kind="total"),
        },
        OnRefusedDecl(wait=0.5, overflow="credits"),
    )
    assert live_item(Address("gpt-4"), to_stored_config(decl)).decl == decl
    system = SystemDecl(on_refused=OnRefusedDecl())
    assert live_item(Address(), to_stored_config(system)).decl == system


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 3_600_000))
def test_core_and_manifest_agree_on_prefetch(burst: int, amount: int, period: int, prefetch_ms: int) -> None:
    rate: dict[str, Any] = {
        "burst": burst,
        "refill_amount": amount,
        "refill_period": period,
        "prefetch": prefetch_ms / 1000,
    }
    try:
        limit = Limit.custom("rpm", burst, **rate)
    except ValidationError:
        with pytest.raises(ManifestError):
            LimitDecl(burst, **rate)
    else:
        assert LimitDecl(burst, **rate).usable_burst == limit.usable_burst


@given(
    st.sampled_from(["", "hour", "day", "week", "month", "0 6 * * MON", "0 6 30 2 *", "* * * *", "0 6 L * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Etc/GMT+5", "Berlin", "../x", "Europe"]),
    st.integers(1, 31),
    st.sampled_from(["token_bucket", "calendar", "total"]),
    st.sampled_from([{}, {"refill_period": 90}, {"refill_amount": 9}, {"prefetch": 0.001}]),
)
def test_core_and_manifest_agree_on_what_a_calendar_limit_may_be(
    window: str, timezone: str, starts_on: int, kind: str, more: dict[str, Any]
) -> None:
    values: dict[str, Any] = {"window": window, "timezone": timezone, "starts_on": starts_on, "kind": kind, **more}
    try:
        Limit.custom("usd", 50, **values)
    except ValidationError:
        with pytest.raises(ManifestError):
            LimitDecl(50, **values)
    else:
        LimitDecl(50, **values)


@pytest.mark.parametrize("cascade", [None, True, False])
@pytest.mark.parametrize("truth", [None, True, False])
def test_switches_are_as_they_were_after_they_were_stored_and_read(cascade: bool | None, truth: bool | None) -> None:  # noqa: FBT001
    decl = ResourceDecl({"rpm": LimitDecl(5)}, disabled=truth, cascade=cascade)
    assert live_item(Address("gpt-4"), to_stored_config(decl)).decl == decl
    system = SystemDecl(bypass=True, cascade=cascade, reason="why")
    assert live_item(Address(), to_stored_config(system)).decl == system
