"""A picture as SVG: one file, no script, no font and no style sheet from elsewhere."""

from __future__ import annotations

from graphalgo.rendering.layout import (
    MARGIN,
    PADDING,
    SMALL_SIZE,
    TITLE_SIZE,
    Box,
    Route,
    lay_out,
)
from graphalgo.rendering.picture import LINK_NAMES, Picture
from graphalgo.rendering.text import shortened, width

HEADING_SIZE = 15.0
_HEADING_ROOM = 34.0
_LEGEND_ROW = 24.0
_LEAST_WIDTH = 320.0
_MOST_HEADING = 900.0

# Each kind of link: its colour, and its dashes, so that colour is never alone in
# telling them apart. The colours are Okabe and Ito's, safe for the colour-blind.
LINK_STYLES = {
    "edge": ("#333333", ""),
    "shared_key": ("#0072b2", "7 4"),
    "similar": ("#d55e00", "2 4"),
    "judged": ("#aa3377", "9 4 2 4"),
}
_FILLS = {"start": "#fff3c4", "answer": "#d5f0dd", "between": "#f4f6f8", "reached": "#eaf1f8"}
_ROLES = {"start": "start", "answer": "answer", "between": "on the way", "reached": "reached"}


def svg(picture: Picture) -> str:
    """Draw a picture.

    Parameters
    ----------
    picture : Picture
        With at least one node.

    Returns
    -------
    str
        A whole SVG document. Texts are escaped; what is shortened is whole in the
        tooltip.
    """
    layout = lay_out(picture)
    # Bold letters are about a tenth wider than the others.
    heading_width = 1.1 * width(picture.title, HEADING_SIZE) + 2 * MARGIN
    total_width = max(layout.width, _LEAST_WIDTH, min(heading_width, _MOST_HEADING))
    legend = _legend(picture, total_width)
    foot = _HEADING_ROOM + layout.height
    total_height = foot + legend[1] + (_LEGEND_ROW if picture.note else 0.0) + MARGIN / 2
    heading = shortened(picture.title, HEADING_SIZE, (total_width - 2 * MARGIN) / 1.1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{plain(total_width)}"'
        f' height="{plain(total_height)}" viewBox="0 0 {plain(total_width)} {plain(total_height)}"'
        ' role="img" font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif">',
        f"<title>{escaped(picture.title)}</title>",
        "<defs>" + "".join(_arrowhead(kind) for kind in LINK_STYLES if kind == "edge") + "</defs>",
        f'<rect width="{plain(total_width)}" height="{plain(total_height)}" fill="#ffffff"/>',
        text_at(MARGIN, 26.0, heading, HEADING_SIZE, weight="bold"),
        f'<g transform="translate(0 {plain(_HEADING_ROOM)})">',
        *(_line(route) for route in layout.routes),
        *(_box(box) for box in layout.boxes),
        *(_label(route) for route in layout.routes),
        "</g>",
        f'<g transform="translate(0 {plain(foot)})">{legend[0]}</g>',
    ]
    if picture.note:
        parts.append(text_at(MARGIN, foot + legend[1] + 12.0, picture.note, SMALL_SIZE, "#555555"))
    return "\n".join(part for part in parts if part) + "\n</svg>\n"


def escaped(text: str) -> str:
    """Write a text so that XML takes it for text, in elements and in attributes."""
    for letter, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("'", "&#39;"),
    ):
        text = text.replace(letter, entity)
    # What XML 1.0 has no way to write.
    return "".join(
        letter
        if letter in "\t\n\r"
        or "\x20" <= letter < "\ud800"
        or "\ue000" <= letter < "\ufffe"
        or letter > "\uffff"
        else "\ufffd"
        for letter in text
    )


