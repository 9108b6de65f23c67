from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.manifests import limits, resource, resources, systems
from zae_limiter_manifest import Address, Change, LimitDecl, ManifestError, ResourceDecl, SystemDecl, fingerprint
from zae_limiter_manifest.changes import FieldChange

SYSTEM, GPT_4, USER = Address(), Address("gpt-4"), Address("gpt-4", "user-123")


def test_the_action_follows_from_before_and_after() -> None:
    assert Change(GPT_4, None, resource(rpm=1)).action == "create"
    assert Change(GPT_4, resource(rpm=1), resource(rpm=2)).action == "update"
    assert Change(GPT_4, resource(rpm=1), None).action == "delete"


def test_nothing_can_be_a_change_and_equal() -> None:
    with pytest.raises(ValueError, match="resource gpt-4 is equal before and after"):
        Change(GPT_4, resource(rpm=1), resource(rpm=1))
    with pytest.raises(ValueError, match="is equal before and after"):
        Change(GPT_4, None, None, adopted=True)


def test_an_adopted_item_gets_its_fingerprint_though_its_limits_stay() -> None:
    adopted = Change(GPT_4, resource(rpm=1), resource(rpm=1), adopted=True)
    assert (adopted.action, adopted.fields()) == ("update", ())
    with pytest.raises(ValueError, match="adopted"):
        Change(GPT_4, None, resource(rpm=1), adopted=True)


@pytest.mark.parametrize("decl", [SystemDecl(on_unavailable="allow"), "rpm", {}])
def test_what_cannot_stand_at_an_address_is_refused(decl: Any) -> None:
    with pytest.raises(TypeError, match="resource gpt-4 requires a ResourceDecl"):
        Change(GPT_4, None, decl)


def test_a_field_that_follows_the_capacity_is_not_said() -> None:
    assert Change(GPT_4, resource(rpm=500), resource(rpm=600)).fields() == (FieldChange("rpm", "capacity", 500, 600),)


def test_every_other_field_is_said_with_what_it_was_and_is_to_be() -> None:
    before = ResourceDecl({"a": LimitDecl(5), "c": LimitDecl(5, burst=9), "d": LimitDecl(1, refill_period=1)})
    after = ResourceDecl({"b": LimitDecl(7, refill_period=1), "c": LimitDecl(6), "d": LimitDecl(1)})
    assert Change(GPT_4, before, after).fields() == (
        FieldChange("a", "capacity", 5, None),
        FieldChange("b", "capacity", None, 7),
        FieldChange("b", "refill_period", None, 1),
        FieldChange("c", "capacity", 5, 6),
        FieldChange("c", "burst", 9, 6),
        FieldChange("d", "refill_period", 1, 60),
    )


def test_the_mark_of_a_shadow_limit_is_said_in_words() -> None:
    before = ResourceDecl({"a": LimitDecl(5, shadow=True), "b": LimitDecl(5), "c": LimitDecl(5, shadow=True)})
    after = ResourceDecl({"a": LimitDecl(5), "b": LimitDecl(5, shadow=True), "d": LimitDecl(5, shadow=True)})
    assert Change(GPT_4, before, after).fields() == (
        FieldChange("a", "mode", "shadow", "enforced"),
        FieldChange("b", "mode", "enforced", "shadow"),
        FieldChange("c", "capacity", 5, None),
        FieldChange("c", "mode", "shadow", None),
        FieldChange("d", "capacity", None, 5),
        FieldChange("d", "mode", None, "shadow"),
    )


def test_on_unavailable_is_a_field_of_no_limit() -> None:
    before, after = SystemDecl(on_unavailable="allow"), SystemDecl(limits={"rpm": LimitDecl(1)})
    assert Change(SYSTEM, before, after).fields() == (
        FieldChange(None, "on_unavailable", "allow", None),
        FieldChange("rpm", "capacity", None, 1),
    )


@given(resources, resources)
@settings(deadline=None)
def test_a_change_of_limits_has_a_field(before: ResourceDecl, after: ResourceDecl) -> None:
    if before != after:
        assert Change(GPT_4, before, after).fields()


