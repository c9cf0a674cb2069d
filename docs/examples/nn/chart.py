"""Line charts as SVG text: axes, labels, a legend, readable on light and on dark pages. No library is needed."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 48

# A picture that a page shows as an image sees the reader's preference, not the page's colours. Every line has its own dashes, and
# lies thinner on those before it: curves that coincide all show.
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.back { fill: #ffffff } .grid { stroke: #d0d7de } .axis { stroke: #57606a }
.line { fill: none; stroke-linejoin: round }
.s0 { stroke: #74b3f0; stroke-width: 6 } .s1 { stroke: #d9480f; stroke-width: 3; stroke-dasharray: 10 6 }
.s2 { stroke: #14213d; stroke-width: 1.5; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .back { fill: #0d1117 } .grid { stroke: #30363d } .axis { stroke: #8b949e }
  .s0 { stroke: #1f6feb } .s1 { stroke: #ffa657 } .s2 { stroke: #ffffff }
}"""
STYLES = 3


@dataclass(frozen=True)
class Line:
    """One curve: its name in the legend, and a value for each x of 0, 1, 2, ..."""

    name: str
    values: Sequence[float]


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that cover low..high, evenly: steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 3.4)
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    raw = max(high - low, 1e-9) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(i * step, 10) for i in range(first, last + 1)]


def line_chart(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """The chart as an SVG document. The same values give the same text.

    Each curve keeps its values, to four places, in the attribute `data-values`.
    """
    if not 1 <= len(lines) <= STYLES:
        raise ValueError(f"{len(lines)} lines: the chart has colours for 1 to {STYLES}")
    xs = ticks(0, max(len(line.values) for line in lines) - 1)
    ys = ticks(min(0.0, *(v for line in lines for v in line.values)), max(v for line in lines for v in line.values))

    def x_of(x: float) -> float:
        return LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)

    def y_of(y: float) -> float:
        return HEIGHT - BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM)

    def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'

    bottom, right, middle = HEIGHT - BOTTOM, WIDTH - RIGHT, (TOP + HEIGHT - BOTTOM) / 2
    parts = [f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>', text(LEFT, 22, title, "start", ' class="title"')]
    for y in ys:
        parts.append(f'<path class="grid" d="M{LEFT} {y_of(y):.1f}H{right}"/>')
        parts.append(text(LEFT - 8, y_of(y) + 4, f"{y:g}", "end"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}" fill="none"/>')
    for x in xs:
        parts.append(f'<path class="axis" d="M{x_of(x):.1f} {bottom}v4"/>')
        parts.append(text(x_of(x), bottom + 18, f"{x:g}"))
    parts.append(text((LEFT + right) / 2, HEIGHT - 10, x_label))
    parts.append(text(16, middle, y_label, extra=f' transform="rotate(-90 16 {middle:.1f})"'))
    for i, line in enumerate(lines):
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in enumerate(line.values))
        kept = " ".join(f"{v:.4f}" for v in line.values)
        name = html.escape(line.name)
        parts.append(f'<polyline class="line s{i}" points="{points}" data-values="{kept}"><title>{name}</title></polyline>')
        at = TOP + 14 + 20 * i
        parts.append(f'<path class="line s{i}" d="M{right - 200} {at}h28"/>')
        parts.append(text(right - 164, at + 4, line.name, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">'
    return "\n".join([head, f"<style>\n{STYLE}\n</style>", *parts, "</svg>", ""])
