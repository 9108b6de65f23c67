from collections.abc import Mapping

import pytest

from zae_limiter import Limit
from zae_limiter_cli.data.parsing import parse_amounts, parse_limit, parse_metadata
from zae_limiter_cli.errors import CommandError


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("rpm:100", Limit.per_minute("rpm", 100)),
        ("rpm:100/min", Limit.per_minute("rpm", 100)),
        ("rpm: 100/min", Limit.per_minute("rpm", 100)),
        (
            "tpm: 10k/min burst 20k shadow prefetch 1s",
            Limit.per_minute("tpm", 10_000, burst=20_000, shadow=True, prefetch=1),
        ),
        ("rpd: 1_000/day", Limit.per_day("rpd", 1000)),
        ("rps:5/sec", Limit.per_second("rps", 5)),
        ("rph:5/hour:9", Limit.per_hour("rph", 5, burst=9)),
        ("tokens.in-x_y:5/day", Limit.per_day("tokens.in-x_y", 5)),
        ("tpm:10000:15000", Limit.per_minute("tpm", 10_000, burst=15_000)),
        ("rpm:100:shadow", Limit.per_minute("rpm", 100, shadow=True)),
        ("tpm:5/hour:9:shadow", Limit.per_hour("tpm", 5, burst=9, shadow=True)),
        ("tpm:600:prefetch=1", Limit.per_minute("tpm", 600, prefetch=1)),
        ("tpm:600:prefetch=0", Limit.per_minute("tpm", 600)),
        (
            '{"name": "usd", "capacity": 250, "window": "month", "timezone": "Europe/Berlin", "starts_on": 15}',
            Limit.per_month("usd", 250, timezone="Europe/Berlin", starts_on=15),
        ),
        ("rpm: 100 per 90s from first use", Limit.quota("rpm", 100, window=90)),
        ('{"name": "credits", "capacity": 500, "kind": "total"}', Limit.total("credits", 500)),
        (
            "tpm:600:shadow:prefetch=1:weights=output=4,input=1,cached=0.1",
            Limit.per_minute("tpm", 600, shadow=True, prefetch=1, weights={"input": 1, "cached": 0.1, "output": 4}),
        ),
        ("tpm:600/hour:900:shadow:prefetch=0.25", Limit.per_hour("tpm", 600, burst=900, shadow=True, prefetch=0.25)),
    ],
)
def test_a_limit_is_name_amount_period_and_burst(text: str, limit: Limit) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rpm",
        "rpm:",
        ":100",
        "rpm:1.5",
        "rpm:-1",
        "rpm:x",
        "rpm:1/week",
        "rpm:1/min:",
        "rpm:1:2:3",
        "rpm:1:shadow:2",
        "rpm:1:Shadow",
        "rpm:1:shadow:",
        "rpm:1:yes-ish",
        "rpm:shadow",
        "rpm:1:prefetch",
        "rpm:1:prefetch=",
        "rpm:1:prefetch=1:shadow",
        "rpm:1:weights=",
        "rpm:1:weights=input=1:prefetch=1",
        "rpm:\uff11",
        "rpm:1\n",
    ],
)
def test_what_is_no_limit_is_named_with_the_form(text: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_limit(text)
    assert str(refusal.value).startswith(f"--limit {text!r}: ")
    assert str(refusal.value).endswith("100/min or 10k/min burst 20k or $250/month Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rpm:10:prefetch=60", "prefetch of limit 'rpm' 60.0: takes what comes in that time off the burst, 10"),
        ("rpm:10:prefetch=abc", "prefetch of limit 'rpm' 'abc': must be seconds, such as 1 or 0.5"),
        ("rpm:10:prefetch=-1", "prefetch of limit 'rpm' '-1': must be seconds, such as 1 or 0.5"),
        ("rpm:10:prefetch=1s", "prefetch of limit 'rpm' '1s': must be seconds, such as 1 or 0.5"),
        ("rpm:10:prefetch=nan", "prefetch of limit 'rpm' 'nan': must be seconds, such as 1 or 0.5"),
        ("rpm:10:weights=INPUT=1", "weights of limit 'rpm' 'INPUT': is not a kind of tokens"),
        ("rpm:10:weights=input", "weights of limit 'rpm' 'input': must be like input=1,cached=0.1,output=4"),
        (
            "rpm:10:weights=input=1.1.1",
            "weights of limit 'rpm' 'input=1.1.1': must be like input=1,cached=0.1,output=4",
        ),
        ("rpm:10:weights=input=1,input=2", "weights of limit 'rpm' 'input=1,input=2': has input twice: leave one out"),
        (
            "rpm:10:weights=thoughts=1",
            "weights of limit 'rpm' 'thoughts': is not a kind of tokens (known: input, cached, cache_write",
        ),
        (
            "rpm:10:weights=input=1000001",
            "weights of limit 'rpm'['input'] '1000001': must be a number from 0 to 1000000, with at most 6 decimals",
        ),
        ("rpm:10:prefetch=3601", "prefetch of limit 'rpm' 3601.0: must be seconds from 0 to 3600"),
        ("rpm:10:9", "burst of limit 'rpm' 9: must be at least the capacity"),
        ("rpm:10:9", "burst of limit 'rpm' 9: must be at least the capacity, 10"),
        ("rp m:10", "limit 'rp m': must be 1 to 64 characters"),
        ("wcu:10", "limit 'wcu': is reserved"),
        ("rpm:99999999999999999999", "capacity of limit 'rpm' "),
    ],
)
def test_a_limit_that_cannot_be_is_named_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_limit(text)
    assert str(refusal.value).startswith(f"--limit {text!r}: {problem}")


