"""The cells of `top` on a narrow screen."""

import pytest

from zae_limiter_cli.live.fitting import AROUND, cut_middle, fitted
from zae_limiter_cli.live.rows import Place, Row


def row(entity: str, resource: str = "gpt-4", by: str = "") -> Row:
    return Row(Place(entity, resource), "rpm", 5, 60, 0.1, 1.0, 123_456, 2.0, by)


@pytest.mark.parametrize(
    ("text", "room", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdefgh", 6, "abc…gh"), ("abcdefgh", 2, "…h"), ("a" * 9, 5, "aa…aa")],
)
def test_a_name_that_is_too_long_keeps_its_begin_and_its_end(text: str, room: int, cut: str) -> None:
    assert cut_middle(text, room) == cut


@pytest.mark.parametrize("wide", [False, True])
def test_a_deep_tree_of_long_names_is_as_wide_as_the_screen(wide: bool) -> None:  # noqa: FBT001
    width = 100 if wide else 60
    long = "tenant-" + "very-long-" * 9
    deep = [("   " * depth + "└─ ", row(f"{long}{depth}", by=f"{long}/rpm")) for depth in range(8)]
    found = fitted(deep, wide=wide, width=width)
    sizes = [max(map(len, column)) for column in zip(*found, strict=True)]
    assert sum(sizes) + AROUND * len(sizes) <= width
    assert [line[0][-1] for line in found] == [str(depth) for depth in range(8)]  # their ends tell them apart
    assert found[-1][0].startswith("…     └─ ten")
    assert "123,456" in found[0]


def test_what_fits_stays_as_it_is() -> None:
    [line] = fitted([("└─ ", row("key-1", by="acme/rpm"))], wide=False, width=60)
    assert (line[0], line[1], line[-1]) == ("└─ key-1", "gpt-4", "acme/rpm")
    assert fitted([], wide=False, width=60) == []
