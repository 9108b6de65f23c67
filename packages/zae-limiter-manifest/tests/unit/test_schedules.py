"""Schedules in a manifest: what they are, how they are written and planned, and what is refused."""

import json

import pytest

from zae_limiter_manifest import (
    Address,
    Change,
    LimitDecl,
    LimitsManifest,
    ManifestError,
    ResourceDecl,
    dump,
    json_schema,
    load,
)
from zae_limiter_manifest.canonical import canonical
from zae_limiter_manifest.changes import fingerprint
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.render.words import live_and_declared, parts

NIGHT = "night: 22:00-06:00 Europe/Berlin 10/min"
TEXT = f"""\
namespace: a
resources:
  gpt-4:
    limits:
      rpm: {{capacity: 600, schedule: ["sale: 2026-11-27 5k/min", "{NIGHT}"]}}
      usd: {{capacity: 250, window: "day", schedule: ["weekend: sat-sun capacity 50 burst 60"]}}
"""


def problems(limit: str, level: str = "") -> str:
    with pytest.raises(ManifestError) as caught:
        load(f"namespace: a\nsystem: {{{level}limits: {{rpm: {limit}}}}}\n", "limits.yaml")
    return str(caught.value)


def test_schedules_are_read_and_written_in_their_order() -> None:
    manifest = load(TEXT, "limits.yaml")
    rpm = manifest.resources["gpt-4"].limits["rpm"]
    assert rpm == LimitDecl(600, schedule=["sale: 2026-11-27 5000/min", f"  {NIGHT} "])
    assert rpm.schedule == ("sale: 2026-11-27 5k/min", NIGHT)
    assert dump(manifest) == TEXT
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest


def test_a_stack_passes_them_as_texts() -> None:
    manifest = load(TEXT, "limits.yaml")
    properties = StackProperties(manifest).to_dict()
    assert properties["Resources"]["gpt-4"]["Limits"]["usd"]["Schedule"] == ["weekend: sat-sun capacity 50 burst 60"]
    assert StackProperties.from_dict(json.loads(json.dumps(properties))).manifest == manifest
    properties["Resources"]["gpt-4"]["Limits"]["usd"]["Schedule"] = ["weekend: sat-sun 50/min"]
    with pytest.raises(ManifestError, match=r"Schedule: .*has a rate, which means nothing beside `kind: calendar`"):
        StackProperties.from_dict(properties)


def test_a_plan_says_what_becomes_of_a_schedule() -> None:
    address = Address("gpt-4")
    plain, night = (ResourceDecl({"rpm": LimitDecl(600, schedule=each)}) for each in ([], [NIGHT]))
    assert [part.text for part in parts(Change(address, plain, night))] == [f"schedule none -> {NIGHT}"]
    assert [part.text for part in parts(Change(address, None, night))] == [f"600/min, schedule {NIGHT}"]
    assert live_and_declared(Change(address, night, plain)) == [f"rpm: schedule is {NIGHT}, declared none"]
    change = Change(address, plain, night)
    assert Change.from_dict(json.loads(json.dumps(change.to_dict()))) == change


def test_a_limit_without_a_schedule_has_the_text_that_it_always_had() -> None:
    plain, night = (ResourceDecl({"rpm": LimitDecl(600, schedule=each)}) for each in ([], [NIGHT]))
    assert canonical(plain) == "rpm 600 600 600 60"
    assert canonical(night) == f'rpm 600 600 600 60 "{NIGHT}"'
    assert fingerprint(plain) != fingerprint(night)


def test_the_schema_has_them() -> None:
    [_, limit] = json_schema()["$defs"]["LimitDecl"]["anyOf"]
    schedule = limit["properties"]["schedule"]
    assert (schedule["type"], schedule["items"]["type"], schedule["maxItems"]) == ("array", "string", 16)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ('{capacity: 5, schedule: "night: mon 1/min"}', "must be a list of entries, not the string"),
        ("{capacity: 5, schedule: [7]}", "must be a string, not the integer 7"),
        ('{capacity: 5, schedule: ["night"]}', '"night" is not an entry of a schedule: it begins with a name'),
        ('{capacity: 5, schedule: ["night: mon"]}', "it has no values"),
        ('{capacity: 5, schedule: ["night: 1/min"]}', "it has no time"),
        ('{capacity: 5, schedule: ["n: 06:00-06:00 1/min"]}', "is empty"),
        ('{capacity: 5, schedule: ["n: sat 2026-11-27 1/min"]}', "it never holds"),
        ('{capacity: 5, schedule: ["n: mon 5/min alert 80"]}', "`alert` is of the whole limit: no entry changes it"),
        ('{capacity: 5, schedule: ["n: mon 5/week"]}', "`5/week` is of a limit of the calendar, whose window"),
        (
            '{capacity: 5, schedule: ["n: mon 5/month"]}',
            "`5/month` is of a limit of the calendar, whose window no entry",
        ),
        ('{capacity: 5, window: day, schedule: ["n: mon 5/day UTC"]}', "or `capacity 50`, after the zone"),
        ("{capacity: 5, schedule: [{name: n, capacity: 5}]}", "must be a string, not a map"),
        ('{capacity: 5, schedule: ["n: mon Europe/Nowhere 1/min"]}', "its zone must be a time zone"),
        ('{capacity: 5, schedule: ["n: mon localtime 1/min"]}', "its zone must be a time zone"),
        (
            '{capacity: 5, schedule: ["n: mon 5/min capacity 9 burst 8"]}',
            "the burst of 8 is below the capacity of 9: leave the burst out",
        ),
        ('{capacity: 5, schedule: ["n: mon 5/min", "n: tue 5/min"]}', 'has two entries named "n"'),
        (
            '{capacity: 5, schedule: ["n: mon-fri 5/min", "m: tue 5/min"]}',
            'has "m", which never holds: "n" comes first',
        ),
        ('{capacity: 5, kind: total, schedule: ["n: mon capacity 5"]}', "which `kind: total` does not"),
        ('{capacity: 5, window: day, schedule: ["n: mon 5/min"]}', "has a rate, which means nothing"),
        (
            '{capacity: 60, prefetch: 2, schedule: ["n: mon 60/min burst 61", "m: tue 60/min capacity 2"]}',
            "leaves no token",
        ),
    ],
)
def test_a_mistake_has_one_line(limit: str, problem: str) -> None:
    assert problem in problems(limit)
    assert len(problems(limit).splitlines()) == 1
