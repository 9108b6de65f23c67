from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_manifest import FormatError, next_page, pack, packing, page, unpack

plain_values = st.dictionaries(st.text(), st.recursive(st.integers() | st.text(), st.lists, max_leaves=20)).filter(
    lambda plain: "packed" not in plain
)


@pytest.mark.slow
@given(plain_values, st.integers(40, 200))
def test_what_is_packed_or_paged_is_unpacked_as_it_was(plain: dict[str, object], largest: int) -> None:
    pages = [page(plain, largest=largest)]
    while (after := next_page(pages[-1])) is not None:
        pages.append(page(plain, after, largest=largest))
    assert unpack(pages) == plain
    assert unpack([pack(plain)]) == plain


def test_what_is_small_stays_as_it_is_and_what_is_large_is_compressed() -> None:
    plain = {"action": "plan", "manifest": "x" * 1000}
    assert pack(plain) == plain
    assert page(plain) == plain
    packed = pack(plain, largest=200)
    assert list(packed) == ["packed"]
    assert unpack([packed]) == plain


def test_a_request_that_is_too_large_even_so_is_refused() -> None:
    with pytest.raises(FormatError, match="too large"):
        pack({"manifest": "x" * 1000}, largest=20)


@pytest.mark.parametrize("after", ["", "abc", "0123456789abcdef:10", ":", "0123456789abcdef:x"])
def test_a_page_of_another_answer_is_refused(after: str) -> None:
    with pytest.raises(FormatError, match="has changed"):
        page({"changes": "x" * 1000}, after, largest=10)


@pytest.mark.parametrize("packed", ["junk!", "anVuaw==", "", 3, None, "eJw="])
def test_what_cannot_be_unpacked_is_told(packed: object) -> None:
    with pytest.raises(FormatError, match="cannot be unpacked"):
        unpack([{"packed": packed}])


@pytest.mark.parametrize("page", [None, [], "packed", 3])
def test_a_page_that_is_no_map_is_told(page: Any) -> None:
    with pytest.raises(FormatError, match="it is not a map"):
        unpack([page])


def test_a_missing_page_and_a_value_that_is_no_map_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [page({"changes": list(range(1000))}, largest=500)]
    with pytest.raises(FormatError, match="cut short"):
        unpack(pages)
    with pytest.raises(FormatError, match="cannot be unpacked"):
        unpack([*pages, {}])
    monkeypatch.setattr(packing, "LARGEST_UNPACKED", 100)
    with pytest.raises(FormatError, match="larger than"):
        unpack([pack({"manifest": "x" * 1000}, largest=200)])


def test_a_request_is_bounded_before_compression_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"manifest": "x" * 1000}
    packed = pack(plain, largest=200)
    assert unpack([packed], largest=2000) == plain
    with pytest.raises(FormatError, match="larger than 500 bytes"):
        unpack([packed], largest=500)
    monkeypatch.setattr(packing, "LARGEST_REQUEST", 500)
    with pytest.raises(FormatError, match="at most 500 are allowed"):
        pack(plain, largest=200)


def test_what_is_not_packed_is_told_once() -> None:
    for packed, told in ((7, "`packed` must be text"), ("x", "Invalid base64-encoded string")):
        with pytest.raises(FormatError, match=f"^cannot be unpacked: {told}"):
            unpack([{"packed": packed}])
