import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.manifests import DESIGN, resource
from zae_limiter_manifest import (
    Address,
    Answer,
    Change,
    Failure,
    FormatError,
    LimitsManifest,
    ManifestError,
    Plan,
    manifest_failures,
)

USER = Address("gpt-4", "user-123")
PLAN = Plan(
    "tenant-alpha",
    (Change(USER, resource(rpm=400), resource(rpm=500)),),
    serial=7,
    manifest_hash="sha256:0",
    managed=1,
    declared=1,
)
WRONG = Failure("not_written", "the table is away", address=USER)


def test_the_answer_to_a_plan_is_that_of_the_protocol() -> None:
    assert Answer.planned(PLAN).to_dict() == {
        "status": "planned",
        "namespace": "tenant-alpha",
        "serial": 7,
        "manifest_hash": "sha256:0",
        "changes": [
            {
                "action": "update",
                "level": "entity",
                "entity": "user-123",
                "resource": "gpt-4",
                "target": "user-123/gpt-4",
                "limits": {"rpm": {"capacity": 500}},
                "before": {"rpm": {"capacity": 400}},
                "drift": False,
            }
        ],
        "created": 0,
        "updated": 1,
        "deleted": 0,
        "managed": 1,
        "declared": 1,
        "errors": [],
    }


def test_the_status_of_an_apply_follows_from_what_was_made_and_what_went_wrong() -> None:
    nothing = Plan("tenant-alpha")
    assert Answer.applied(PLAN).status == "applied"
    assert Answer.applied(nothing).status == "applied"
    assert Answer.applied(PLAN, errors=[WRONG]).status == "partial"
    assert Answer.applied(nothing, errors=[WRONG]).status == "failed"
    assert Answer.applied(PLAN, remaining=3).to_dict()["remaining"] == 3


def test_an_answer_without_a_manifest_has_no_plan() -> None:
    with pytest.raises(ManifestError) as caught:
        LimitsManifest.from_dict({"namespace": "1", "systems": {}})
    told = Answer.failed(manifest_failures(caught.value)).to_dict()
    assert (told["status"], told["namespace"], told["changes"], told["created"]) == ("failed", None, [], 0)
    assert [error["path"] for error in told["errors"]] == ["namespace", "systems"]


@pytest.mark.parametrize(
    "answer",
    [
        Answer.planned(PLAN),
        Answer.applied(PLAN, errors=[WRONG, Failure("other", "words", path="system.limits")], remaining=3),
        Answer.failed([Failure("unknown_action", "there is no action 'x'")]),
        Answer.failed([Failure("locked", "cli is applying")], namespace="tenant-alpha"),
        Answer.failed([WRONG], PLAN),
    ],
    ids=lambda answer: answer.status,
)
def test_an_answer_comes_back_from_json(answer: Answer) -> None:
    assert Answer.from_dict(json.loads(json.dumps(answer.to_dict()))) == answer


def test_an_answer_names_its_namespace_with_and_without_a_plan() -> None:
    assert (Answer.planned(PLAN).namespace, Answer.failed([WRONG], PLAN).namespace) == ("tenant-alpha",) * 2
    refused = Answer.failed([WRONG], namespace="tenant-beta")
    assert (refused.namespace, refused.plan, refused.to_dict()["namespace"]) == ("tenant-beta", None, "tenant-beta")
    assert Answer.failed([WRONG]).to_dict()["namespace"] is None


def test_what_a_newer_lambda_says_besides_is_passed_over() -> None:
    assert Answer.from_dict({**Answer.planned(PLAN).to_dict(), "next": "x"}) == Answer.planned(PLAN)


@pytest.mark.parametrize(
    "wrong",
    [{"status": "fine"}, {"errors": [{"code": "x"}]}, {"errors": None}, {"serial": "x"}, {"remaining": -1}],
    ids=str,
)
def test_plain_values_that_are_wrong_are_no_answer(wrong: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"not an? (answer|failure|plan): "):
        Answer.from_dict({**Answer.planned(PLAN).to_dict(), **wrong})


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)))
@settings(deadline=None)
def test_no_json_raises_anything_but_a_format_error(raw: Any) -> None:
    for read in (Answer.from_dict, Failure.from_dict):
        with pytest.raises(FormatError):
            read(raw)


def test_a_failure_names_its_place_as_a_change_does() -> None:
    assert WRONG.to_dict() == {
        "code": "not_written",
        "message": "the table is away",
        "level": "entity",
        "entity": "user-123",
        "resource": "gpt-4",
        "target": "user-123/gpt-4",
    }


def test_a_whole_manifest_travels_as_plain_values() -> None:
    manifest = LimitsManifest.from_yaml(DESIGN)
    assert LimitsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest
