"""Draw what charts share: a field with two axes, its ticks, and lines of figures over it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .svg import box, dot, line, text

LEFT: Final = 60
RIGHT: Final = 412
TOP: Final = 84
BOTTOM: Final = 250
Scale = Callable[[float], float]


def linear(low: float, high: float) -> Scale:
    """Return a scale from figures to 0 … 1."""
    return lambda figure: (figure - low) / (high - low)


def logarithmic(low: float, high: float) -> Scale:
    """Return a scale from figures to 0 … 1 on which each factor of ten is as wide as any other."""
    return lambda figure: math.log(figure / low) / math.log(high / low)


@dataclass(frozen=True, slots=True)
class Field:
    """The place of a chart's lines; ``x`` and ``y`` are its scales."""

    x: Scale
    y: Scale

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the point of two figures in the picture."""
        return round(LEFT + self.x(x) * (RIGHT - LEFT), 1), round(BOTTOM - self.y(y) * (BOTTOM - TOP), 1)

    def axes(self, across: Mapping[float, str], up: Mapping[float, str]) -> Iterator[str]:
        """Yield the ticks of both axes, and a thin line for each of those that go up."""
        for figure, words in up.items():
            y = round(BOTTOM - self.y(figure) * (BOTTOM - TOP), 1)
            yield line([(LEFT, y), (RIGHT, y)], "grid")
            yield text(LEFT - 6, y + 4, words, "small", anchor="end")
        for figure, words in across.items():
            place = round(LEFT + self.x(figure) * (RIGHT - LEFT), 1)
            yield text(place, BOTTOM + 18, words, "small", anchor="middle")

    def curve(self, points: Sequence[tuple[float, float]], series: int) -> Iterator[str]:
        """Yield a line through figures, with a dot at each."""
        placed = [self.at(*point) for point in points]
        yield line(placed, f"line s{series}")
        yield from (dot(x, y, f"dot s{series}") for x, y in placed)


def heading(title: str, about: str) -> Iterator[str]:
    """Yield the first lines of a chart."""
    yield text(16, 24, title, "title")
    yield text(16, 42, about, "small")


def legend(names: Sequence[str], *, y: float = 62, x: float = 16) -> Iterator[str]:
    """Yield a name for each series, behind a patch of its colour."""
    for number, name in enumerate(names):
        yield box(x, y - 9, 10, 10, f"bar s{number}")
        yield text(x + 15, y, name, "small")
        x += 15 + 7 * len(name) + 14
