"""Values that fit nowhere, and valid ones with some of their parts damaged.

Lives here: strategies for every surface. Never: the form of a surface's input.
"""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st


class Deep(list[Any]):
    """A list that is nested so deep that no report of a failure could show it."""

    def __init__(self, levels: int) -> None:
        value: Any = []
        for _ in range(levels):
            value = [value]
        super().__init__(value)
        self.levels = levels

    def __repr__(self) -> str:
        return f"Deep({self.levels})"


TEXTS = [
    *(
        "",
        " ",
        "a#b",
        "a/b",
        "auth0|1",
        "%7C",
        "e\u0301",
        "\u212a",
        "a b",
        "_",
        "_default_",
        "$SYSTEM",
        "$RESOURCE:r",
        "x" * 65,
        "x" * 300,
        "x" * 100_000,
    ),
    *("\ud800", "a\nb", "\x1b[2J", "\u202e", "é", "٣", "NaN", "null", "1e400", "{}", "__class__", "%s{0}"),
    *("2024-01-01T10:00:00.000Z", "0", "-1", "9" * 5000),
]
NUMBERS = [0, 1, -1, 2**31, 2**63, 10**15, 10**15 + 1, 10**38, 10**400, -(10**400), 1.5, float("nan"), float("inf")]
texts = st.sampled_from(TEXTS) | st.text(max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.integers(),
    texts,
)
json_junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
deep = st.builds(Deep, st.sampled_from([2, 100, 3000, 50_000]))
instants = st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), datetime(2024, 1, 1)])  # noqa: DTZ001  that is the junk
python_junk = json_junk | deep | instants | st.binary(max_size=3) | st.just(object) | st.just(1j)


@st.composite
def damaged(draw: st.DrawFn, sound: st.SearchStrategy[Any], junk: st.SearchStrategy[Any] = json_junk) -> Any:
    """A plain value of maps and lists with up to three of its parts replaced, repeated, renamed or missing."""
    value = copy.deepcopy(draw(sound))
    for _ in range(draw(st.integers(0, 3))):
        ways = list(_ways(value))
        if not ways:
            return draw(junk)
        *above, last = draw(st.sampled_from(ways))
        holder = value
        for name in above:
            holder = holder[name]
        _damage(draw, holder, last, junk)
    return value


def _damage(draw: st.DrawFn, holder: Any, last: Any, junk: st.SearchStrategy[Any]) -> None:
    match draw(st.sampled_from(["replace", "replace", "drop", "add", "wrap"])):
        case "replace":
            holder[last] = draw(junk)
        case "drop":
            del holder[last]
        case "wrap":
            holder[last] = [holder[last]]
        case "add" if isinstance(holder, dict):
            holder[draw(texts)] = draw(st.just(holder[last]) | junk)
        case _:
            holder.append(draw(st.just(holder[last]) | junk))


def _ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield (*way, name)
        yield from _ways(part, (*way, name))


@st.composite
def damaged_text(draw: st.DrawFn, sound: st.SearchStrategy[str], tokens: list[str]) -> str:
    """A text with up to six pieces taken out, repeated, or put in."""
    text = draw(sound)
    for _ in range(draw(st.integers(0, 6))):
        start, length = draw(st.integers(0, len(text))), draw(st.sampled_from([0, 0, 1, 3, 20, 200]))
        piece = text[start : start + length]
        new = draw(st.sampled_from(tokens) | st.just("") | st.just(piece * 2) | st.text(max_size=2))
        text = text[:start] + new + text[start + length :]
    return text
