import io
import json
from dataclasses import replace
from typing import Any

import pytest

from support.core.events import RPM, TPM, acquire_event, lease_event, refusal
from zae_limiter.observers import Event
from zae_limiter.observers.emf import EmbeddedMetricsObserver

OWN = {"namespace": "prod", "resource": "gpt-4"}


def told(event: Event, *, entity_ids: bool = False) -> list[dict[str, Any]]:
    stream = io.StringIO()
    EmbeddedMetricsObserver(stream=stream, entity_ids=entity_ids)(event)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def figures(line: dict[str, Any]) -> tuple[dict[str, str], dict[str, float]]:
    """What CloudWatch makes of a line: the dimensions, and the metrics."""
    (declared,) = line["_aws"]["CloudWatchMetrics"]
    assert declared["Namespace"] == "zae-limiter"
    (dimensions,) = declared["Dimensions"]
    return {name: line[name] for name in dimensions}, {each["Name"]: line[each["Name"]] for each in declared["Metrics"]}


def test_an_admitted_acquire_is_one_line() -> None:
    (line,) = told(acquire_event(waited=0.05, write_units=2.0))
    assert figures(line) == (OWN, {"admitted": 1, "duration_ms": 100, "waited_ms": 50, "write_units": 2})
    units = {each["Name"]: each["Unit"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert units == {
        "admitted": "Count",
        "duration_ms": "Milliseconds",
        "waited_ms": "Milliseconds",
        "write_units": "Count",
    }


def test_an_acquire_that_its_overflow_served_says_whether_it_was_early() -> None:
    (short,) = refusal(RPM).violations
    (late,) = told(acquire_event(overflow="credits"))
    assert figures(late) == (OWN, {"admitted": 1, "duration_ms": 100, "overflowed": 1})
    (early,) = told(acquire_event(overflow="credits", overflowed_early=short))
    assert figures(early) == (OWN, {"admitted": 1, "duration_ms": 100, "overflowed": 1, "overflowed_early": 1})
    (more,) = told(acquire_event(overflow="credits", overflowed_early=short, call="consume"))
    assert figures(more) == (OWN, {"admitted": 1, "duration_ms": 100})


def test_a_refusal_has_a_line_for_each_limit_that_was_short() -> None:
    assert [figures(line) for line in told(refusal(RPM, TPM))] == [
        (OWN, {"refused": 1, "duration_ms": 100}),
        (OWN | {"limit": "rpm"}, {"refusals": 1}),
        (OWN | {"limit": "tpm"}, {"refusals": 1}),
    ]


def test_an_admitted_call_has_a_line_for_each_shadow_limit_that_would_have_refused_it() -> None:
    assert [figures(line) for line in told(acquire_event(shadowed=refusal(TPM).violations))] == [
        (OWN, {"admitted": 1, "duration_ms": 100}),
        (OWN | {"limit": "tpm"}, {"shadowed": 1}),
    ]


def test_the_end_of_a_block_has_the_tokens_of_each_limit() -> None:
    assert [figures(line) for line in told(lease_event())] == [
        (OWN | {"limit": "rpm"}, {"tokens": 1}),
        (OWN | {"limit": "tpm"}, {"tokens": 700}),
    ]


@pytest.mark.parametrize(("ending", "metric"), [("rolled_back", "rolled_back"), ("failed", "ends_failed")])
def test_an_end_that_is_not_settled_is_counted(ending: str, metric: str) -> None:
    assert [figures(line) for line in told(lease_event(ending=ending, consumed={"rpm": 0}))] == [(OWN, {metric: 1})]


def test_the_entity_is_named_on_request_alone_and_is_no_dimension() -> None:
    assert "key-1" not in json.dumps(told(refusal(RPM)))
    for line in told(refusal(RPM), entity_ids=True):
        assert line["entity_id"] == "key-1"
        assert "entity_id" not in figures(line)[0]


def test_the_refusal_of_a_parent_names_its_limit_and_its_id_on_request() -> None:
    event = refusal(RPM, entity_id="acme-corp")
    assert [figures(line)[0].get("limit") for line in told(event)] == [None, "parent/rpm"]
    assert "acme-corp" not in json.dumps(told(event))
    assert {(line["entity_id"], line["refused_by"]) for line in told(event, entity_ids=True)} == {
        ("key-1", "acme-corp")
    }
    assert all("refused_by" not in line for line in told(acquire_event(), entity_ids=True))


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    EmbeddedMetricsObserver()(acquire_event())
    assert json.loads(capsys.readouterr().out)["admitted"] == 1


@pytest.mark.parametrize(
    ("resource", "dimension"),
    [("/v1/chat|x", "/v1/chat|x"), (":1", "%3A1"), ("é", "%C3%A9"), ("%3A1", "%253A1"), ("gpt-4", "gpt-4")],
)
def test_a_resource_is_a_dimension_that_cloudwatch_takes(resource: str, dimension: str) -> None:
    (line,) = told(replace(acquire_event(), resource=resource))
    assert figures(line)[0]["resource"] == dimension


def test_names_that_clients_make_up_are_one_dimension_in_the_end() -> None:
    stream = io.StringIO()
    observer = EmbeddedMetricsObserver(stream=stream, most_resources=3)
    for number in (*range(1000), 0, 999):
        observer(replace(acquire_event(), resource=f"r{number}"))
    resources = [json.loads(line)["resource"] for line in stream.getvalue().splitlines()]
    assert resources[:4] == ["r0", "r1", "r2", "all others"]
    assert {*resources[3:1000]} == {"all others"}
    assert resources[1000:] == ["r0", "all others"]


HOSTILE = [
    *(
        'a"b',
        "a\\b",
        'a,b="c"',
        "_aws",
        "__name__",
        '{"_aws":{}}',
        "%0a",
        "a%41",
        ":x",
        "$x",
        "=1+1",
        "NaN",
        "all%20others",
    ),
    *("é", "漢" * 42, "😀" * 30, "x" * 128, "limit", "namespace"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_adds_a_line_a_field_or_a_dimension(name: str) -> None:
    lines = told(replace(refusal(RPM), resource=name, entity_id=name), entity_ids=True)
    assert [{*line} - {"_aws", "refused", "refusals", "duration_ms"} for line in lines] == [
        {"namespace", "resource", "entity_id", "refused_by", "reason"},
        {"namespace", "resource", "entity_id", "refused_by", "reason", "limit"},
    ]
    for line in lines:
        assert line["entity_id"] == name
        assert line["resource"].isascii()
        assert not line["resource"].startswith(":")
        assert len(line["resource"]) <= 1024
        assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "zae-limiter"


def test_a_settlement_for_its_bound_is_counted_by_limit() -> None:
    assert [figures(line) for line in told(lease_event(bounded=("tpm",)))] == [
        (OWN | {"limit": "rpm"}, {"tokens": 1}),
        (OWN | {"limit": "tpm"}, {"tokens": 700, "bounded": 1}),
    ]
