from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter_manifest import LimitsManifest, ManifestError, StackProperties, dump, load

TOKENS = [
    *"\n:,?-&*!|>'\"%@`#{}[]=~_ \t\r\x85\u2028é0179.",
    *("\n  ", "\n    ", ": ", "- ", "? ", "&a ", "*a", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "<<"),
    *("!!str ", "!!int ", "!!set ", "!!binary ", "!!timestamp ", "!!python/object:x ", "!<x> ", "! "),
    *("namespace: a", "system", "resources", "entities", "limits", "capacity", "burst", "on_unavailable"),
    *("rpm", "_default_", "{capacity: 5}", "{a: &a [*a]}", "null", "true", "yes", "1e400", ".nan", ".inf"),
    *("0x", "0b_", "0o7", "1:60:1", "2024-13-01", "0001-01-01 00:00:00 +23:59", "9" * 5000, "0x" + "f" * 5000),
]
KEYS = ["namespace", "system", "resources", "limits", "capacity", "rpm", 1, None, 1.5, ("a",)]

huge = st.builds(lambda: 10**9999)
scalars = st.none() | st.booleans() | st.integers() | huge | st.floats() | st.text(max_size=5) | st.binary(max_size=2)
plain_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


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
