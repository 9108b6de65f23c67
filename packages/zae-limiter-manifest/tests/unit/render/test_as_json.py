import json
from typing import Any

import pytest

from support.manifest.manifests import resource
from zae_limiter_manifest import Address, Answer, Change, Failure, ManifestError, Plan, load, plans_hash
from zae_limiter_manifest.render import as_json

USER, GONE, LEFT = Address("gpt-4", "user-123"), Address("gone"), Address("left")
PLAN = Plan(
    "tenant-alpha",
    (Change(GONE, None, resource(rpm=1), drift=True), Change(USER, resource(rpm=500), resource(rpm=600))),
    serial=7,
    manifest_hash="sha256:0",
    managed=2,
    declared=2,
    unmanaged=(LEFT,),
)
FIELDS = [{"limit": "rpm", "field": "capacity", "before": 500, "after": 600}]


def read(text: str, kind: str) -> Any:
    document = json.loads(text)
    assert (document.pop("schema_version"), document.pop("kind")) == (1, kind)
    return document


def test_a_plan_is_its_plain_values_with_the_fields_of_every_change_and_its_hash() -> None:
    document = read(as_json.render_plan(PLAN, Plan("b")), "plan")
    (told, empty) = document["namespaces"]
    assert document["hash"] == plans_hash([PLAN, Plan("b")])
    assert told["changes"][1]["fields"] == FIELDS
    assert (told["changes_hash"], told["guarded"]) == (PLAN.changes_hash(), None)
    assert Plan.from_dict(told) == PLAN
    assert empty["changes"] == []


def test_drift_is_apart_from_what_is_pending() -> None:
    (told,) = read(as_json.render_drift(PLAN), "drift")["namespaces"]
    assert [change["target"] for change in told["drifted"]] == ["gone"]
    assert [change["target"] for change in told["pending"]] == ["user-123/gpt-4"]
    assert told["pending"][0]["fields"] == FIELDS
    assert told["unmanaged"] == [LEFT.to_dict()]
    assert (told["namespace"], told["serial"], told["manifest_hash"]) == ("tenant-alpha", 7, "sha256:0")


def test_an_apply_is_the_answer_with_the_fields_of_every_change() -> None:
    answer = Answer.applied(PLAN, errors=[Failure("not_written", "away", address=USER)])
    bad = Answer.failed([Failure("x", "\x1b[31m")])
    told, failed = read(as_json.render_applied(answer, bad), "applied")["namespaces"]
    assert (told["status"], told["remaining"], told["changes"][1]["fields"]) == ("partial", 0, FIELDS)
    assert Answer.from_dict(told) == answer
    assert Answer.from_dict(failed) == bad
    assert "\x1b" not in as_json.render_applied(bad)


def test_problems_are_listed_with_their_places() -> None:
    with pytest.raises(ManifestError) as caught:
        load("namespace: a\nsystems: {}", "a.yaml")
    (problem,) = read(as_json.render_problems(caught.value.problems), "problems")["problems"]
    assert problem == {
        "file": "a.yaml",
        "line": 2,
        "column": 1,
        "path": "systems",
        "message": 'unknown key "systems", did you mean `system`?',
    }