def plain(value: float) -> str:
    """Write a length, to a tenth."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text_at(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str = "#111111",
    *,
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    """Draw a line of text; what is in it is escaped."""
    attributes = f'x="{plain(x)}" y="{plain(y)}" font-size="{plain(size)}" fill="{colour}"'
    if anchor != "start":
        attributes += f' text-anchor="{anchor}"'
    if weight != "normal":
        attributes += f' font-weight="{weight}"'
    return f"<text {attributes}>{escaped(text)}</text>"


def _arrowhead(kind: str) -> str:
    colour, _ = LINK_STYLES[kind]
    return (
        f'<marker id="arrow-{kind}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto-start-reverse" markerUnits="userSpaceOnUse">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{colour}"/></marker>'
    )


def _stroke(kind: str) -> str:
    colour, dashes = LINK_STYLES[kind]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'fill="none" stroke="{colour}" stroke-width="1.6"{dashed}'


def _line(route: Route) -> str:
    path = [f"M{plain(route.points[0][0])} {plain(route.points[0][1])}"]
    for place, segment in enumerate(route.segments):
        _, leave, arrive, end = route.points[4 * place : 4 * place + 4]
        if place:
            path.append(f"H{plain(route.points[4 * place][0])}")
        path.append(f"H{plain(leave[0])}")
        if segment.is_level:
            bulge = leave[0] + min(36.0, 12.0 + abs(arrive[1] - leave[1]) / 4)
            controls = (bulge, leave[1], bulge, arrive[1])
        else:
            half = (leave[0] + arrive[0]) / 2
            controls = (half, leave[1], half, arrive[1])
        path.append(f"C{' '.join(map(plain, controls))} {plain(arrive[0])} {plain(arrive[1])}")
        path.append(f"H{plain(end[0])}")
    kind = route.link.kind
    arrow = ""
    if kind == "edge":
        arrow = f' marker-{"end" if route.forward else "start"}="url(#arrow-edge)"'
    return (
        f'<path d="{" ".join(path)}" {_stroke(kind)}{arrow}>'
        f"<title>{escaped(route.link.tooltip)}</title></path>"
    )


def _label(route: Route) -> str:
    colour, _ = LINK_STYLES[route.link.kind]
    text = text_at(
        route.label_x,
        route.label_y - 4.0,
        route.label,
        SMALL_SIZE,
        colour,
        anchor=route.label_anchor,
    )
    return f"<g>{text}<title>{escaped(route.link.tooltip)}</title></g>"


def _box(box: Box) -> str:
    node = box.node
    assert node is not None
    dashes = ' stroke-dasharray="4 3"' if node.soft else ""
    thick = "2.2" if node.role in ("start", "answer") else "1.2"
    middle = box.middle
    return (
        f"<g><title>{escaped(node.tooltip)}</title>"
        f'<rect x="{plain(box.x)}" y="{plain(box.y)}" width="{plain(box.width)}"'
        f' height="{plain(box.height)}" rx="7" fill="{_FILLS[node.role]}" stroke="#444444"'
        f' stroke-width="{thick}"{dashes}/>'
        + text_at(box.x + PADDING, middle - 3.0, box.title, TITLE_SIZE)
        + text_at(box.x + PADDING, middle + 13.0, box.subtitle, SMALL_SIZE, "#555555")
        + "</g>"
    )


def _legend(picture: Picture, room: float) -> tuple[str, float]:
    """Explain what of colours, dashes and borders the picture uses; gives its height too."""
    entries: list[tuple[str, str]] = []
    kinds = {link.kind for link in picture.links}
    for kind in LINK_STYLES:
        if kind in kinds:
            arrow = ' marker-end="url(#arrow-edge)"' if kind == "edge" else ""
            entries.append((f'<path d="M0 0 H34" {_stroke(kind)}{arrow}/>', LINK_NAMES[kind]))
    roles = {node.role for node in picture.nodes}
    for role, fill in _FILLS.items():
        if role in roles:
            entries.append((_sample(fill, ""), _ROLES[role]))
    if any(node.soft for node in picture.nodes):
        entries.append((_sample("#ffffff", ' stroke-dasharray="4 3"'), "soft node"))
    parts = []
    x, y = MARGIN, 8.0
    for sample, words in entries:
        taken = 42.0 + width(words, SMALL_SIZE) + 20.0
        if x > MARGIN and x + taken > room - MARGIN:
            x, y = MARGIN, y + _LEGEND_ROW
        parts.append(
            f'<g transform="translate({plain(x)} {plain(y)})">{sample}'
            f"{text_at(42.0, 4.0, words, SMALL_SIZE, '#333333')}</g>"
        )
        x += taken
    return "".join(parts), y + _LEGEND_ROW - 8.0


def _sample(fill: str, dashes: str) -> str:
    return (
        f'<rect x="0" y="-8" width="34" height="16" rx="4" fill="{fill}" stroke="#444444"'
        f' stroke-width="1.2"{dashes}/>'
    )