def test_amounts_are_by_limit() -> None:
    assert parse_amounts(["rpm:10", "tpm:500"]) == {"rpm": 10, "tpm": 500}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["rpm"], "--tokens 'rpm': must be name:amount, like rpm:100, or money, like 'usd:$0.25'"),
        (["rpm:0"], "--tokens 'rpm:0': must be at least 1"),
        (["rpm:-1"], "--tokens 'rpm:-1': must be name:amount, like rpm:100, or money, like 'usd:$0.25'"),
        (["rpm:1/min"], "--tokens 'rpm:1/min': must be name:amount, like rpm:100, or money, like 'usd:$0.25'"),
        (["rpm:1", "rpm:2"], "--tokens 'rpm:2': rpm is given twice: pass one amount for each limit"),
    ],
)
def test_what_is_no_amount_is_named_with_the_form(texts: list[str], problem: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_amounts(texts)
    assert str(refusal.value) == problem


@pytest.mark.parametrize(
    ("texts", "metadata"), [([], {}), (["a=b", "c="], {"a": "b", "c": ""}), (["url=x?y=z"], {"url": "x?y=z"})]
)
def test_metadata_is_values_by_key(texts: list[str], metadata: Mapping[str, str]) -> None:
    assert parse_metadata(texts) == metadata


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["a"], "--metadata 'a': must be key=value, like team=search"),
        (["=b"], "--metadata '=b': must be key=value, like team=search"),
        (["a=b", "a=c"], "--metadata 'a=c': a is given twice: pass one value for each key"),
    ],
)
def test_what_is_no_metadata_is_named_with_the_form(texts: list[str], problem: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_metadata(texts)
    assert str(refusal.value) == problem


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"name": "usd", "capacity": 250, "window": "day", "timezone": "Berlin"}',
            "timezone of limit 'usd' 'Berlin'",
        ),
        ('{"name": "usd", "capacity": 250, "windows": "month"}', "has no field 'windows'"),
        ('{"name": "usd", "capacity": 250', "is not JSON"),
        ('{"name": "usd"}', "lacks the field 'capacity'"),
    ],
)
def test_a_mistake_in_the_json_of_a_limit_is_named(text: str, told: str) -> None:
    with pytest.raises(CommandError, match="--limit") as caught:
        parse_limit(text)
    assert told in str(caught.value)
