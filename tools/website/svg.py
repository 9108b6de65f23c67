"""Write small SVG pictures: shapes as text, with a background of their own, in light and in dark."""

from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

STYLE: Final = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px; fill: #59636e }
  .title { font-weight: 600 }
  .line { fill: none; stroke: #0969da; stroke-width: 2 }
  .level { fill: #0969da; opacity: 0.25 }
  .axis { stroke: #8c959f }
  .limit { stroke: #8c959f; stroke-dasharray: 4 4 }
  .yes { fill: #1a7f37 }
  .no { fill: #cf222e }
  .arrow { fill: none; stroke: #59636e; stroke-width: 1.5 }
  .box { fill: none; stroke: #59636e }
  .grid { fill: none; stroke: #d0d7de }
  .s0 { --series: #0969da }
  .s1 { --series: #bc4c00 }
  .s2 { --series: #6e7781 }
  .s3 { --series: #8250df }
  .line.s0, .line.s1, .line.s2, .line.s3 { stroke: var(--series) }
  .bar, .dot { fill: var(--series) }
  .band { fill: var(--series); opacity: 0.25 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .line { stroke: #4493f8 }
    .level { fill: #4493f8 }
    .yes { fill: #3fb950 }
    .no { fill: #f85149 }
    .arrow, .box { stroke: #9198a1 }
    .grid { stroke: #3d444d }
    .s0 { --series: #4493f8 }
    .s1 { --series: #f0883e }
    .s2 { --series: #9198a1 }
    .s3 { --series: #ab7df8 }
  }
"""
_MARKER: Final = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="small" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def picture(title: str, width: int, height: int, shapes: Iterable[str], description: str = "") -> str:
    """Return an SVG with a title and a description that screen readers say."""
    named = 'aria-labelledby="title description"' if description else 'aria-labelledby="title"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {named}>'
    said = [f'<title id="title">{escape(title)}</title>']
    said += [f'<desc id="description">{escape(description)}</desc>'] if description else []
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    return "\n".join([head, *said, f"<style>{STYLE}</style>", _MARKER, card, *shapes, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    """Return words at a point; ``anchor`` is start, middle or end."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def line(points: Sequence[tuple[float, float]], kind: str = "line") -> str:
    """Return a line through points."""
    return f'<polyline class="{kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a line with a head at its end."""
    return f'<path class="arrow" d="M{start[0]:g} {start[1]:g} L{end[0]:g} {end[1]:g}" marker-end="url(#head)"/>'


def dot(x: float, y: float, kind: str) -> str:
    """Return a dot."""
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="4.5"/>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """Return a rectangle."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'
