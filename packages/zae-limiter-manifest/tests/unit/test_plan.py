import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.manifests import manifest_of, resource, situations
from zae_limiter_manifest import (
    Address,
    ApplyUnderWay,
    Change,
    FormatError,
    LimitsManifest,
    LiveItem,
    ManagedSet,
    Plan,
    compute_diff,
    plans_hash,
)

USER, GPT_4, OTHER = Address("gpt-4", "user-123"), Address("gpt-4"), Address("other")
PLAN = Plan(
    "tenant-alpha",
    (
        Change(GPT_4, None, resource(rpm=1)),
        Change(OTHER, resource(rpm=1), None, drift=True),
        Change(USER, resource(rpm=400), resource(rpm=500)),
    ),
    serial=7,
    manifest_hash="sha256:0",
    managed=2,
    declared=2,
)


def test_a_plan_counts_its_changes_and_tells_drift_from_what_is_pending() -> None:
    assert (PLAN.created, PLAN.updated, PLAN.deleted) == (1, 1, 1)
    assert [change.address for change in PLAN.drifted] == [OTHER]
    assert [change.address for change in PLAN.pending] == [GPT_4, USER]


def test_the_plain_values_of_a_plan_are_those_of_the_protocol() -> None:
    told = PLAN.to_dict()
    assert {key: told[key] for key in ("namespace", "serial", "manifest_hash", "created", "updated", "deleted")} == {
        "namespace": "tenant-alpha",
        "serial": 7,
        "manifest_hash": "sha256:0",
        "created": 1,
        "updated": 1,
        "deleted": 1,
    }
    assert [change["action"] for change in told["changes"]] == ["create", "delete", "update"]
    assert set(told) - {"namespace", "serial", "manifest_hash", "created", "updated", "deleted", "changes"} == {
        "managed",
        "declared",
    }


Situation = tuple[LimitsManifest, dict[Address, LiveItem], ManagedSet]


@pytest.mark.slow
@given(situations(), st.integers(0, 10**6), st.none() | st.text(min_size=1))
@settings(deadline=None)
def test_a_plan_comes_back_from_json(situation: Situation, serial: int, taken_from: str | None) -> None:
    desired, live, managed = situation
    plan = compute_diff(desired, live, managed=managed, serial=serial, taken_from=taken_from)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize("missing", ["namespace", "changes", "serial", "manifest_hash", "managed", "declared"])
def test_plain_values_that_lack_something_are_no_plan(missing: str) -> None:
    raw = {key: value for key, value in PLAN.to_dict().items() if key != missing}
    with pytest.raises(FormatError, match=f"not a plan: '{missing}' is missing"):
        Plan.from_dict(raw)


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": None},
        {"namespace": "a b"},
        {"changes": None},
        {"changes": [7]},
        {"changes": [{}]},
        {"serial": "7"},
        {"serial": -1},
        {"forgotten": ["gpt-4"]},
        {"unmanaged": 5},
        {"taken_from": 5},
    ],
    ids=str,
)
def test_plain_values_that_are_wrong_are_no_plan(wrong: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="not a plan"):
        Plan.from_dict({**PLAN.to_dict(), **wrong})


def test_the_error_shows_no_more_than_the_beginning_of_a_long_value() -> None:
    with pytest.raises(FormatError, match=r"not a plan: 'serial' must be .*x…$") as caught:
        Plan.from_dict({**PLAN.to_dict(), "serial": "x" * 100_000 + "\x1b"})
    assert len(str(caught.value)) < 400


def test_the_error_names_the_mistake_of_a_limit_in_a_change() -> None:
    raw = PLAN.to_dict()
    raw["changes"][1]["before"]["rpm"]["of-a-later-release"] = True
    with pytest.raises(FormatError, match=r"not a plan: .*: before: limits\.rpm\.of-a-later-release: unknown key "):
        Plan.from_dict(raw)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(PLAN.to_dict())), inner),
)


@given(anything)
@settings(deadline=None)
def test_no_json_raises_anything_but_a_format_error(raw: Any) -> None:
    with pytest.raises(FormatError):
        Plan.from_dict(raw)


