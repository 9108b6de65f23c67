from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.any_input import TOKENS, plain_values
from zae_limiter_manifest import LimitsManifest, ManifestError, StackProperties, dump, load


def assert_loads_or_refuses(read: Callable[[Any], LimitsManifest], value: object) -> None:
    outcome: LimitsManifest | ManifestError
    try:
        outcome = read(value)
    except ManifestError as error:
        outcome = error
    assert str(outcome) if isinstance(outcome, ManifestError) else load(dump(outcome)) == outcome


@given(st.text(st.characters(exclude_categories=[])))
@settings(max_examples=300, deadline=None)
def test_no_text_raises_anything_but_a_manifest_error(text: str) -> None:
    assert_loads_or_refuses(load, text)


@given(st.binary(max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise_anything_but_a_manifest_error(raw: bytes) -> None:
    assert_loads_or_refuses(load, raw)


@given(plain_values)
@settings(max_examples=200, deadline=None)
def test_no_properties_raise_anything_but_a_manifest_error(raw: object) -> None:
    assert_loads_or_refuses(lambda raw: StackProperties.from_dict(raw).manifest, raw)


@given(
    st.sampled_from(["", "namespace: a\nresources:\n  "]), st.lists(st.sampled_from(TOKENS), max_size=25).map("".join)
)
@settings(max_examples=600, deadline=None)
def test_no_yaml_raises_anything_but_a_manifest_error(before: str, text: str) -> None:
    assert_loads_or_refuses(load, before + text)


@given(plain_values)
@settings(max_examples=200, deadline=None)
def test_no_plain_value_raises_anything_but_a_manifest_error(raw: object) -> None:
    assert_loads_or_refuses(LimitsManifest.from_dict, raw)
