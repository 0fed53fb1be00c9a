"""The figure of `bench net`: goodput of a flow by the number of phones that send at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from fleetctl.bench.links import Spread

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 50, 60
_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7d5ba6")
_TICKS = 5


def draw(series: Mapping[str, Sequence[Spread]], title: str) -> str:
    """An SVG with one line a series, and the standard deviation as a bar at each point.

    Raises ValueError where there is nothing to draw.
    """
    points = [spread for spreads in series.values() for spread in spreads]
    if not points:
        raise ValueError("nothing was measured")
    most_phones = max(point.phones for point in points)
    top = _round_up(max(point.mean_mbits + point.deviation_mbits for point in points))

    def x(phones: float) -> float:
        return _LEFT + phones / most_phones * (_WIDTH - _LEFT - _RIGHT)

    def y(mbits: float) -> float:
        return _HEIGHT - _BOTTOM - max(0.0, mbits) / top * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for step in range(_TICKS + 1):
        value = top * step / _TICKS
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            'stroke="#dddddd"/>'
            f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    for phones in sorted({point.phones for point in points}):
        parts.append(
            f'<text x="{x(phones):.1f}" y="{_HEIGHT - _BOTTOM + 20}" '
            f'text-anchor="middle">{phones}</text>'
        )
    parts += [
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">'
        "phones at the same time</text>",
        f'<text transform="translate(18 {_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "Mb/s a flow</text>",
    ]
    for place, (name, spreads) in enumerate(series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        line = sorted(spreads, key=lambda point: point.phones)
        path = " ".join(f"{x(point.phones):.1f},{y(point.mean_mbits):.1f}" for point in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in line:
            low = y(point.mean_mbits - point.deviation_mbits)
            high = y(point.mean_mbits + point.deviation_mbits)
            here = x(point.phones)
            parts.append(
                f'<line x1="{here:.1f}" x2="{here:.1f}" y1="{low:.1f}" y2="{high:.1f}" '
                f'stroke="{colour}"/>'
                f'<circle cx="{here:.1f}" cy="{y(point.mean_mbits):.1f}" r="4" fill="{colour}"/>'
            )
        parts.append(
            f'<rect x="{_WIDTH - 190}" y="{14 + 18 * place}" width="12" height="12" '
            f'fill="{colour}"/><text x="{_WIDTH - 172}" y="{25 + 18 * place}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten, so that ticks are round."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value and power > 0.001:
        power /= 10
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value)
