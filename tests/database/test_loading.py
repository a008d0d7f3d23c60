"""Files are loaded whole or not at all, and loading them again changes nothing."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import psycopg
import pytest

from graphalgo.engine import iterated_join, lookup, walk
from graphalgo.engine.errors import GraphAlgoError, InvalidValue, MissingSetting
from graphalgo.install import install
from graphalgo.loading import LoadError, LoadFiles, harbour_is_loaded, load, load_harbour
from graphalgo.samples import harbour_json
from graphalgo.samples.harbour import graph_from_harbour
from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore

KINDS = ("types", "relations", "nodes", "keys", "edges")
TABLES = ("entity_types", "relations", "nodes", "node_keys", "edges", "edge_assertions")
ORG_A = "d0000000-0000-0000-0000-00000000000a"
ORG_B = "d0000000-0000-0000-0000-00000000000b"
USER = "e0000000-0000-0000-0000-00000000000a"

VOCABULARY = {
    "types": "name,handle_prefix\nship,SHP\nfirm,FRM\n",
    "relations": "src_type,relation,dst_type\nship,run_by,firm\nfirm,owns,firm\n",
}
FLEET = VOCABULARY | {
    "nodes": "ref,entity_type,summary\ns1,ship,The Dawn\ns2,ship,The Star\nf1,firm,Line\n",
    "keys": "ref,key,kind,is_name\ns1,Dawn,canonical,true\ns1,9331,alias,false\nf1,Line,short,y\n",
    "edges": "src,relation,dst,weight\ns1,run_by,f1,1\ns2,run_by,f1,.5\n",
}


@pytest.fixture(scope="module")
def loading_dsn(make_database):
    made = make_database()
    install(made)
    return made


@pytest.fixture
def connection(loading_dsn):
    with psycopg.connect(loading_dsn, autocommit=True) as opened:
        opened.execute("truncate aiq.entity_types, aiq.nodes restart identity cascade")
        yield opened


@pytest.fixture
def load_texts(connection, tmp_path):
    """Load texts, each written to a file named after its kind."""

    def run(texts, *, extension="csv", source="fleet", **options):
        paths = {}
        for kind, text in texts.items():
            paths[kind] = tmp_path / f"{kind}.{extension}"
            paths[kind].write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(connection, LoadFiles(**paths), source=source, **options)

    return run


def everything(connection):
    return {
        table: connection.execute(f"select t::text from aiq.{table} as t order by 1").fetchall()
        for table in TABLES
    }


def counts(report):
    return {kind: (count.read, count.added, count.changed) for kind, count in report.counts.items()}


def nodes_by_ref(connection):
    return dict(connection.execute("select source_pk, id from aiq.nodes").fetchall())


def edges(connection):
    return connection.execute(
        "select n.source_pk, e.relation, m.source_pk, e.weight, e.valid_from::date::text,"
        " e.valid_to::date::text"
        " from aiq.edges as e join aiq.nodes as n on n.id = e.src_id"
        " join aiq.nodes as m on m.id = e.dst_id order by e.valid_from, 1, 2, 3, 4"
    ).fetchall()


def as_json_lines(text):
    header, *lines = text.splitlines()
    names = header.split(",")
    return "".join(
        json.dumps(dict(zip(names, line.split(","), strict=True))) + "\n" for line in lines
    )


def test_loaded_files_answer_walks_and_lookups(connection, load_texts):
    report = load_texts(FLEET)
    assert counts(report) == {
        "types": (2, 2, 0),
        "relations": (2, 2, 0),
        "nodes": (3, 3, 0),
        "keys": (3, 3, 0),
        "edges": (2, 2, 0),
    }
    store = ClientStore(connection)
    assert [row.summary for row in walk(store, "dawn", 2)] == ["Line", "The Star"]
    assert [row.match_kind for row in lookup(store, ["9331", "LINE"])] == ["alias", "short"]
    assert connection.execute(
        "select is_name from aiq.node_keys where key = '9331'"
    ).fetchone() == (False,)


def test_json_lines_load_as_the_same_rows_as_csv(connection, load_texts):
    load_texts(FLEET)
    from_csv = (
        connection.execute(
            "select source_pk, entity_type, summary from aiq.nodes order by 1"
        ).fetchall(),
        edges(connection),
    )
    connection.execute("truncate aiq.entity_types, aiq.nodes restart identity cascade")
    load_texts({kind: as_json_lines(text) for kind, text in FLEET.items()}, extension="jsonl")
    from_json = (
        connection.execute(
            "select source_pk, entity_type, summary from aiq.nodes order by 1"
        ).fetchall(),
        edges(connection),
    )
    assert from_json == from_csv


def test_json_values_keep_their_kind(connection, load_texts):
    load_texts(
        VOCABULARY
        | {
            "nodes": '{"ref": 7, "entity_type": "ship", "handle_number": 70, "summary": null}\n\n',
            "keys": '{"ref": 7, "key": 9331, "is_name": false}\n',
        }
        | {kind: as_json_lines(text) for kind, text in VOCABULARY.items()},
        extension="jsonl",
    )
    assert connection.execute("select handle, key from aiq.nodes_api").fetchall() == [
        ("SHP-70", "9331")
    ]


def test_loading_the_same_files_again_changes_nothing(connection, load_texts):
    load_texts(FLEET)
    before = everything(connection)
    report = load_texts(FLEET)
    assert everything(connection) == before
    assert {kind: count[1:] for kind, count in counts(report).items()} == dict.fromkeys(
        KINDS, (0, 0)
    )


def test_loading_again_updates_the_same_node(connection, load_texts):
    load_texts(FLEET)
    ids = nodes_by_ref(connection)
    report = load_texts({"nodes": FLEET["nodes"].replace("The Dawn", "The Dawn II")})
    assert counts(report) == {"nodes": (3, 0, 1)}
    assert nodes_by_ref(connection) == ids
    assert connection.execute(
        "select summary from aiq.nodes where source_pk = 's1'"
    ).fetchone() == ("The Dawn II",)


def test_another_source_has_refs_of_its_own(connection, load_texts):
    load_texts(FLEET)
    load_texts({"nodes": "ref,entity_type\ns1,ship\n"}, source="other")
    assert connection.execute(
        "select source_table, count(*) from aiq.nodes where source_pk = 's1' group by 1 order by 1"
    ).fetchall() == [("load:fleet", 1), ("load:other", 1)]


def test_a_retired_node_comes_back_as_the_same_node(connection, load_texts):
    load_texts(FLEET)
    ids = nodes_by_ref(connection)
    connection.execute("update aiq.nodes set retired_at = now() where source_pk = 's1'")
    assert lookup(ClientStore(connection), ["dawn"]) == []
    load_texts({"nodes": FLEET["nodes"]})
    assert [row.node_id for row in lookup(ClientStore(connection), ["dawn"])] == [ids["s1"]]


def test_an_end_is_a_ref_or_a_handle_or_a_soft_name_or_a_key(connection, load_texts):
    load_texts(FLEET)
    ids = nodes_by_ref(connection)
    load_texts({"nodes": "ref,claimed_kind,name\nx,Ship,The  MOON\n"}, source="notes")
    moon = nodes_by_ref(connection)["x"]
    load_texts(
        {
            "edges": "src,relation,dst,weight\n"
            f"x,run_by,frm-{ids['f1']},1\n"
            f"soft-{moon},owns,Line,0.9\n"
            "DAWN,owns,Ship/the moon,0.8\n"
        },
        source="notes",
    )
    assert connection.execute(
        "select src_id, dst_id from aiq.edges order by id offset 2"
    ).fetchall() == [
        (moon, ids["f1"]),
        (moon, ids["f1"]),
        (ids["s1"], moon),
    ]


def test_a_ref_goes_before_a_key_of_the_same_text(connection, load_texts):
    load_texts(FLEET)
    load_texts(
        {
            "nodes": "ref,entity_type\nDawn,ship\n",
            "edges": "src,relation,dst,weight\nDawn,run_by,Line,1\n",
        },
        source="other",
    )
    assert connection.execute(
        "select n.source_table from aiq.edges as e join aiq.nodes as n on n.id = e.src_id"
        " order by e.id desc limit 1"
    ).fetchone() == ("load:other",)


def test_soft_nodes_are_one_by_kind_name_and_scope(connection, load_texts):
    soft = f"ref,claimed_kind,name,org_id\na,project,Apollo,{ORG_A}\nb,Project,apollo ,{ORG_B}\n"
    load_texts({"nodes": soft}, source="one")
    load_texts({"nodes": soft}, source="two")
    assert connection.execute(
        "select soft_key, summary, org_id::text, source_table from aiq.nodes order by org_id"
    ).fetchall() == [
        ("project/apollo", "Apollo", ORG_A, "load:one"),
        ("project/apollo", "apollo ", ORG_B, "load:one"),
    ]
    assert (
        connection.execute("select key, kind, is_name, soft from aiq.node_keys").fetchall()
        == [("apollo", "alias", True, True)] * 2
    )


def test_a_soft_ref_with_a_new_name_is_another_node(connection, load_texts):
    load_texts({"nodes": "ref,claimed_kind,name\na,ship,Moon\nb,ship,Sun\n"})
    first = nodes_by_ref(connection)
    load_texts({"nodes": "ref,claimed_kind,name\na,ship,Sun\nb,ship,Moon\n"})
    second = nodes_by_ref(connection)
    assert second == {"a": first["b"], "b": first["a"]}


def test_an_equal_current_edge_keeps_the_earliest_start_and_the_greatest_weight(
    connection, load_texts
):
    load_texts(
        FLEET | {"edges": "src,relation,dst,weight,valid_from\ns1,run_by,f1,0.5,2024-03-01\n"}
    )
    later = (
        "src,relation,dst,weight,valid_from\n"
        "s1,run_by,f1,0.25,2024-02-01\ns1,run_by,f1,0.75,2024-04-01\n"
    )
    report = load_texts({"edges": later})
    assert counts(report) == {"edges": (2, 0, 1)}
    assert edges(connection) == [("s1", "run_by", "f1", 0.75, "2024-02-01", None)]


def test_edges_of_two_scopes_are_two_edges(connection, load_texts):
    load_texts(
        FLEET
        | {
            "edges": "src,relation,dst,weight,org_id,visibility,owner_id\n"
            f"s1,run_by,f1,1,{ORG_A},org,\ns1,run_by,f1,1,{ORG_B},org,\n"
            f"s1,run_by,f1,1,,private,{USER}\n"
        }
    )
    assert connection.execute("select count(*) from aiq.edges").fetchone() == (3,)


def test_history_is_loaded_and_a_current_edge_begins_after_it(connection, load_texts):
    periods = (
        "src,relation,dst,weight,valid_from,valid_to\n"
        "s1,run_by,f1,0.5,2024-03-01,2024-05-01\n"
        "s1,run_by,f1,0.4,2024-01-01,2024-03-01\n"
        "s1,run_by,f1,0.9,2024-02-01,\n"
    )
    load_texts(FLEET | {"edges": periods})
    expected = [
        ("s1", "run_by", "f1", pytest.approx(0.4), "2024-01-01", "2024-03-01"),
        ("s1", "run_by", "f1", 0.5, "2024-03-01", "2024-05-01"),
        ("s1", "run_by", "f1", pytest.approx(0.9), "2024-05-01", None),
    ]
    assert edges(connection) == expected
    load_texts({"edges": periods})
    assert edges(connection) == expected


def test_a_closed_edge_that_is_loaded_again_begins_anew_at_its_end(connection, load_texts):
    current = {"edges": "src,relation,dst,weight,valid_from\ns1,run_by,f1,1,2024-01-01\n"}
    load_texts(FLEET | current)
    connection.execute("update aiq.edges set valid_to = '2024-06-01' where valid_to is null")
    load_texts(current)
    assert [row[4:] for row in edges(connection)] == [
        ("2024-01-01", "2024-06-01"),
        ("2024-06-01", None),
    ]


ASSERTED = """
select e.valid_from::date::text, e.valid_to::date::text, a.memory, a.stated_from::date::text,
    a.weight
