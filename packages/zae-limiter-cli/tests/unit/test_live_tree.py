"""The rows of `top` as a tree: pure."""

import pytest

from zae_limiter_cli.live.rows import Place, Row
from zae_limiter_cli.live.tree import Parents, lines_of


def rows(*names: str) -> list[Row]:
    """A row for each `entity` or `entity/resource`."""
    places = [Place(*f"{name}/r".split("/")[:2]) for name in names]
    return [Row(place, "rpm", 1, 1, 1.0, None, 0, None, "") for place in places]


@pytest.mark.parametrize(
    ("shown", "parents", "lines"),
    [
        (["b", "a"], {}, ["b", "a"]),
        (["key", "other", "acme"], {"key": ["acme"]}, ["acme", "`- key", "other"]),  # where the key was
        (["c", "b", "a"], {"c": ["b"], "b": ["a"]}, ["a", "`- b", "   `- c"]),
        (["c", "a"], {"c": ["b"], "b": ["a"]}, ["c", "a"]),  # its parent is not shown
        (["key", "a", "b"], {"key": ["a", "b"]}, ["a", "`- key", "b", "`- key"]),
        (["y", "x", "acme"], {"x": ["acme"], "y": ["acme"]}, ["acme", "|- y", "`- x"]),
        # a subtree stands where its first row would: the refused key first, below a team that is refused less
        (["y2", "x", "y", "acme"], {"x": ["acme"], "y": ["acme"], "y2": ["y"]}, ["acme", "|- y", "|  `- y2", "`- x"]),
        (["d", "b", "c", "a"], {"d": ["b", "c"], "b": ["a"], "c": ["a"]}, ["a", "|- b", "|  `- d", "`- c", "   `- d"]),
        (["key/r1", "acme/r2", "key/r2"], {"key": ["acme"]}, ["key", "acme", "`- key"]),  # each resource by itself
        ([], {"key": ["acme"]}, []),
    ],
)
def test_rows_are_below_the_parents_that_are_shown(shown: list[str], parents: Parents, lines: list[str]) -> None:
    found = lines_of(rows(*shown), parents, symbols=False)
    assert [f"{lead}{row.place.entity_id}" for lead, row in found] == lines


@pytest.mark.parametrize("parents", [{"a": ["b"], "b": ["a"]}, {"a": ["a"]}, {"a": ["b"], "b": ["a"], "c": ["b"]}])
def test_records_that_were_read_while_an_entity_moved_hide_nobody(parents: Parents) -> None:
    found = {row.place.entity_id for _, row in lines_of(rows("a", "b", "c"), parents, symbols=True)}
    assert found == {"a", "b", "c"}
