# SPDX-License-Identifier: Apache-2.0
"""Pictures as SVG: senders on the left, the switch with its policers and queues, receivers on the right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape

from weir.diagram.picture import Host, Picture, Route

WIDTH = 1000
_MARGIN, _GAP, _LINE = 20, 18, 16
_HOST, _POLICER, _QUEUE = 230, 150, 140
_LETTER = 6.6
"""Average width of a letter of the small font, estimated on the large side."""
_SWITCH_LEFT, _SWITCH_RIGHT = 340, 710
_RIGHT = WIDTH - _MARGIN - 180
_COLOURS = 4

# A light and a dark palette; contrast with the background is above 3 for lines and 7 for text (WCAG 2.2).
_STYLE = """\
:root{--ground:#fff;--ink:#1b1f24;--soft:#57606a;--box:#f3f5f7;--edge:#8b949e;--w0:#0b62c4;--w1:#b35900;\
--w2:#1a7f37;--w3:#8250df;--none:#57606a}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9da7b1;--box:#1b222b;\
--edge:#6e7681;--w0:#58a6ff;--w1:#f0883e;--w2:#56d364;--w3:#bc8cff;--none:#9da7b1}}
text{font:13px system-ui,sans-serif;fill:var(--ink)}.b{font-weight:600}.s{font-size:12px;fill:var(--soft)}
.t{font-size:15px;font-weight:600}.box{fill:var(--box);stroke:var(--edge)}.switch{fill:none;stroke:var(--edge);\
stroke-dasharray:2 3}.link{stroke:var(--edge)}.way{fill:none;stroke-width:2}.back{stroke-dasharray:7 4}"""


@dataclass
class _Canvas:
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        if text:
            css = f' class="{kind}"' if kind else ""
            end = f' text-anchor="{anchor}"' if anchor != "start" else ""
            self.parts.append(f'<text{css} x="{x:g}" y="{y:g}"{end}>{escape(text)}</text>')

    def link(self, x: float, to_x: float, y: float) -> None:
        self.parts.append(f'<path class="link" d="M{x:g} {y:g}H{to_x:g}"/>')

    def route(
        self, points: Sequence[tuple[float, float]], colour: str, background: bool, arrow: bool
    ) -> None:
        (x, y), rest = points[0], points[1:]
        path = [f"M{x:g} {y:g}"]
        for to_x, to_y in rest:
            middle = (x + to_x) / 2
            path.append(f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}")
            x, y = to_x, to_y
        css = "way back" if background else "way"
        end = f' marker-end="url(#{colour})"' if arrow else ""
        self.parts.append(f'<path class="{css}" style="stroke:var(--{colour})" d="{"".join(path)}"{end}/>')


def svg(pictures: Sequence[Picture]) -> str:
    """One SVG file with the pictures below each other."""
    canvas = _Canvas()
    y = float(_MARGIN)
    for picture in pictures:
        y = _draw(canvas, picture, y) + 2 * _GAP
    height = y - 2 * _GAP + _MARGIN
    colours = [*(f"w{number}" for number in range(_COLOURS)), "none"]
    arrows = "".join(
        f'<marker id="{colour}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" '
        f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" style="fill:var(--{colour})"/></marker>'
        for colour in colours
    )
    titles = "; ".join(picture.title for picture in pictures)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img">\n<title>{escape(titles)}</title>\n<style>{_STYLE}</style>\n'
        f"<defs>{arrows}</defs>\n"
        f'<rect width="{WIDTH}" height="{height:g}" style="fill:var(--ground)"/>\n'
        + "\n".join(canvas.parts)
        + "\n</svg>\n"
    )


def _height(lines: int) -> float:
    return 30 + _LINE * lines


def _stack(heights: Iterable[float], top: float, room: float) -> list[float]:
    """Top edges of boxes stacked with gaps, centred in a column of height `room`."""
    found = list(heights)
    y = top + max(0.0, (room - sum(found) - _GAP * (len(found) - 1)) / 2)
    tops = []
    for height in found:
        tops.append(y)
        y += height + _GAP
    return tops


def _room(heights: Iterable[float]) -> float:
    found = list(heights)
    return sum(found) + _GAP * max(0, len(found) - 1)


def wrapped(lines: Iterable[str], width: float) -> list[str]:
    """Lines that fit into a box, broken after commas and before "=" where they are too long."""
    found: list[str] = []
    for line in lines:
        found.append("")
        for piece in re.split(r"(?<=, )|(?= = )", line):
            if found[-1] and len(found[-1] + piece) * _LETTER > width - 16:
                found.append("")
            found[-1] += piece if found[-1] else piece.lstrip()
    return [line.rstrip() for line in found]


def _fitted(host: Host) -> Host:
    width = _HOST if host.left else WIDTH - _MARGIN - _RIGHT
    return replace(host, lines=tuple(wrapped(host.lines, width)), queue=tuple(wrapped(host.queue, _QUEUE)))


def _host_height(host: Host) -> float:
    return max(_height(len(host.lines)), _height(len(host.queue) - 1) if host.queue else 0.0)


def _to_host(text: str, left: bool) -> str:
    """With an arrow to the host: delay and loss of a link are those of the frames to the host only."""
    if not text:
        return ""
    return f"← {text}" if left else f"{text} →"


def _draw(canvas: _Canvas, picture: Picture, top: float) -> float:
    """Draw one picture from `top` down; returns its bottom edge."""
    canvas.text(_MARGIN, top + 12, picture.title, "t")
    top += 30
    sides = [[_fitted(host) for host in picture.hosts if host.left is left] for left in (True, False)]
    boxes = [_height(len(policer.lines)) for policer in picture.policers]
    columns = [*([_host_height(host) for host in side] for side in sides), boxes]
    room = max(_room(column) for column in columns)
    canvas.box(_SWITCH_LEFT, top, _SWITCH_RIGHT - _SWITCH_LEFT, room + 2 * _GAP, "switch")
    canvas.text((_SWITCH_LEFT + _SWITCH_RIGHT) / 2, top - 5, "switch", "s", "middle")
    inner = top + _GAP

    at: dict[str, tuple[float, float, bool]] = {}
    marks: list[tuple[float, float, str, str, str]] = []
    queues: list[tuple[float, float, Host]] = []
    for side, left in zip(sides, (True, False), strict=True):
        for host, y in zip(side, _stack(map(_host_height, side), inner, room), strict=True):
            height = _host_height(host)
            width = _HOST if left else WIDTH - _MARGIN - _RIGHT
            canvas.box(_MARGIN if left else _RIGHT, y, width, height)
            canvas.text((_MARGIN if left else _RIGHT) + 10, y + 20, host.name, "b")
            for number, line in enumerate(host.lines):
                canvas.text((_MARGIN if left else _RIGHT) + 10, y + 38 + _LINE * number, line, "s")
            middle = y + height / 2
            at[host.name] = (float(_MARGIN + _HOST) if left else float(_RIGHT), middle, left)
            edge = (_MARGIN + _HOST + _SWITCH_LEFT) / 2 if left else (_RIGHT + _SWITCH_RIGHT) / 2
            marks.append((edge, middle - 6, _to_host(host.delay, left), "s", "middle"))
            marks.append((edge, middle + 16, _to_host(host.loss, left), "s", "middle"))
            ends = (_MARGIN + _HOST, _SWITCH_LEFT) if left else (_SWITCH_RIGHT, _RIGHT)
            canvas.link(*ends, middle)
            if host.queue:
                queues.append((_SWITCH_LEFT + 10 if left else _SWITCH_RIGHT - _QUEUE - 10, middle, host))

    policers: dict[str, tuple[float, str]] = {}
    x = (_SWITCH_LEFT + _SWITCH_RIGHT - _POLICER) / 2 - (45 if queues else 0)
    tops = _stack(boxes, inner, room)
    for number, (policer, y) in enumerate(zip(picture.policers, tops, strict=True)):
        policers[policer.name] = (y + boxes[number] / 2, f"w{number % _COLOURS}")
    for route in picture.routes:
        _draw_route(canvas, route, at, policers, x)
    for policer, y, height in zip(picture.policers, tops, boxes, strict=True):
        canvas.box(x, y, _POLICER, height)
        canvas.text(x + 10, y + 20, policer.name, "b")
        for number, line in enumerate(policer.lines):
            canvas.text(x + 10, y + 38 + _LINE * number, line, "s")
    for queue_x, middle, host in queues:
        height = _height(len(host.queue) - 1)
        canvas.box(queue_x, middle - height / 2, _QUEUE, height)
        for number, line in enumerate(host.queue):
            canvas.text(queue_x + 8, middle - height / 2 + 19 + _LINE * number, line, "s")
    for mark in marks:
        canvas.text(*mark)
    bottom = top + room + 2 * _GAP
    canvas.text(_MARGIN, bottom + 20, picture.caption, "s")
    return bottom + 24


def _draw_route(
    canvas: _Canvas,
    route: Route,
    at: dict[str, tuple[float, float, bool]],
    policers: dict[str, tuple[float, str]],
    x: float,
) -> None:
    (from_x, from_y, from_left), (to_x, to_y, to_left) = at[route.source], at[route.destination]
    edges = {True: float(_SWITCH_LEFT), False: float(_SWITCH_RIGHT)}
    points = [(from_x, from_y), (edges[from_left], from_y)]
    colour = "none"
    if route.policer is not None:
        y, colour = policers[route.policer]
        sides = [(x, y), (x + _POLICER, y)]
        points += sides if from_left else sides[::-1]
    points += [(edges[to_left], to_y), (to_x, to_y)]
    canvas.route(points, colour, route.background, arrow=True)
