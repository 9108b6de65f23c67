from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_manifest.delegation import alias_of, namespace_of

NAMESPACES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-]{0,40}", fullmatch=True)


@pytest.mark.parametrize(
    ("namespace", "alias"),
    [("tenant-alpha", "ns-tenant-alpha"), ("a.b", "ns-a_db"), ("a_b", "ns-a__b"), ("a_db", "ns-a__db"), ("T", "ns-T")],
)
def test_an_alias_reads_as_its_namespace(namespace: str, alias: str) -> None:
    assert alias_of(namespace) == alias
    assert namespace_of(alias) == namespace


@given(NAMESPACES)
def test_every_namespace_comes_back_from_its_alias_which_lambda_takes(namespace: str) -> None:
    alias = alias_of(namespace)
    assert namespace_of(alias) == namespace
    assert alias.replace("-", "").replace("_", "").isalnum()
    assert len(alias) <= 128


@given(st.text(st.sampled_from("ad_-.7$"), max_size=9))
def test_no_namespace_has_a_second_alias(rest: str) -> None:
    namespace = "?"
    with suppress(ValueError):
        namespace = namespace_of(f"ns-{rest}") or "?"
    assert namespace == "?" or alias_of(namespace) == f"ns-{rest}"


@pytest.mark.parametrize("alias", ["live", "$LATEST", "7", "NS-a", "ns_a", ""])
def test_other_aliases_are_of_no_namespace(alias: str) -> None:
    assert namespace_of(alias) is None


@pytest.mark.parametrize("alias", ["ns-", "ns-a_x", "ns-a_", "ns-7", "ns-a.b", "ns-a b"])
def test_an_alias_that_names_no_namespace_is_an_error(alias: str) -> None:
    with pytest.raises(ValueError, match="names no namespace"):
        namespace_of(alias)


@pytest.mark.parametrize("namespace", ["", "7a", "a b", "a:b", 7, None, "a" * 65])
def test_a_name_of_no_namespace_has_no_alias(namespace: Any) -> None:
    with pytest.raises(ValueError, match="namespace "):
        alias_of(namespace)


def test_a_name_whose_alias_is_too_long_is_refused() -> None:
    assert len(alias_of("a" + "_" * 62)) == 128
    with pytest.raises(ValueError, match="its alias has 130 characters, and Lambda takes 128"):
        alias_of("a" + "." * 63)
