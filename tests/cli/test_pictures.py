"""Pictures can be read: nothing overlaps, nothing is lost, and no text breaks the file."""

from __future__ import annotations

import itertools
import json
import random
import re
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.engine import iterated_join, walk
from graphalgo.rendering.dot import dot
from graphalgo.rendering.layout import PORT_GAP, SMALL_SIZE, TITLE_SIZE, lay_out
from graphalgo.rendering.picture import (
    MOST_EDGES,
    Picture,
    PictureLink,
    PictureNode,
    picture_of_join,
    picture_of_walk,
)
from graphalgo.rendering.svg import svg
from graphalgo.rendering.text import shortened, visible, width
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    '</text><script>alert("1")</script> & \x1b[31m \u202e \ud800 \ufffe ]]> \\N "quoted" \n ende'
)


@pytest.fixture(scope="module")
def harbour():
    return MemoryStore.from_json(harbour_json())


def join_picture(store, seed, target, **arguments):
    rows = [row.as_dict() for row in iterated_join(store, seed, target, **arguments)]
    return picture_of_join(store, seed, target, rows)


def walk_picture(store, key, depth, **arguments):
    rows = [row.as_dict() for row in walk(store, key, depth, **arguments)]
    return picture_of_walk(store, key, depth, rows)


def random_graph(seed, nodes=30, edges=60):
    chance = random.Random(seed)
    store = MemoryStore()
    store.add_entity_type("thing", "T")
    relations = ["knows", "is a relation with a rather long name, longer than its place", "r"]
    for relation in relations:
        store.add_relation("thing", relation, "thing")
    for node in range(1, nodes + 1):
        summary = chance.choice(
            ["Short", "Quite a long summary that has to be cut " * 3, "船" * 40]
        )
        store.add_node(node, "thing", summary=summary)
        store.add_key(node, f"k{node}")
    for _ in range(edges):
        source, target = chance.randint(1, nodes), chance.randint(1, nodes)
        store.add_edge(source, target, chance.choice(relations), chance.randint(1, 100) / 100)
    return store


def texts(document):
    return [element.text for element in document.iter(f"{SVG}text")]


def titles(document):
    return [element.text for element in document.iter(f"{SVG}title")]


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def box_areas(layout):
    return [(box.x, box.y, box.x + box.width, box.y + box.height) for box in layout.boxes]


def label_areas(layout):
    areas = []
    for route in layout.routes:
        taken = width(route.label, SMALL_SIZE)
        left = route.label_x - (taken if route.label_anchor == "end" else 0)
        areas.append((left, route.label_y - 4 - SMALL_SIZE, left + taken, route.label_y - 1))
    return areas


def test_the_path_of_a_join_is_drawn_from_seed_to_answer(harbour):
    document = ElementTree.fromstring(svg(join_picture(harbour, "NL-2231", "operator")))
    shown = texts(document)
    for text in (
        "NL-2231 (IMO 9331802)",
        "Meridian Dawn (IMO 9331802)",
        "Meridian Line",
        "key 9331802 1",
        "operated_by 1",
        "REG-1 · registration",
    ):
        assert text in shown
    assert shown[0] == "From NL-2231 to operator: resolved in round 2, 1 found"


def test_a_join_that_does_not_resolve_shows_its_seed_and_the_reason(harbour):
    picture = join_picture(harbour, "NL-2231", "operator", links=["edge"])
    shown = texts(ElementTree.fromstring(svg(picture)))
    assert "not resolved: exhausted" in shown[0]
    assert "NL-2231 (IMO 9331802)" in shown
    assert picture.links == []


def test_an_edge_points_from_its_source_to_its_target(harbour):
    picture = join_picture(harbour, "Rotterdam", "operator", links=["edge"])
    names = {node.id: node.title.split(" (", 1)[0] for node in picture.nodes}
    assert ("Bulk Harmony", "Rotterdam, Netherlands") in {
        (names[link.source], names[link.target]) for link in picture.links
    }
    drawn = svg(picture)
    # From Rotterdam on the left: two arrows come in, two go out to the operators.
    assert (drawn.count('marker-start="url'), drawn.count('marker-end="url')) == (2, 2 + 1)


