"""Where the parts of a picture go: a small layered layout, from left to right.

After Sugiyama, Tagawa and Toda (1981): nodes stand in columns by layer, links
over several layers get a lane through the columns between, each column is
ordered by the barycentres of its neighbours, and columns are shifted so that
links run level. Every link has a place of its own at either end, and its label
stands on the level piece before the end, where no other link can cross it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphalgo.rendering.picture import Picture, PictureLink, PictureNode
from graphalgo.rendering.text import number, shortened, width

TITLE_SIZE = 13.0
SMALL_SIZE = 11.0
MOST_LABEL = 230.0
MOST_LINK_LABEL = 200.0
MARGIN = 24.0
PADDING = 10.0
PORT_GAP = 18.0
LEAST_HEIGHT = 42.0
NODE_GAP = 16.0
LABEL_SPACE = 16.0
LEAST_BEND = 40.0
# A level piece for an arrowhead where a link leaves.
STUB = 12.0
MOST_BEND = 140.0
_SWEEPS = 8


@dataclass(slots=True)
class Box:
    """Where a node is drawn, or (`node` None) a lane for a link over several layers."""

    node: PictureNode | None
    layer: int
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0
    title: str = ""
    subtitle: str = ""
    left: list[Segment] = field(default_factory=list)
    right: list[Segment] = field(default_factory=list)

    @property
    def middle(self) -> float:
        """The height of its centre."""
        return self.y + self.height / 2


@dataclass(slots=True)
class Segment:
    """A piece of a link between two columns, or two places of one column."""

    link: Route
    start: Box
    end: Box
    start_y: float = 0.0
    end_y: float = 0.0

    @property
    def is_level(self) -> bool:
        """Whether it stays within one column, and so leaves and arrives on the right."""
        return self.start.layer == self.end.layer


@dataclass(slots=True)
class Route:
    """How a link runs, and where its label stands.

    Attributes
    ----------
    link : PictureLink
        The link.
    forward : bool
        Whether it is drawn from its source; else from its target.
    label : str
        Its label, shortened, and its weight.
    segments : list of Segment
        From the lower layer to the higher.
    points : list of tuple
        x and y of the ends of its pieces: pieces are curved and level by turns,
        beginning and ending with a level one.
    label_x, label_y, label_anchor
        Where the label's text is anchored.
    """

    link: PictureLink
    forward: bool
    label: str
    segments: list[Segment] = field(default_factory=list)
    points: list[tuple[float, float]] = field(default_factory=list)
    label_x: float = 0.0
    label_y: float = 0.0
    label_anchor: str = "end"


@dataclass(slots=True)
class Layout:
    """Where everything is: boxes, routes, and the room they take."""

    boxes: list[Box]
    routes: list[Route]
    width: float
    height: float


def lay_out(picture: Picture) -> Layout:
    """Place the nodes and links of a picture.

    Parameters
    ----------
    picture : Picture
        Its links join nodes of the picture.

    Returns
    -------
    Layout
        Coordinates in pixels, from 0; boxes of nodes do not overlap each other,
        nor labels each other or a box.

    Notes
    -----
    Cost: O(sweeps · (n + m) log n) for n nodes and m pieces of links.
    """
    columns, routes = _columns(picture)
    for sweep in range(_SWEEPS):
        _order(columns, forward=sweep % 2 == 0)
    _stack(columns)
    for sweep in range(_SWEEPS):
        _straighten(columns, forward=sweep % 2 == 0)
    _set_ports(columns)
    total_width = _set_x(columns, routes)
    total_height = _set_y(columns)
    for route in routes:
        _trace(route, columns)
    boxes = [box for column in columns for box in column if box.node is not None]
    return Layout(boxes, routes, total_width, total_height)


def _columns(picture: Picture) -> tuple[list[list[Box]], list[Route]]:
    """Make boxes for the nodes and lanes for the long links, column by column."""
    last = max(node.layer for node in picture.nodes)
    columns: list[list[Box]] = [[] for _ in range(last + 1)]
    boxes: dict[int, Box] = {}
    for node in picture.nodes:
        box = Box(node, node.layer)
        box.title = shortened(node.title, TITLE_SIZE, MOST_LABEL)
        box.subtitle = shortened(node.subtitle, SMALL_SIZE, MOST_LABEL)
        box.width = 2 * PADDING + max(
            width(box.title, TITLE_SIZE), width(box.subtitle, SMALL_SIZE), 60.0
        )
        boxes[node.id] = box
        columns[node.layer].append(box)
    routes = [_route(link, boxes, columns) for link in picture.links]
    for column in columns:
        for box in column:
            ports = max(len(box.left), len(box.right))
            least = LEAST_HEIGHT if box.node else PORT_GAP
            box.height = max(least, ports * PORT_GAP + (6.0 if box.node else 0.0))
    return columns, routes


def _route(link: PictureLink, boxes: Mapping[int, Box], columns: list[list[Box]]) -> Route:
    source, target = boxes[link.source], boxes[link.target]
    forward = source.layer <= target.layer
    start, end = (source, target) if forward else (target, source)
    weight = f" {number(link.weight)}"
    room = MOST_LINK_LABEL - width(weight, SMALL_SIZE)
    route = Route(link, forward, shortened(link.label, SMALL_SIZE, room) + weight)
    before = start
    for layer in range(start.layer + 1, end.layer):
        lane = Box(None, layer)
        columns[layer].append(lane)
        _join(route, before, lane)
        before = lane
    _join(route, before, end)
    return route


def _join(route: Route, start: Box, end: Box) -> None:
    segment = Segment(route, start, end)
    route.segments.append(segment)
    start.right.append(segment)
    (end.right if segment.is_level else end.left).append(segment)


def _order(columns: list[list[Box]], *, forward: bool) -> None:
    """Order each column by the mean place of its neighbours in the column before (or after)."""
    places = {id(box): place for column in columns for place, box in enumerate(column)}
    for column in columns if forward else reversed(columns):
        means = {}
        for box in column:
            around = _neighbours(box, left=forward)
            means[id(box)] = (
                sum(places[id(other)] for other in around) / len(around)
                if around
                else float(places[id(box)])
            )
        column.sort(key=lambda box: means[id(box)])
        for place, box in enumerate(column):
            places[id(box)] = place


def _neighbours(box: Box, *, left: bool) -> list[Box]:
    if left:
        return [segment.start for segment in box.left]
    return [segment.end for segment in box.right if not segment.is_level]


def _stack(columns: list[list[Box]]) -> None:
    for column in columns:
        y = 0.0
        for box in column:
            box.y = y
            y += box.height + NODE_GAP
        for box in column:
            box.y -= (y - NODE_GAP) / 2


def _straighten(columns: list[list[Box]], *, forward: bool) -> None:
    """Move each box towards its neighbours on one side, in order and without overlap."""
    for column in columns if forward else reversed(columns):
        wanted = []
        for box in column:
            around = _neighbours(box, left=forward)
            middle = sum(other.middle for other in around) / len(around) if around else box.middle
            wanted.append(middle - box.height / 2)
        floor = float("-inf")
        for box, y in zip(column, wanted, strict=True):
            box.y = max(y, floor)
            floor = box.y + box.height + NODE_GAP
        # Pushing went downwards only: put the column as a whole where it wants to be.
        shift = sum(y - box.y for box, y in zip(column, wanted, strict=True)) / max(1, len(column))
        for box in column:
            box.y += shift


def _set_ports(columns: Sequence[Sequence[Box]]) -> None:
    """Give each link its own height at each end, in the order of the other ends."""
    for column in columns:
        for box in column:
            box.left.sort(key=lambda segment: segment.start.middle)
            box.right.sort(key=lambda segment: _other_end(segment, box).middle)
            for segments in (box.left, box.right):
                first = box.middle - (len(segments) - 1) * PORT_GAP / 2
                for place, segment in enumerate(segments):
                    y = first + place * PORT_GAP
                    if segment.start is box:
                        segment.start_y = y
                    else:
                        segment.end_y = y


def _other_end(segment: Segment, box: Box) -> Box:
    return segment.end if segment.start is box else segment.start


def _set_x(columns: Sequence[Sequence[Box]], routes: Sequence[Route]) -> float:
    """Place the columns from left to right, with room for labels and bends between."""
    x = MARGIN
    for layer, column in enumerate(columns):
        column_width = max(box.width for box in column)
        for box in column:
            box.x, box.width = x, column_width
        x += column_width
        entering = [
            segment for segment in _entering(columns, layer + 1) if segment.end.node is not None
        ]
        crossing = len(_entering(columns, layer + 1))
        level = [s for box in column for s in box.right if s.is_level and s.end is box]
        if crossing or level:
            bend = min(MOST_BEND, LEAST_BEND + 3.0 * crossing)
            x += STUB + _label_room(level) + bend + _label_room(entering)
    return x + MARGIN


def _entering(columns: Sequence[Sequence[Box]], layer: int) -> list[Segment]:
    if layer >= len(columns):
        return []
    return [segment for box in columns[layer] for segment in box.left]


def _label_room(segments: Sequence[Segment]) -> float:
    labels = [width(segment.link.label, SMALL_SIZE) for segment in segments]
    return max(labels) + LABEL_SPACE if labels else 0.0


def _set_y(columns: Sequence[Sequence[Box]]) -> float:
    top = min(box.y for column in columns for box in column)
    shift = MARGIN - top
    for column in columns:
        for box in column:
            box.y += shift
            for segment in {id(s): s for s in (*box.left, *box.right)}.values():
                # Each end is shifted with its own box.
                if segment.start is box:
                    segment.start_y += shift
                if segment.end is box:
                    segment.end_y += shift
    return max(box.y + box.height for column in columns for box in column) + MARGIN


def _trace(route: Route, columns: Sequence[Sequence[Box]]) -> None:
    """Lay the points of a route, and its label on the level piece before its end."""
    for segment in route.segments:
        start, end = segment.start, segment.end
        right = start.x + start.width
        level = [
            s for box in columns[start.layer] for s in box.right if s.is_level and s.end is box
        ]
        leaving = right + STUB + _label_room(level)
        route.points += [(right, segment.start_y), (leaving, segment.start_y)]
        if segment.is_level:
            route.points += [(leaving, segment.end_y), (right, segment.end_y)]
            route.label_x, route.label_anchor = right + LABEL_SPACE - 4.0, "start"
        else:
            entering = [s for s in _entering(columns, end.layer) if s.end.node is not None]
            arriving = end.x - _label_room(entering)
            route.points += [(arriving, segment.end_y), (end.x, segment.end_y)]
            route.label_x = end.x - LABEL_SPACE + 4.0
        route.label_y = segment.end_y
