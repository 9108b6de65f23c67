import contextlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.manifest.manifests import DESIGN, manifests
from zae_limiter_manifest import LimitsManifest, json_schema, load, schema_patterns
from zae_limiter_manifest.limit_text import read_limit
from zae_limiter_manifest.schedule_text import EXAMPLES, read_entry

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_it_accepts_what_load_accepts(manifest: LimitsManifest) -> None:
    VALIDATOR.validate(manifest.to_dict())


@pytest.mark.parametrize("text", [DESIGN, "namespace: a", "namespace: a\nsystem: {}\nresources: {}\nentities: {}"])
def test_it_accepts_what_people_write(text: str) -> None:
    assert load(text)
    VALIDATOR.validate(yaml.safe_load(text))


def resource_with(limit: Any, name: str = "rpm") -> dict[str, Any]:
    return {"namespace": "a", "resources": {"gpt-4": {"limits": {name: limit}}}}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        None,
        {"namespace": "1"},
        {"namespace": 5},
        {"namespace": "a", "resource": {}},
        {"namespace": "a", "system": None},
        {"namespace": "a", "system": {"on_unavailable": "maybe"}},
        {"namespace": "a", "system": {"limits": {}}},
        {"namespace": "a", "resources": {"gpt-4": {}}},
        {"namespace": "a", "resources": {"gpt-4": {"limits": {}}}},
        {"namespace": "a", "resources": {"_default_": {"limits": {"rpm": {"capacity": 1}}}}},
        {"namespace": "a", "entities": {"u 1": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 1}}}}}}},
        {"namespace": "a", "entities": {"u": {"resources": {}}}},
        resource_with({}),
        resource_with(5),
        resource_with({"capacity": -1}),
        resource_with({"capacity": "10"}),
        resource_with({"capacity": 1.5}),
        resource_with({"capacity": True}),
        resource_with({"capacity": 10**15 + 1}),
        resource_with({"capacity": 1, "brust": 1}),
        resource_with({"capacity": 1, "shadow": "true"}),
        resource_with({"capacity": 1, "shadow": 1}),
        resource_with({"capacity": 1, "shadow": None}),
        resource_with({"capacity": 100, "prefetch": "1"}),
        resource_with({"capacity": 100, "prefetch": True}),
        resource_with({"capacity": 100, "prefetch": -1}),
        resource_with({"capacity": 100, "prefetch": 3601}),
        {"namespace": "a", "system": {"prefetch": None, "limits": {"rpm": {"capacity": 100}}}},
        {"namespace": "a", "system": {"shadow": "yes", "limits": {"rpm": {"capacity": 1}}}},
        resource_with({"capacity": 1}, name="wcu"),
        resource_with({"capacity": 1}, name="total_events"),
        resource_with({"capacity": 1}, name="a#b"),
    ],
    ids=str,
)
def test_it_rejects_typical_mistakes(raw: Any) -> None:
    assert not VALIDATOR.is_valid(raw)
    with pytest.raises(ValueError, match="<manifest>"):
        LimitsManifest.from_dict(raw)


def test_every_key_is_described_and_defaults_are_said() -> None:
    schema = json_schema()
    objects = [schema, *(each if "properties" in each else each["anyOf"][-1] for each in schema["$defs"].values())]
    assert all(member["description"] for each in objects for member in each["properties"].values())
    assert schema["$defs"]["LimitDecl"]["anyOf"][1]["properties"]["refill_period"]["default"] == 60


TEXTS = json.loads((Path(__file__).parents[4] / "testdata" / "limit_texts.json").read_text("utf-8"))
WORDS = sorted({word for text in TEXTS["texts"] for word in re.findall(r"\s+|/|[^\s/]+", text)})
ENTRIES = [
    *EXAMPLES,
    "a: 2026-12-24..2026-12-26 Europe/Berlin 100/min burst 200",
    "b: sat,sun capacity $5.50 burst 9 usd",
]
PARTS = sorted({word for text in ENTRIES for word in text.split()} | {"weekdays", "UTC", "5 per h", "7/rolling week"})


@pytest.mark.parametrize(
    "text",
    [
        "100",
        "100/fortnight",
        "100/min brust 200",
        "100/week",
        "100/min burst",
        "10 concurrently",
        "5 cron 0 6 * *",
        "100/day europe/berlin",
        "$5.50/day prefetch 1h",
    ],
)
def test_a_text_that_is_not_a_limit_is_marked_while_it_is_typed(text: str) -> None:
    assert not VALIDATOR.is_valid(resource_with(text))


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=9) | st.sampled_from([*TEXTS["texts"]]).map(lambda t: [t]))
@example(["250.50", "/", "month"])
@settings(max_examples=500, deadline=None)
def test_the_expression_of_a_limit_admits_what_its_reader_does(words: list[str]) -> None:
    text = "".join(words)
    with contextlib.suppress(ValueError):
        read_limit(text, "usd")
        assert re.search(schema_patterns.LIMIT, text)


@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=7) | st.sampled_from(ENTRIES).map(lambda text: [text]))
@settings(max_examples=500, deadline=None)
def test_the_expression_of_an_entry_admits_what_its_reader_does(words: list[str]) -> None:
    text = " ".join(words)
    with contextlib.suppress(ValueError):
        read_entry(text)
        assert re.search(schema_patterns.ENTRY, text)


@pytest.mark.parametrize("text", ["night: 100/min", "night 22:00-06:00 5/min", "night: 22:00-06:00 5", "n: 1-2 5/min"])
def test_an_entry_that_is_none_is_marked(text: str) -> None:
    assert not VALIDATOR.is_valid(resource_with({"capacity": 5, "schedule": [text]}))


@pytest.mark.parametrize("key", ["window", "timezone"])
@pytest.mark.parametrize("text", ["fortnight", "0 6 *", "europe/berlin", "Mars/"])
def test_windows_and_zones_have_their_form(key: str, text: str) -> None:
    assert not VALIDATOR.is_valid(resource_with({"capacity": 5, "window": "day", key: text}))


def test_each_call_gives_a_schema_of_its_own() -> None:
    json_schema()["properties"].clear()
    assert json_schema()["properties"]
