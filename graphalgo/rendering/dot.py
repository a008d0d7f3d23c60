"""A picture in the language of Graphviz."""

from __future__ import annotations

from graphalgo.rendering.picture import Picture, PictureLink, PictureNode
from graphalgo.rendering.svg import LINK_STYLES
from graphalgo.rendering.text import number

_FILLS = {"start": "#fff3c4", "answer": "#d5f0dd", "between": "#f4f6f8", "reached": "#eaf1f8"}
_STYLES = {"edge": "solid", "shared_key": "dashed", "similar": "dotted", "judged": "dashed"}


def dot(picture: Picture) -> str:
    """Write a picture as a directed graph in DOT.

    Parameters
    ----------
    picture : Picture
        What is shown.

    Returns
    -------
    str
        The whole file. Links without a direction have ``dir=none``.
    """
    label = picture.title + (f"\n{picture.note}" if picture.note else "")
    lines = [
        "digraph graphalgo {",
        "  rankdir=LR;",
        f"  label={quoted(label)}; labelloc=t;",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    lines += map(_node, picture.nodes)
    by_id = {node.id: node for node in picture.nodes}
    lines += [_link(link, by_id) for link in picture.links]
    for layer in sorted({node.layer for node in picture.nodes}):
        names = " ".join(f'"n{node.id}";' for node in picture.nodes if node.layer == layer)
        lines.append(f"  {{ rank=same; {names} }}")
    return "\n".join([*lines, "}"]) + "\n"


def quoted(text: str) -> str:
    """Write a text as a quoted string of DOT that shows it as it is."""
    # A backslash would begin an escape such as \\N, the node's own name.
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\r", "").replace("\n", "\\n") + '"'


def _node(node: PictureNode) -> str:
    style = ', style="rounded,filled,dashed"' if node.soft else ""
    width = ", penwidth=2" if node.role in ("start", "answer") else ""
    label = quoted(f"{node.title}\n{node.subtitle}")
    return (
        f'  "n{node.id}" ['
        f"label={label}, tooltip={quoted(node.tooltip)},"
        f" fillcolor={quoted(_FILLS[node.role])}{style}{width}];"
    )


def _link(link: PictureLink, nodes: dict[int, PictureNode]) -> str:
    source, target, direction = link.source, link.target, ""
    if link.kind != "edge":
        direction = ", dir=none"
    elif nodes[source].layer > nodes[target].layer:
        # Drawn from the lower layer to the higher, its arrow at the other end.
        source, target, direction = target, source, ", dir=back"
    colour = quoted(LINK_STYLES[link.kind][0])
    label = quoted(f"{link.label} {number(link.weight)}")
    return (
        f'  "n{source}" -> "n{target}" ['
        f"label={label}, tooltip={quoted(link.tooltip)},"
        f" style={_STYLES[link.kind]}, color={colour}, fontcolor={colour}{direction}];"
    )