def test_the_entry_of_an_update_is_that_of_the_protocol() -> None:
    assert Change(USER, resource(rpm=400), resource(rpm=500)).to_dict() == {
        "action": "update",
        "level": "entity",
        "entity": "user-123",
        "resource": "gpt-4",
        "target": "user-123/gpt-4",
        "limits": {"rpm": {"capacity": 500}},
        "before": {"rpm": {"capacity": 400}},
        "drift": False,
    }


def test_the_entry_of_the_system_has_no_target_and_tells_its_on_unavailable() -> None:
    change = Change(SYSTEM, SystemDecl(on_unavailable="block"), SystemDecl(on_unavailable="allow"), drift=True)
    assert change.to_dict() == {
        "action": "update",
        "level": "system",
        "entity": None,
        "resource": None,
        "target": None,
        "limits": {},
        "on_unavailable": "allow",
        "before": {},
        "before_on_unavailable": "block",
        "drift": True,
    }


def test_a_side_where_nothing_stands_is_absent() -> None:
    assert "limits" not in Change(GPT_4, resource(rpm=1), None).to_dict()
    assert "before" not in Change(GPT_4, None, resource(rpm=1)).to_dict()


sides = st.tuples(st.just(SYSTEM), st.none() | systems, st.none() | systems) | st.tuples(
    st.sampled_from([GPT_4, USER]), st.none() | resources, st.none() | resources
)


@given(sides, st.booleans())
@settings(deadline=None)
def test_an_entry_comes_back_as_the_change(side: tuple[Address, Any, Any], drift: bool) -> None:  # noqa: FBT001
    address, before, after = side
    if before != after:
        change = Change(address, before, after, drift=drift)
        assert Change.from_dict(change.to_dict()) == change
    if before is not None:
        adopted = Change(address, before, before, adopted=True)
        assert Change.from_dict(adopted.to_dict()) == adopted


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "delete"},
        {"drift": "no"},
        {"adopted": 1},
        {"resource": "a b"},
        {"entity": "user-1"},
        {"limits": {}},
        {"limits": {"rpm": {"capacity": -1}}},
        {"limits": {"rpm": {"capacity": 1, "more": 1}}},
        {"limits": {"rpm": {"capacity": 1, "shadow": "true"}}},
        {"before": []},
    ],
    ids=str,
)
def test_an_entry_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    entry = Change(GPT_4, None, resource(rpm=1)).to_dict()
    with pytest.raises((ValueError, TypeError)):
        Change.from_dict({**entry, **wrong})


def test_a_bad_limit_in_an_entry_is_named_with_its_address() -> None:
    entry = Change(GPT_4, None, resource(rpm=1)).to_dict()
    with pytest.raises(ManifestError, match=r"resource gpt-4: limits: limits\.rpm\.capacity: must be at least 0"):
        Change.from_dict({**entry, "limits": {"rpm": {"capacity": -1}}})


def test_a_fingerprint_stays_the_same_from_release_to_release() -> None:
    # Stored beside the limits in the table: another digest would make everything look changed by hand.
    assert fingerprint(resource(rpm=5, tpm=7)) == "0888f86460b2340fe882247af1f867bc"
    assert fingerprint(SystemDecl(on_unavailable="allow")) == "5eac03c4c745ab2a0470f59b7e9dd731"


@given(limits, limits)
def test_fingerprints_are_equal_just_where_declarations_are(one: LimitDecl, other: LimitDecl) -> None:
    left, right = ResourceDecl({"rpm": one}), ResourceDecl({"rpm": other})
    assert (fingerprint(left) == fingerprint(right)) is (left == right)


def test_a_fingerprint_sees_names_fields_and_on_unavailable() -> None:
    told: list[SystemDecl | ResourceDecl] = [
        resource(rpm=5),
        resource(tpm=5),
        resource(rpm=5, tpm=5),
        ResourceDecl({"rpm": LimitDecl(5, burst=6)}),
        ResourceDecl({"rpm": LimitDecl(5, refill_amount=6)}),
        ResourceDecl({"rpm": LimitDecl(5, refill_period=6)}),
        ResourceDecl({"rpm": LimitDecl(5, shadow=True)}),
        SystemDecl(limits={"rpm": LimitDecl(5)}, on_unavailable="allow"),
        SystemDecl(limits={"rpm": LimitDecl(5)}, on_unavailable="block"),
    ]
    assert len(set(map(fingerprint, told))) == len(told)
