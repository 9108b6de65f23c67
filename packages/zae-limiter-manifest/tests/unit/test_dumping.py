from typing import Any

import yaml
from hypothesis import given, settings

from support.manifest.manifests import DESIGN, manifests
from zae_limiter_manifest import LimitDecl, LimitsManifest, SystemDecl, WeightsDecl, dump, dump_grouped, load
from zae_limiter_manifest.ordering import order


def test_a_manifest_is_dumped_as_people_write_it() -> None:
    assert dump(load(DESIGN)) == (
        "namespace: tenant-alpha\n"
        "system:\n"
        "  on_unavailable: allow\n"
        "  limits:\n"
        "    rpm: 10k/min\n"
        "    tpm: 100k/min\n"
        "resources:\n"
        "  gpt-4:\n"
        "    limits:\n"
        "      rpm: 1k/min\n"
        "      tpm: 50k/min burst 75k\n"
        "entities:\n"
        "  user-123:\n"
        "    resources:\n"
        "      _default_:\n"
        "        limits:\n"
        "          rpm: 200/min\n"
        "      gpt-4:\n"
        "        limits:\n"
        "          rpm: 500/min\n"
    )


@given(manifests)
@settings(max_examples=100, deadline=None)
def test_what_is_dumped_loads_as_an_equal_manifest(manifest: LimitsManifest) -> None:
    text = dump(manifest)
    assert load(text) == manifest
    assert load(text).canonical_hash() == manifest.canonical_hash()


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_what_is_dumped_is_in_order(manifest: LimitsManifest) -> None:
    for text in (dump(manifest), dump_grouped(manifest)[0]):
        assert order(text, "exported.yaml") == text


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_any_yaml_reader_reads_what_is_dumped_as_the_plain_values(manifest: LimitsManifest) -> None:
    assert LimitsManifest.from_dict(yaml.safe_load(dump(manifest))).to_dict() == manifest.to_dict()


def test_equal_manifests_give_equal_texts() -> None:
    one = LimitsManifest.from_dict({"namespace": "a", "resources": {"x": _limits(1), "y": _limits(2)}})
    other = LimitsManifest.from_dict({"resources": {"y": _limits(2), "x": _limits(1)}, "namespace": "a"})
    assert dump(one) == dump(other)


def test_words_and_numbers_are_quoted_where_they_are_names() -> None:
    text = dump(LimitsManifest.from_dict({"namespace": "No", "entities": {"1e3": {"resources": {"y": _limits(1)}}}}))
    assert [line for line in text.splitlines() if '"' in line] == ['namespace: "No"', '  "1e3":', '      "y":']


def test_a_limit_that_has_no_text_is_a_map_on_one_line() -> None:
    weights = WeightsDecl(input=0.000001, output=4)
    limits = {"tpm": LimitDecl(5, weights=weights), "usd": LimitDecl(250, window="month", timezone="Europe/Berlin")}
    text = dump(LimitsManifest("a", system=SystemDecl(limits=limits)))
    assert text.splitlines()[3:] == [
        "    tpm: {capacity: 5, weights: {input: 0.000001, output: 4}}",
        "    usd: 250/month Europe/Berlin",
    ]
    assert yaml.safe_load(text)["system"]["limits"]["tpm"]["weights"] == {"input": 1e-6, "output": 4}


def test_a_weight_of_minus_zero_is_zero() -> None:
    one, other = (SystemDecl(limits={"tpm": LimitDecl(5, weights=WeightsDecl(input=zero))}) for zero in (-0.0, 0))
    assert LimitsManifest("a", system=one).canonical_hash() == LimitsManifest("a", system=other).canonical_hash()


def _limits(capacity: int) -> dict[str, object]:
    return {"limits": {"rpm": {"capacity": capacity}}}


@given(manifests)
@settings(max_examples=50, deadline=None)
def test_what_is_dumped_in_groups_loads_as_an_equal_manifest(manifest: LimitsManifest) -> None:
    text, parts = dump_grouped(manifest)
    assert load(text) == manifest
    assert LimitsManifest.from_dict(_without_parts(yaml.safe_load(text))).to_dict() == manifest.to_dict()
    assert all(size > 1 for size in parts.values())


def test_entities_with_the_same_limits_share_a_part_the_largest_first() -> None:
    limits = {"a": 1, "b": 2, "c": 2, "d": 3, "e": 1, "f": 2}
    entities = {entity: {"resources": {"x": _limits(number)}} for entity, number in limits.items()}
    text, parts = dump_grouped(LimitsManifest.from_dict({"namespace": "some", "entities": entities}))
    assert parts == {"x-tier-1": 3, "x-tier-2": 2}
    assert text.startswith(
        "namespace: some\n"
        "x-tier-1: &tier-1\n"
        "  x:\n"
        "    limits:\n"
        "      rpm: 2/min\n"
        "x-tier-2: &tier-2\n"
        "  x:\n"
        "    limits:\n"
        "      rpm: 1/min\n"
        "entities:\n"
        "  a:\n"
        "    resources: *tier-2\n"
        "  b:\n"
        "    resources: *tier-1\n"
    )
    assert "  d:\n    resources:\n      x:\n        limits:\n          rpm: 3/min\n" in text


def _without_parts(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if not key.startswith("x-")}