from aiq.edge_assertions as a join aiq.edges as e on e.id = a.edge_id
order by 1, 2, 3
"""


def test_each_memory_that_states_an_edge_is_recorded_and_may_close_it(connection, load_texts):
    stated = (
        "src,relation,dst,weight,valid_from,valid_to,memory\n"
        "s1,run_by,f1,0.5,2024-01-01,2024-02-01,log\n"
        "s1,run_by,f1,0.25,2024-01-01,2024-02-01,log\n"
        "s1,run_by,f1,0.75,2024-01-01,2024-02-01,press\n"
        "s1,run_by,f1,0.5,2024-04-01,,log\n"
        "s1,run_by,f1,0.25,2024-03-01,,log\n"
        "s1,run_by,f1,1,2024-05-01,,press\n"
        "s2,run_by,f1,1,2024-06-01,,\n"
    )
    load_texts(FLEET | {"edges": stated})
    expected = [
        ("2024-01-01", "2024-02-01", "log", "2024-01-01", 0.5),
        ("2024-01-01", "2024-02-01", "press", "2024-01-01", 0.75),
        ("2024-03-01", None, "log", "2024-03-01", 0.5),
        ("2024-03-01", None, "press", "2024-05-01", 1.0),
    ]
    assert connection.execute(ASSERTED).fetchall() == expected
    before = everything(connection)
    load_texts({"edges": stated})
    assert everything(connection) == before
    more = "src,relation,dst,weight,valid_from,memory\ns1,run_by,f1,0.75,2024-04-01,log\n"
    load_texts({"edges": more})
    assert connection.execute(ASSERTED).fetchall()[2] == (*expected[2][:4], 0.75)
    with connection.transaction():
        connection.execute("set local role aiq_worker")
        # "press", whose name is not on the edge itself.
        connection.execute("select aiq.close_edge(p_memory => 'press', p_relation => 'run_by')")
    assert connection.execute(
        "select closed_by, memory from aiq.edges where closed_by is not null"
    ).fetchall() == [("press", "log")]


def test_a_memory_is_recorded_for_the_edge_of_its_own_scope(connection, load_texts):
    load_texts(
        FLEET
        | {
            "edges": "src,relation,dst,weight,memory,org_id,visibility,owner_id\n"
            f"s1,run_by,f1,1,a,{ORG_A},org,\ns1,run_by,f1,1,b,{ORG_B},org,\n"
            f"s1,run_by,f1,1,c,,private,{USER}\ns1,run_by,f1,1,d,,,\n"
        }
    )
    assert connection.execute(
        "select a.memory, e.memory, e.org_id::text, e.owner_id::text from aiq.edge_assertions as a"
        " join aiq.edges as e on e.id = a.edge_id order by 1"
    ).fetchall() == [
        ("a", "a", ORG_A, None), ("b", "b", ORG_B, None), ("c", "c", None, USER),
        ("d", "d", None, None),
    ]  # fmt: skip


def test_spellings_of_one_key_become_one_key_of_the_best_kind(connection, load_texts):
    load_texts(FLEET | {"keys": "ref,key,kind\ns1,DAWN,alias\ns1, dawn ,canonical\n"})
    assert connection.execute("select key, kind from aiq.node_keys").fetchall() == [
        ("dawn", "canonical")
    ]


def test_lines_are_counted_through_values_with_line_breaks(load_texts):
    nodes = 'ref,entity_type,summary\r\ns1,ship,"two\r\nlines"\r\n\r\ns2,boat,x\r\n'
    with pytest.raises(LoadError) as caught:
        load_texts(FLEET | {"nodes": nodes})
    assert caught.value.line == 5


def test_a_mark_of_utf_8_at_the_start_is_no_part_of_the_header(connection, load_texts):
    load_texts({"types": b"\xef\xbb\xbf" + VOCABULARY["types"].encode()})
    assert connection.execute("select count(*) from aiq.entity_types").fetchone() == (2,)


def test_a_node_never_takes_a_handle_that_is_taken(connection, load_texts):
    load_texts(VOCABULARY | {"nodes": "ref,entity_type,handle_number\na,ship,3\nb,ship,4\n"})
    load_texts({"nodes": "ref,entity_type\nc,ship\nd,ship\n"})
    handles = [row[0] for row in connection.execute("select handle from aiq.nodes_api").fetchall()]
    assert len(set(handles)) == len(handles) == 4


N = "nodes"
E = "src,relation,dst,weight"
BAD = [
    # What is changed in the fleet, the file, the line, the SQLSTATE, what the message says.
    (N, "ref,entity_type\ns1,ship,x\n", 2, "22023", "3 columns, but the header names 2"),
    (N, "ref,entity_type,colour\ns1,ship,x\n", 1, "22023", '"colour" is not a column'),
    (N, "ref,entity_type,ref\ns1,ship,x\n", 1, "22023", '"ref" is there twice'),
    (N, "entity_type\nship\n", 1, "22023", 'column "ref" is missing'),
    (N, "", 0, "22023", "begins with a header line"),
    (N, "ref,entity_type\n,ship\n", 2, "22023", "ref is missing"),
    (N, "ref,entity_type\ns1,shp\n", 2, "42704", 'entity_type is "shp"'),
    (N, "ref,entity_type\ns1,ship\ns2,ship\ns1,firm\n", 4, "22023", "line 2's ref"),
    (N, "ref,entity_type,name\ns1,ship,Dawn\n", 2, "22023", "but not both"),
    (N, "ref,claimed_kind,name\ns1,ship,\n", 2, "22023", "needs an entity_type"),
    (N, "ref,claimed_kind,name\ns1,ship,a\ns2,SHIP,A\n", 3, "22023", '"ship/a" is line 2\'s'),
    (N, "ref,entity_type,handle_number\ns1,ship,-1\n", 2, "22023", 'handle_number is "-1"'),
    (
        N,
        "ref,entity_type,handle_number\ns1,ship,9223372036854775808\n",
        2,
        "22023",
        "handle_number",
    ),
    (N, "ref,entity_type,handle_number\ns1,ship,7\ns2,ship,7\n", 3, "22023", "line 2's ship"),
    (N, "ref,entity_type,org_id\ns1,ship,acme\n", 2, "22023", 'org_id is "acme"'),
    (N, "ref,entity_type,visibility\ns1,ship,secret\n", 2, "22023", "public, org or private"),
    (N, "ref,entity_type,visibility\ns1,ship,private\n", 2, "22023", "no owner_id"),
    (N, b"ref,entity_type,summary\ns1,ship,caf\xe9\n", 2, "22023", "is not UTF-8"),
    (N, b"ref,entity_type,summary\ns1,ship,a\x00b\n", 2, "22023", "NUL"),
    (N, 'ref,entity_type,summary\ns1,ship,"open\n', 2, "22023", "cannot be read"),
    (N, "ref,entity_type\n" + "r" * 1001 + ",ship\n", 2, "22023", "at most 1000 bytes"),
    ("keys", "ref,key\ns1,  \n", 2, "22023", 'key is "  ", but must be a key that is not blank'),
    ("keys", "ref,key\ns1,\n", 2, "22023", "key is missing"),
    ("keys", "ref,key\ns1," + "ä" * 1001 + "\n", 2, "22023", "at most 2000 bytes"),
    ("keys", "ref,key,kind\ns1,a,nick\n", 2, "22023", "canonical, short or alias"),
    ("keys", "ref,key,is_name\ns1,a,maybe\n", 2, "22023", 'is_name is "maybe"'),
    ("keys", "ref,key\nzz,a\n", 2, "P0002", 'ref is "zz"'),
    ("edges", E + "\ns1,run_by,f1,0\n", 2, "22023", 'weight is "0"'),
    ("edges", E + "\ns1,run_by,f1,1.0000001\n", 2, "22023", "above 0 and at most 1"),
    ("edges", E + "\ns1,run_by,f1,NaN\n", 2, "22023", 'weight is "NaN"'),
    ("edges", E + "\ns1,run_by,f1,1e-50\n", 2, "22023", 'weight is "1e-50"'),
    ("edges", E + "\ns1,run_by,f1,0_1\n", 2, "22023", 'weight is "0_1"'),
    ("edges", E + "\ns1,run_by,f1,\n", 2, "22023", "weight is missing"),
    ("edges", E + "\ns1,sails,f1,1\n", 2, "42704", 'relation is "sails"'),
    ("edges", E + "\ns1,run_by,f1,1\nf1,run_by,s1,1\n", 3, "42704", 'from "firm" to "ship"'),
    ("edges", E + "\ns1,run_by,nowhere,1\n", 2, "P0002", 'dst is "nowhere"'),
    ("edges", E + "\nSHP-999,run_by,f1,1\n", 2, "P0002", 'src is "SHP-999"'),
    (
        "edges",
        E + ",valid_from\ns1,run_by,f1,1,yesterday\n",
        2,
        "22023",
        'valid_from is "yesterday"',
    ),
    (
        "edges",
        E + ",valid_from\ns1,run_by,f1,1,2023-02-29\n",
        2,
        "22023",
        'valid_from is "2023-02-29"',
    ),
    ("edges", E + ",valid_to\ns1,run_by,f1,1,2024-01-01\n", 2, "22023", "needs a valid_from"),
    (
        "edges",
        E + ",valid_from,valid_to\ns1,run_by,f1,1,2024-01-02,2024-01-01\n",
        2,
        "22023",
        "is before valid_from",
    ),
    (
        "edges",
        E
        + ",valid_from,valid_to\ns1,run_by,f1,1,2024-01-01,2024-03-01\n"
        + "s1,run_by,f1,1,2024-02-01,2024-04-01\n",
        3,
        "22023",
        "overlaps line 2's",
    ),
    ("types", "name,handle_prefix\nship,SHP\nship,SH\n", 3, "22023", "already on line 2"),
    (
        "types",
        "name,handle_prefix\nship,SHP\nfirm,shp\n",
        3,
        "22023",
        'prefix of the entity type "ship"',
    ),
    ("types", "name,handle_prefix\nship,soft\n", 2, "22023", 'handle_prefix is "soft"'),
    ("types", "name,handle_prefix,indexed\nship,SHP,2\n", 2, "22023", 'indexed is "2"'),
    (
        "relations",
        "src_type,relation,dst_type\nship,run_by,farm\n",
        2,
        "42704",
        'dst_type is "farm"',
    ),
]


@pytest.mark.parametrize(
    ("kind", "text", "line", "sqlstate", "says"),
    BAD,
    ids=[f"{kind}: {says}" for kind, _, _, _, says in BAD],
)
def test_a_bad_line_is_named_and_nothing_is_loaded(
    connection, load_texts, tmp_path, kind, text, line, sqlstate, says
):
    with pytest.raises(LoadError) as caught:
        load_texts(FLEET | {kind: text})
    error = caught.value
    place = f"{tmp_path / kind}.csv" + (f", line {line}: " if line else ": ")
    assert str(error).startswith(place)
    assert says in str(error)
    assert (error.line, error.sqlstate) == (line, sqlstate)
    assert everything(connection) == {table: [] for table in TABLES}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"ref": "s1", "entity_type": "ship"}\n{"ref": "s2"\n', 2, "broken JSON at character"),
        ('["s1"]\n', 1, "a JSON array, but must be an object"),
        ('{"ref": "s1", "ref": "s2"}\n', 1, '"ref" is there twice'),
        ('{"ref": "s1", "entity_type": "ship", "summary": "\\u0000"}\n', 1, "NUL"),
        ('{"ref": "s1", "entity_type": "ship", "summary": "\\ud800"}\n', 1, "surrogate"),
        ('{"ref": ["s1"], "entity_type": "ship"}\n', 1, "must be a text"),
        ('{"ref": "s1", "entity_type": "ship", "handle_number": NaN}\n', 1, "NaN is not a number"),
        ('{"ref": "s1", "entity_type": "ship", "hue": 1}\n', 1, '"hue" is not a column'),
        ("[" * 100_000 + "\n", 1, "broken JSON"),
    ],
)
def test_a_bad_line_of_json_is_named_and_nothing_is_loaded(
    connection, load_texts, text, line, says
):
    vocabulary = {kind: as_json_lines(content) for kind, content in VOCABULARY.items()}
    with pytest.raises(LoadError) as caught:
        load_texts(vocabulary | {"nodes": text}, extension="jsonl")
    assert says in str(caught.value)
    assert caught.value.line == line
    assert everything(connection) == {table: [] for table in TABLES}


def test_a_bad_line_undoes_a_load_over_existing_rows(connection, load_texts):
    load_texts(FLEET)
    before = everything(connection)
    changed = {
        "nodes": FLEET["nodes"].replace("Line", "Other line") + "s9,ship,New\n",
        "edges": FLEET["edges"] + "s9,run_by,nobody,1\n",
    }
    with pytest.raises(LoadError, match=r"edges\.csv, line 4: dst is .nobody."):
        load_texts(changed)
    assert everything(connection) == before


def test_an_ambiguous_key_is_refused_with_the_handles(connection, load_texts):
    load_texts(
        VOCABULARY
        | {
            "nodes": "ref,entity_type,handle_number\ns1,ship,1\ns2,ship,2\nf1,firm,1\n",
            "keys": "ref,key\ns1,Dawn\ns2,dawn\n",
        }
    )
    with pytest.raises(LoadError) as caught:
        load_texts({"edges": "src,relation,dst,weight\nDAWN,run_by,f1,1\n"})
    assert 'line 2: src is "DAWN", which names 2 nodes: SHP-1, SHP-2' in str(caught.value)
    assert caught.value.sqlstate == "21000"


def test_a_retired_node_is_not_an_end(connection, load_texts):
    load_texts(FLEET)
    connection.execute("update aiq.nodes set retired_at = now() where source_pk = 's1'")
    with pytest.raises(LoadError, match="which names no node"):
        load_texts({"edges": FLEET["edges"]})


def test_a_node_cannot_change_its_type(connection, load_texts):
    load_texts(FLEET)
    with pytest.raises(LoadError, match='an earlier load of this source made it of type "ship"'):
        load_texts({"nodes": "ref,entity_type\ns1,firm\n"})


def test_a_key_of_a_soft_node_is_refused(load_texts):
    with pytest.raises(LoadError, match="a soft node has no key beside its name"):
        load_texts({"nodes": "ref,claimed_kind,name\na,ship,Moon\n", "keys": "ref,key\na,x\n"})


def test_a_handle_number_of_another_source_is_refused(load_texts):
    nodes = "ref,entity_type,handle_number\ns1,ship,5\n"
    load_texts(VOCABULARY | {"nodes": nodes}, source="one")
    with pytest.raises(LoadError, match=r'line 2: handle_number is 5, .*"s1" of "load:one"'):
        load_texts({"nodes": nodes}, source="two")


def test_a_period_that_overlaps_a_stored_one_is_refused(connection, load_texts):
    load_texts(FLEET | {"edges": "src,relation,dst,weight,valid_from\ns1,run_by,f1,1,2024-01-01\n"})
    period = "src,relation,dst,weight,valid_from,valid_to\ns1,run_by,f1,1,2024-02-01,2024-03-01\n"
    with pytest.raises(LoadError, match=r"overlaps the stored one from 2024-01-01.* on"):
        load_texts({"edges": period})


@pytest.mark.parametrize(
    ("options", "says"),
    [({"source": ""}, "the source is"), ({"source": "x" * 201}, "201 characters")],
)
def test_a_bad_source_is_refused(load_texts, options, says):
    with pytest.raises(InvalidValue, match=says):
        load_texts(FLEET, **options)


def test_an_extension_that_says_nothing_needs_a_format(connection, load_texts):
    with pytest.raises(LoadError, match="does not tell CSV from JSON Lines"):
        load_texts(VOCABULARY, extension="txt")
    load_texts(VOCABULARY, extension="txt", written="csv")
    assert connection.execute("select count(*) from aiq.relations").fetchone() == (2,)


def test_a_file_that_is_not_there_is_refused(connection, tmp_path):
    with pytest.raises(LoadError, match="cannot be read: No such file"):
        load(connection, LoadFiles(nodes=tmp_path / "none.csv"))


def test_a_database_without_the_schema_is_refused(fresh_database, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text(VOCABULARY["types"])
    with pytest.raises(MissingSetting, match="graphalgo is not installed"):
        load(fresh_database(), LoadFiles(types=path))


def test_progress_tells_of_every_byte(load_texts, tmp_path):
    read = dict.fromkeys(KINDS, 0)

    def progress(kind, count):
        read[kind] += count

    load_texts(FLEET, progress=progress)
    assert read == {kind: (tmp_path / f"{kind}.csv").stat().st_size for kind in KINDS}


def test_a_callers_transaction_survives_a_refused_load(connection, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text("name,handle_prefix\nship,SHP\nboat,\n")
    with connection.transaction():
        connection.execute(
            "insert into aiq.entity_types (name, handle_prefix) values ('pier', 'P')"
        )
        with pytest.raises(LoadError):
            load(connection, LoadFiles(types=path))
    assert connection.execute("select name from aiq.entity_types").fetchall() == [("pier",)]


def test_a_callers_settings_are_put_back(connection, load_texts):
    show = "select current_setting('search_path'), current_setting('client_min_messages')"
    with connection.transaction():
        connection.execute("set local search_path = elsewhere; set local client_min_messages = log")
        before = connection.execute(show).fetchone()
        load_texts(FLEET)
        assert connection.execute(show).fetchone() == before


def test_memory_does_not_grow_with_the_file(connection, load_texts, tmp_path):
    def peak(count: int) -> int:
        lines = "".join(f"n{number},ship,Summary {number}\n" for number in range(count))
        tracemalloc.start()
        (tmp_path / "nodes.csv").write_text("ref,entity_type,summary\n" + lines)
        del lines
        tracemalloc.reset_peak()
        load(connection, LoadFiles(nodes=tmp_path / "nodes.csv"), source=f"of {count}")
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    load_texts(VOCABULARY)
    few = peak(2_000)
    assert peak(20_000) < few + 1_000_000


# The harbour sample.


def test_the_harbour_sample_is_its_own_graph(connection):
    assert not harbour_is_loaded(connection)
    load_harbour(connection)
    assert harbour_is_loaded(connection)
    graph = graph_from_harbour(harbour_json())
    stored = connection.execute(
        "select id, entity_type, claimed_kind, soft_name, summary, handle_number from aiq.nodes"
        " order by id"
    ).fetchall()
    columns = ("id", "entity_type", "claimed_kind", "soft_name", "summary", "handle_number")
    assert stored == [tuple(node[column] for column in columns) for node in graph["nodes"]]
    keys = connection.execute("select node_id, key, kind, is_name from aiq.node_keys").fetchall()
    assert sorted(keys) == sorted(tuple(key.values()) for key in graph["keys"])
    assert connection.execute("select count(*) from aiq.edges").fetchone() == (len(graph["edges"]),)


def test_a_scrapped_ship_is_no_node():
    graph = graph_from_harbour(harbour_json())
    assert "old pelican" not in {key["key"] for key in graph["keys"]}
    assert sum(node["entity_type"] == "vessel" for node in graph["nodes"]) == 4


def test_loading_the_harbour_sample_again_changes_nothing(connection):
    load_harbour(connection)
    before = everything(connection)
    load_harbour(connection)
    assert everything(connection) == before


def test_the_harbour_sample_takes_its_scopes_and_gives_them_back(connection):
    load_harbour(connection)
    shared = everything(connection)
    load_harbour(connection, scoped=True)
    assert connection.execute(
        "select count(*) filter (where org_id is not null), count(*) from aiq.edges"
    ).fetchone() == (8, 9)
    assert connection.execute(
        "select org_id::text from aiq.nodes where summary = 'Aurora Kestrel (IMO 9214578)'"
    ).fetchone() == (ORG_B,)
    load_harbour(connection)
    assert everything(connection) == shared


def test_the_harbour_sample_beside_other_nodes_answers_like_its_twin(connection, load_texts):
    load_texts(VOCABULARY | {"nodes": "ref,entity_type\na,ship\n"})
    load_harbour(connection)
    twin = MemoryStore.from_json(harbour_json())

    def paths(store):
        rows = iterated_join(store, "NL-2231", "operator")
        return [(row.handle, row.score, [hop["link"] for hop in row.path]) for row in rows]

    assert paths(ClientStore(connection)) == paths(twin)


def test_the_harbour_sample_needs_the_schema(fresh_database):
    with pytest.raises(GraphAlgoError, match="graphalgo is not installed"):
        load_harbour(fresh_database())


def test_the_package_has_the_sample_with_it():
    assert Path(__file__).parents[2].joinpath("graphalgo/samples/harbour.json").is_file()
    assert {"tables", "edges", "soft_nodes"} <= set(harbour_json())