def test_the_edges_between_the_nodes_of_a_walk_are_all_drawn_once(harbour):
    picture = walk_picture(harbour, "Bulk Harmony", 3)
    names = {node.id: node.subtitle.split(" ", 1)[0] for node in picture.nodes}
    assert sorted(
        (names[link.source], link.label, names[link.target]) for link in picture.links
    ) == [
        ("OPR-1", "competes_with", "OPR-2"),
        ("OPR-3", "subsidiary_of", "OPR-1"),
        ("VSL-1", "last_called", "PRT-1"),
        ("VSL-1", "operated_by", "OPR-1"),
        ("VSL-2", "operated_by", "OPR-1"),
        ("VSL-3", "last_called", "PRT-1"),
        ("VSL-3", "operated_by", "OPR-3"),
    ]


def test_edges_both_ways_of_one_relation_and_weight_are_two():
    store = random_graph(0, nodes=2, edges=0)
    store.add_edge(1, 2, "knows", 0.5)
    store.add_edge(2, 1, "knows", 0.5)
    picture = walk_picture(store, "k1", 1)
    assert {(link.source, link.target) for link in picture.links} == {(1, 2), (2, 1)}


def test_link_kinds_differ_in_dashes_as_well_as_colour_and_are_explained(harbour):
    nodes = [PictureNode(number, number, f"n{number}", "", "") for number in range(5)]
    kinds = ["edge", "shared_key", "similar", "judged"]
    links = [
        PictureLink(number, number + 1, kind, kind, kind, 0.5) for number, kind in enumerate(kinds)
    ]
    drawn = svg(Picture("four kinds", nodes, links))
    strokes = re.findall(
        r'd="M0 0 H34" fill="none" stroke="(#\w+)" [^>]*?(dasharray="[^"]*")?[ /]', drawn
    )
    assert len({colour for colour, _ in strokes}) == 4
    legend = texts(ElementTree.fromstring(drawn))
    assert {"edge", "shared key", "similar names", "judged"} <= set(legend)
    dashes = re.findall(r"stroke-dasharray=\"([^\"]+)\"", drawn)
    assert len(set(dashes)) == 3
    assert "judged" not in texts(
        ElementTree.fromstring(svg(join_picture(harbour, "NL-2231", "operator")))
    )


@pytest.mark.parametrize("seed", range(12))
def test_no_box_and_no_label_overlaps_another(seed):
    layout = lay_out(walk_picture(random_graph(seed), "k1", 4))
    boxes, labels = box_areas(layout), label_areas(layout)
    assert len(layout.boxes) > 5
    for one, other in itertools.combinations(boxes, 2):
        assert not overlap(one, other)
    for one, other in itertools.combinations(labels, 2):
        assert not overlap(one, other)
    for label in labels:
        assert not any(overlap(label, box) for box in boxes)
        assert label[0] >= 0 and label[2] <= layout.width
    for box in boxes:
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= layout.width and box[3] <= layout.height


@pytest.mark.parametrize("seed", range(4))
def test_texts_fit_their_boxes_and_links_have_places_of_their_own(seed):
    layout = lay_out(walk_picture(random_graph(seed), "k1", 3))
    for box in layout.boxes:
        assert width(box.title, TITLE_SIZE) <= box.width
        assert width(box.subtitle, SMALL_SIZE) <= box.width
    ends = sorted((route.points[-1][0], route.points[-1][1]) for route in layout.routes)
    for (x, y), (next_x, next_y) in itertools.pairwise(ends):
        assert x != next_x or next_y - y >= PORT_GAP - 0.01


def test_a_link_over_several_layers_runs_clear_of_the_boxes_between():
    nodes = [PictureNode(number, min(number, 2), f"n{number}", "", "") for number in range(4)]
    nodes[3].layer = 3
    links = [
        PictureLink(0, 1, "edge", "a", "", 1.0),
        PictureLink(1, 2, "edge", "b", "", 1.0),
        PictureLink(2, 3, "edge", "c", "", 1.0),
        PictureLink(0, 3, "edge", "long way", "", 1.0),
    ]
    layout = lay_out(Picture("", nodes, links))
    long_way = layout.routes[3]
    for box in layout.boxes[1:3]:
        for x, y in long_way.points[2:-2]:
            if box.x <= x <= box.x + box.width:
                assert not box.y <= y <= box.y + box.height


def test_what_is_shortened_is_whole_in_the_tooltip():
    store = random_graph(1, nodes=2, edges=0)
    long_name = "the full name of something " * 8
    store.add_node(3, "thing", summary=long_name)
    store.add_key(3, "k3")
    store.add_edge(1, 3, "is a relation with a rather long name, longer than its place", 0.5)
    document = ElementTree.fromstring(svg(walk_picture(store, "k1", 1)))
    assert long_name not in texts(document)
    assert any(text.startswith("the full name") and text.endswith("…") for text in texts(document))
    assert any(long_name in title for title in titles(document))
    assert any("longer than its place (weight 0.5)" in title for title in titles(document))
    assert any(text.endswith("… 0.5") for text in texts(document))