def test_the_hash_sees_every_change_and_no_serial() -> None:
    assert evolve(PLAN, serial=8, unmanaged=(OTHER,)).changes_hash() == PLAN.changes_hash()
    others = [
        evolve(PLAN, namespace="other"),
        evolve(PLAN, changes=PLAN.changes[1:]),
        evolve(PLAN, changes=(*PLAN.changes[:2], Change(USER, resource(rpm=400), resource(rpm=501)))),
        evolve(PLAN, changes=(*PLAN.changes[:2], Change(USER, resource(rpm=401), resource(rpm=500)))),
        evolve(PLAN, forgotten=(OTHER,)),
        evolve(PLAN, taken_from="cli"),
    ]
    assert len({plan.changes_hash() for plan in (PLAN, *others)}) == len(others) + 1


UNDER_WAY = ApplyUnderWay("cli (bob)", "2026-01-01T00:15:00Z", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("under_way", [UNDER_WAY, evolve(UNDER_WAY, began_at=None)], ids=["since", "just begun"])
def test_another_apply_comes_back_from_json_and_is_in_no_hash(under_way: ApplyUnderWay) -> None:
    plan = evolve(PLAN, under_way=under_way)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    later = {**plan.to_dict(), "under_way": {**plan.to_dict()["under_way"], "more": 1}}  # of a later release
    assert Plan.from_dict(later) == plan
    assert (plan.changes_hash(), plans_hash([plan])) == (PLAN.changes_hash(), plans_hash([PLAN]))


def test_the_hash_stays_the_same_from_release_to_release() -> None:
    # A saved plan holds it: another digest would refuse every saved plan.
    assert PLAN.changes_hash() == "sha256:9b719ab022f76445fe021c6621f42048e1dcc2b5e9dff17ec6c63387a068e33e"


def deleting(deletes: int, *, of: int, declared: int) -> Plan:
    changes = tuple(Change(Address(f"r-{number}"), resource(rpm=1), None) for number in range(deletes))
    return Plan("a", changes, managed=of, declared=declared)


@pytest.mark.parametrize(
    ("deletes", "of", "declared", "reason"),
    [
        (0, 100, 100, None),
        (0, 0, 0, None),
        (3, 10, 7, None),
        (4, 10, 6, "deletes 4 of 10 managed items, over 30 %"),
        (30, 100, 70, None),
        (31, 100, 69, "deletes 31 of 100 managed items, over 30 %"),
        (8, 9, 1, None),
        (9, 9, 0, "deletes all that is managed: 9 of 9"),
        (1, 1, 0, "deletes all that is managed: 1 of 1"),
        (1, 1, 1, None),
        (10, 10, 10, "deletes 10 of 10 managed items, over 30 %"),
    ],
)
def test_a_plan_that_deletes_much_or_all_must_be_allowed(
    deletes: int, of: int, declared: int, reason: str | None
) -> None:
    assert deleting(deletes, of=of, declared=declared).why_guarded() == reason


def test_what_is_gone_already_is_not_deleted() -> None:
    plan = compute_diff(manifest_of({}), {}, managed=ManagedSet.of([GPT_4]))
    assert plan.why_guarded() is None


def test_the_hash_of_one_plan_is_its_own_and_that_of_several_depends_on_all_but_not_on_their_order() -> None:
    other, taken, forgetful = evolve(PLAN, namespace="b"), Plan("c", taken_from="x"), Plan("d", forgotten=(GPT_4,))
    assert plans_hash([PLAN]) == PLAN.changes_hash()
    assert plans_hash([PLAN, other]) == plans_hash([other, PLAN])
    several: tuple[list[Plan], ...] = (
        [],
        [PLAN],
        [other],
        [taken],
        [forgetful],
        [PLAN, other],
        [PLAN, taken],
        [PLAN, forgetful],
    )
    hashes = {plans_hash(plans) for plans in several}
    assert len(hashes) == len(several)
    assert all(len(each) == len("sha256:") + 64 for each in hashes)


def test_the_hash_of_several_plans_does_not_depend_on_those_that_change_nothing() -> None:
    assert plans_hash([PLAN, Plan("b", manifest_hash="sha256:1")]) == plans_hash([PLAN])
    assert plans_hash([Plan("b"), Plan("c")]) == plans_hash([])
