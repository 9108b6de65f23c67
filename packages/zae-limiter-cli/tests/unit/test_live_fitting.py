"""The cells of `top` on a narrow screen."""

import pytest

from zae_limiter_cli.live.fitting import cut_middle, fitted
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
    head, *found = fitted(deep, wide=wide, width=width)
    assert {len(line) for line in found} == {len(head)}
    assert len(head) <= width
    entities = [line[: head.index("RESOURCE")].rstrip() for line in found]
    assert [entity[-1] for entity in entities] == [str(depth) for depth in range(8)]  # their ends tell them apart
    assert entities[-1].startswith("…     └─ ten")
    assert "123,456" in found[0]


def test_what_fits_stays_as_it_is() -> None:
    [head, line] = fitted([("└─ ", row("key-1", by="acme/rpm"))], wide=False, width=60)
    assert head.split() == ["ENTITY", "RESOURCE", "LIMIT", "LEFT", "REFUSED"]
    assert line.split() == ["└─", "key-1", "gpt-4", "acme/rpm", "-", "123,456"]
    [_, line] = fitted([("└─ ", row("key-1"))], wide=False, width=60)
    assert line.split() == ["└─", "key-1", "gpt-4", "rpm", "░░░░", "5", "123,456"]
    assert len(fitted([], wide=False, width=60)) == 1


def test_80_columns_have_the_last_minutes_and_still_all_columns() -> None:
    long = row("tenant-" + "long-" * 9, "anthropic/claude-sonnet", by="organisation-12345/tokens-a-minute")
    [head, line] = fitted([("├─ ", long)], {long.place: "▁▂▃▄▅▆▇███!"}, wide=False, width=76)
    assert head.split() == ["ENTITY", "RESOURCE", "LIMIT", "LEFT", "REFUSED", "5", "MIN"]
    assert max(len(head), len(line)) <= 76
    assert line.endswith("▁▂▃▄▅▆▇███!")
    assert "…" in line
