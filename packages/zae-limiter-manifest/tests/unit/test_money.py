"""Limits of money in manifests: read, written, planned, shared out and refused."""

import pytest

from zae_limiter_manifest import Address, LimitDecl, ManifestError, ResourceDecl, load
from zae_limiter_manifest.dumping import dump
from zae_limiter_manifest.limit_text import read_limit
from zae_limiter_manifest.shares import Shared
from zae_limiter_manifest.warnings import find_warnings


def limits(*lines: str) -> str:
    return "namespace: shop\nsystem:\n  limits:\n" + "".join(f"    {line}\n" for line in lines)


def limit_of(line: str) -> LimitDecl:
    system = load(limits(line), "limits.yaml").system
    assert system is not None
    (limit,) = system.limits.values()
    return limit


@pytest.mark.parametrize(
    ("line", "unit", "capacity", "text"),
    [
        ("usd: $250/month Europe/Berlin", "usd", 250_000_000, "$250/month Europe/Berlin"),
        ("usd: $5.50/day", "usd", 5_500_000, "$5.50/rolling day"),
        ("usd: 250.50 per 30d from first use", "usd", 250_500_000, "$250.50 per 30d from first use"),
        ("budget: 250 eur/calendar day", "eur", 250_000_000, "€250/day UTC"),
        ("usd: {capacity: 5_000_000, unit: usd, window: day}", "usd", 5_000_000, "$5/day UTC"),
    ],
)
def test_a_manifest_has_money(line: str, unit: str, capacity: int, text: str) -> None:
    limit = limit_of(line)
    assert (limit.unit, limit.capacity, limit.text) == (unit, capacity, text)
    manifest = load(limits(line), "limits.yaml")
    assert load(dump(manifest), "limits.yaml") == manifest


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("usd: 250.50.1/month", "is not a number of tokens"),
        ("usd: {capacity: 5, unit: dollars}", "must be `usd`"),
        ("usd: {capacity: 5, unit: usd, kind: concurrent}", "slots are not money"),
        ("usd: {capacity: 5, unit: usd, schedule: ['n: sat-sun 5/day']}", "is not money as the limit is"),
        ("rpd: {capacity: 5, schedule: ['n: sat-sun $5/day']}", "the limit has no `unit`"),
    ],
)
def test_a_mistake_in_money_is_a_problem(line: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        load(limits(line), "limits.yaml")


def test_a_share_of_money_keeps_its_currency() -> None:
    limit = limit_of("usd: {capacity: 5_000_000, refill_period: 86400, unit: usd, schedule: ['n: sat-sun $7/day']}")
    level = Shared("60%")(Address("gpt-4"), ResourceDecl({"usd": limit}))
    assert isinstance(level, ResourceDecl)
    shared = level.limits["usd"]
    assert (shared.unit, shared.capacity, shared.schedule) == ("usd", 3_000_000, ("n: sat-sun $4.20/rolling day",))


@pytest.mark.parametrize(
    ("word", "text"), [("rolling day", "day"), ("rolling week", "7d"), ("calendar week", "week UTC")]
)
def test_words_say_rolling_or_calendar(word: str, text: str) -> None:
    assert read_limit(f"100/{word}") == read_limit(f"100/{text}")


def warned(*lines: str) -> list[str]:
    return [each.message for each in find_warnings(load(limits(*lines), "limits.yaml"))]


def test_money_as_tokens_is_a_warning() -> None:
    (told,) = warned("usd: 250/month UTC")
    assert told == (
        "shop: system.limits.usd is 250/month UTC, tokens that price lists count as $0.00025: "
        "for money write $250/month UTC"
    )
    assert warned("eur-team: {capacity: 5, kind: total}")[0].endswith("for money write €5 total")
    assert warned("usd: $250/month UTC", "calls: 250/month UTC", "usd-calls: 5 concurrent") == []


def test_a_day_alone_is_told_once() -> None:
    (told,) = warned("rpd: 100/day", "tpd: 100/day burst 200", "rph: 100/hour", "month: 100/month")
    assert told == (
        "shop: system.limits.rpd and 1 more say no calendar: a day is any 24 hours: write `rolling day`, or "
        "`calendar day` for one that ends at midnight"
    )
    assert warned("usd: $100/month")[0].startswith(
        "shop: system.limits.usd says no calendar: a month is the calendar's, of UTC"
    )


@pytest.mark.parametrize("text", ["100/rolling day", "100/calendar day", "100/day Europe/Berlin", "100/1d", "100/7d"])
def test_a_word_ends_the_warning(text: str) -> None:
    assert warned(f"rpd: {text}") == []


def test_how_a_day_was_written_is_no_value() -> None:
    open_, said = limit_of("rpd: 100/day"), limit_of("rpd: 100/rolling day")
    assert (open_, hash(open_), open_.given()) == (said, hash(said), said.given())