def test_hostile_texts_stay_texts():
    nodes = [PictureNode(1, 0, HOSTILE, HOSTILE, HOSTILE), PictureNode(2, 1, "b", "", "")]
    picture = Picture(HOSTILE, nodes, [PictureLink(1, 2, "edge", HOSTILE, HOSTILE, 1.0)], HOSTILE)
    document = ElementTree.fromstring(svg(picture))
    assert not list(document.iter(f"{SVG}script"))
    drawn = dot(picture)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", drawn)
    assert "script" not in outside and "quoted" not in outside
    assert "\\\\N" in drawn


def test_texts_from_a_graph_are_made_visible():
    store = MemoryStore()
    store.add_entity_type("thing", "T")
    store.add_node(1, "thing", summary="a\x1b[2Jb\u202ec\nd")
    store.add_key(1, "k")
    assert picture_of_walk(store, "k", 1, []).nodes[0].title == "a\\x1b[2Jb\\u202ec\\nd"


def test_a_dense_neighbourhood_is_cut_and_says_so_but_leaves_no_node_alone():
    store = random_graph(5, nodes=60, edges=1500)
    picture = walk_picture(store, "k1", 2, limit=59)
    assert len(picture.links) == MOST_EDGES
    assert re.fullmatch(r"\d+ weaker edges are not shown", picture.note)
    linked = {end for link in picture.links for end in (link.source, link.target)}
    assert linked == {node.id for node in picture.nodes}
    assert picture.note in texts(ElementTree.fromstring(svg(picture)))


def test_the_same_answer_is_the_same_picture(harbour):
    pictures = {svg(walk_picture(harbour, "Rotterdam", 3)) for _ in range(3)}
    assert len(pictures) == 1


def test_dot_names_every_node_and_link(harbour):
    drawn = dot(join_picture(harbour, "vessel/meridien dawn", "port"))
    assert drawn.startswith("digraph graphalgo {") and drawn.endswith("}\n")
    assert 'label="vessel/meridien dawn\\nsoft-14 · soft node"' in drawn
    assert 'label="similar 0.647"' in drawn and "dir=none" in drawn
    assert drawn.count(" -> ") == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("é 船 ½", "é 船 ½"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\u200b\u202e", "\\u200b\\u202e"),
        ("\ud800", "\\ud800"),
    ],
)
def test_invisible_letters_are_shown_by_their_escapes(text, shown):
    assert visible(text) == shown


def test_a_shortened_text_fits():
    for text in ("a" * 500, "W" * 500, "船" * 500, "i" * 500, "a \u0301" * 300):
        assert width(shortened(text, 11.0, 100.0), 11.0) <= 100.0
    assert shortened("short", 11.0, 100.0) == "short"


@pytest.mark.parametrize("where", ["server", "client", "file"])
def test_the_command_writes_the_picture_and_still_answers(dsn, tmp_path, where):
    if where == "file":
        graph = tmp_path / "harbour.json"
        graph.write_text(json.dumps(harbour_json()))
        options = ["--graph", str(graph)]
    else:
        options = ["--dsn", dsn, "--where", where]
    files = ["--svg", str(tmp_path / "a.svg"), "--dot", str(tmp_path / "a.dot")]
    answer = CliRunner().invoke(app, ["walk", "Bulk Harmony", "--depth", "2", *options, *files])
    assert answer.exit_code == 0
    assert "Meridian Dawn" in answer.stdout
    assert f"The picture is in {tmp_path / 'a.svg'}" in answer.stderr
    store = MemoryStore.from_json(harbour_json())
    expected = walk_picture(store, "Bulk Harmony", 2)
    assert (tmp_path / "a.svg").read_text() == svg(expected)
    assert (tmp_path / "a.dot").read_text() == dot(expected)


def test_a_picture_that_cannot_be_written_is_told(dsn, tmp_path):
    path = tmp_path / "missing" / "a.svg"
    answer = CliRunner().invoke(
        app, ["join", "NL-2231", "operator", "--dsn", dsn, "--svg", str(path)]
    )
    assert answer.exit_code == 2
    assert f'the picture cannot be written to "{path}"' in answer.stderr
