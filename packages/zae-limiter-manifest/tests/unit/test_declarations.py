import pickle

import attrs
import pytest

from zae_limiter_manifest import EntityDecl, LimitDecl, LimitsManifest, ManifestError, ResourceDecl, SystemDecl

LIMITS = {"rpm": LimitDecl(10)}


def test_burst_and_refill_default_to_the_capacity_a_minute() -> None:
    assert LimitDecl(10) == LimitDecl(10, burst=10, refill_amount=10, refill_period=60)


def test_a_limit_with_several_mistakes_tells_them_all() -> None:
    with pytest.raises(ManifestError) as caught:
        LimitDecl(10, burst=9, refill_amount=True, refill_period=0)
    assert [problem.path for problem in caught.value.problems] == ["refill_amount", "refill_period", "burst"]


def test_declarations_are_frozen_hashable_and_picklable() -> None:
    entity = EntityDecl({"gpt-4": ResourceDecl(LIMITS)})
    assert hash(entity) == hash(EntityDecl({"gpt-4": ResourceDecl(LIMITS)}))
    assert pickle.loads(pickle.dumps(entity)) == entity
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        entity.resources = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        entity.resources["x"] = ResourceDecl(LIMITS)  # type: ignore[index]


def test_a_declaration_does_not_follow_the_map_it_was_made_of() -> None:
    limits = dict(LIMITS)
    resource = ResourceDecl(limits)
    limits["tpm"] = LimitDecl(5)
    assert resource == ResourceDecl(LIMITS)


def test_bad_names_and_empty_maps_are_refused() -> None:
    with pytest.raises(ManifestError, match='"wcu" is a reserved name'):
        ResourceDecl({"wcu": LimitDecl(1)})
    with pytest.raises(ManifestError, match="limits: must not be empty"):
        ResourceDecl({})
    with pytest.raises(ManifestError, match="resources: must not be empty"):
        LimitsManifest.from_dict({"namespace": "a", "entities": {"u": {"resources": {}}}})
    with pytest.raises(ManifestError, match="must be 1 to 128 printable characters"):
        EntityDecl({"gpt 4": ResourceDecl(LIMITS)})
    with pytest.raises(ManifestError, match="must be `allow`, `block` or `share`"):
        SystemDecl(on_unavailable="allowed")  # type: ignore[arg-type]
    with pytest.raises(ManifestError, match='"wcu" is a reserved name'):
        SystemDecl(limits={"wcu": LimitDecl(1)})


def test_a_value_of_the_wrong_class_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        ResourceDecl({"rpm": 5})
    with pytest.raises(TypeError):
        EntityDecl({"gpt-4": LimitDecl(5)})


def test_a_system_may_say_either_thing() -> None:
    assert SystemDecl(on_unavailable="block").limits == {}
    assert SystemDecl(limits=LIMITS).on_unavailable is None
