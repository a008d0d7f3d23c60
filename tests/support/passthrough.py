"""A database whose callers may do more than they should by a statement, and ways to try."""

from __future__ import annotations

from typing import Any

import psycopg

# Callers may write these notes, draw from this sequence, make things in this schema and
# run any text by a function: what refuses or undoes it must be the passthrough.
TOOLS = """
create schema tools;
grant usage, create on schema tools to authenticated;
create table tools.notes (id int primary key, note text);
insert into tools.notes values (1, 'one'), (2, 'two');
alter table tools.notes enable row level security;
create policy callers on tools.notes to authenticated
    using (id < 100) with check (true);
insert into tools.notes values (100, 'nobody''s');
grant all on tools.notes to authenticated;
create sequence tools.numbers;
grant all on sequence tools.numbers to authenticated;
create function tools.write(p_id int) returns int language sql volatile
as $$ insert into tools.notes values (p_id, 'written') returning id $$;
create function tools.write_as_definer(p_id int) returns int
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ insert into tools.notes values (p_id, 'written') returning id $$;
create function tools.run(p_text text) returns text language plpgsql volatile
as $$ begin execute p_text; return 'done'; end $$;
create function tools.swallow(p_text text) returns text language plpgsql volatile
as $$ begin execute p_text; return 'done'; exception when others then return sqlstate; end $$;
create function tools.settle(p_name text, p_value text) returns int language plpgsql volatile
as $$ begin perform set_config(p_name, p_value, false); return 1; end $$;
create function tools.many(p_from int, p_to int) returns setof int language plpgsql volatile
as $$ begin for i in p_from..p_to loop return next i; end loop; end $$;
create view tools.seen with (security_invoker = true) as select * from tools.notes;
grant select on tools.seen to authenticated;
create role tools_login nologin;
"""

# What is refused, and how.
REFUSED = {
    "two statements": ("select 1; select 2", "42P11"),
    "a write behind a select": ("select 1; delete from tools.notes", "42P11"),
    "a bracket too many": ("select 1) as a; delete from tools.notes; --", "42601"),
    "a comment that is no end": ("select 1 */ delete from tools.notes", "42703"),
    "a comment without an end": ("select 1 /* delete from tools.notes", "42601"),
    "a write after a comment": ("/* select */ delete from tools.notes", "42601"),
    "a line comment that ends early": (
        "-- x\rdelete from tools.notes -- \nwhere false or (select true)",
        "42601",
    ),
    "a comment in a comment": ("/* /* */ select */ delete from tools.notes", "42601"),
    "a comment that looks closed": ("/*/ select 1 */ delete from tools.notes", "42601"),
    "nothing": ("", "42601"),
    "white space": (" \t\n\r\f ", "42601"),
    "a semicolon": (";", "42601"),
    "only comments": ("-- select 1\n/* select 1 */", "42601"),
    "a bracket first": ("(select 1)", "42601"),
    "a longer word": ("selecting 1", "42601"),
    "the word alone": ("with", "42601"),
    "set": ("set role aiq_owner", "42601"),
    "reset": ("reset role", "42601"),
    "show": ("show all", "42601"),
    "copy": ("copy tools.notes to stdout", "42601"),
    "copy from a program": ("copy tools.notes from program 'id'", "42601"),
    "do": ("do $$ begin delete from tools.notes; end $$", "42601"),
    "call": ("call tools.nothing()", "42601"),
    "begin": ("begin", "42601"),
    "commit": ("commit", "42601"),
    "rollback": ("rollback to savepoint a", "42601"),
    "prepare": ("prepare p as select 1", "42601"),
    "execute": ("execute a_write", "42601"),
    "deallocate": ("deallocate all", "42601"),
    "declare": ("declare c cursor with hold for select 1", "42601"),
    "fetch": ("fetch all from c", "42601"),
    "close": ("close all", "42601"),
    "listen": ("listen somewhere", "42601"),
    "notify": ("notify somewhere", "42601"),
    "lock": ("lock table tools.notes", "42601"),
    "insert": ("insert into tools.notes values (3, 'x') returning id", "42601"),
    "update": ("update tools.notes set note = 'x' returning id", "42601"),
    "delete": ("delete from tools.notes returning id", "42601"),
    "merge": ("merge into tools.notes using tools.notes on true", "42601"),
    "truncate": ("truncate tools.notes", "42601"),
    "create": ("create table tools.made (a int)", "42601"),
    "discard": ("discard all", "42601"),
    "a table made by select": ("select 1 as a into tools.made", "42P11"),
    "a temporary table made by select": ("select 1 as a into temporary made", "42P11"),
    "an inserting with": (
        "with w as (insert into tools.notes values (3, 'x') returning id) select id from w",
        "25006",
    ),
    "a deleting with": (
        "with w as (delete from tools.notes returning id) select id from w",
        "25006",
    ),
    "an updating with, read by nobody": (
        "with w as (update tools.notes set note = 'x') select 1",
        "25006",
    ),
    "a with before a write": ("with w as (select 3) insert into tools.notes select 3", "42P11"),
    "a function that writes": ("select tools.write(3)", "25006"),
    "a writer in a condition": ("select 1 from tools.notes where tools.write(3) = 3", "25006"),
    "a definer's writer": ("select tools.write_as_definer(3)", "25006"),
    "a text that writes": (
        "select tools.run('insert into tools.notes values (3, ''x'')')",
        "25006",
    ),
    "a text that makes a table": ("select tools.run('create table tools.made (a int)')", "25006"),
    "a text that makes a function": (
        "select tools.run('create function tools.made() returns int language sql"
        " as $$ select 1 $$')",
        "25006",
    ),
    "a text that ends the transaction": ("select tools.run('commit')", "0A000"),
    "a text that makes it writable": (
        "select tools.run('set transaction read write')",
        "25001",
    ),
    "a worker's writer": ("select aiq.record_link_verdict(1, 2, 1::real)", "42501"),
    "dropping the passthrough": (
        "select tools.run('drop function aiq.sql_passthrough(text, int)')",
        "25006",
    ),
    "an explained write": ("explain analyze delete from tools.notes", "42501"),
    "an explained writing function": ("explain analyze select tools.write(3)", "42501"),
    "an explained prepared write": ("explain analyze execute a_write", "42501"),
    "an explained table": ("explain analyze create table tools.made as select 1 as a", "42501"),
    "an explained read": ("explain analyze select * from aiq.nodes_api", "42501"),
    "an explained read, British": ("explain /**/ Analyse select * from aiq.nodes_api", "42501"),
    "an explained read after a vertical tab": (
        "explain\vanalyze select * from aiq.nodes_api",
        "42501",
    ),
    "an explained read after vertical tabs and options": (
        "explain\v(\vanalyze\v) select * from aiq.nodes_api",
        "42501",
    ),
    "an explained read behind what is no word": ("explain \x01 analyze select 1", "42501"),
    "an explained read by an option": ("explain (costs off, ANALYZE) select 1", "42501"),
    "an explained read, in quotes": ('explain ("analyze") select 1', "42501"),
    "an explained read, in unicode": (r'explain (U&"\0061nalyze" on) select 1', "42501"),
    "an explained read after a comment": ("explain (costs /*)*/, analyze) select 1", "42501"),
    "an explained read in a function": (
        "select query_to_xml('explain analyze select 1', true, false, '')",
        "0A000",
    ),
    "a row lock": ("select * from tools.notes for update", "25006"),
    "a shared row lock": ("select * from tools.notes for key share", "25006"),
    "a sequence's next number": ("select nextval('tools.numbers')", "25006"),
    "a sequence's number": ("select setval('tools.numbers', 1000)", "25006"),
    "a role": ("select set_config('role', 'aiq_owner', true)", "42501"),
    "no role": ("select set_config('role', 'none', false)", "42501"),
    "the role before": ("select set_config('role', null, true)", "42501"),
    "a text that sets a role": ("select tools.run('set local role aiq_engine')", "42501"),
    "a text that takes a role back": ("select tools.run('reset role')", "42501"),
    "another session user": (
        "select set_config('session_authorization', 'postgres', true)",
        "42501",
    ),
    "the session user before": ("select tools.run('reset session authorization')", "42501"),
    "a superuser's setting": (
        "select set_config('session_replication_role', 'replica', true)",
        "42501",
    ),
    "a write again": ("select set_config('transaction_read_only', 'off', true)", "25001"),
    "a write again for the session": (
        "select set_config('transaction_read_only', 'off', false)",
        "25001",
    ),
    "a base table": ("select * from aiq.nodes", "42501"),
    "the memberships": ("select * from rbac.org_members", "42501"),
    "the claims' helper": ("select rbac.pinned_claims()", "42501"),
    "the owner's candidates": ("select aiq.similar_name_candidates('{a}', 0.3::real)", "42501"),
    "a file": ("select pg_read_file('/etc/passwd')", "42501"),
    "a folder": ("select pg_ls_dir('.')", "42501"),
    "a large object from a file": ("select lo_import('/etc/passwd')", "42501"),
    "a large object to a file": ("select lo_export(1, '/tmp/exported')", "42501"),
    "the end of its own session": ("select pg_terminate_backend(pg_backend_pid())", "42501"),
    "its own cancellation": ("select pg_cancel_backend(pg_backend_pid())", "42501"),
    "the statistics": ("select pg_stat_reset()", "42501"),
    "the log": ("select pg_rotate_logfile()", "42501"),
    "the write-ahead log": ("select pg_switch_wal()", "42501"),
    "the configuration": ("select pg_reload_conf()", "42501"),
    "a snapshot": ("select pg_export_snapshot()", "25001"),
    "a query in a function": (
        "select query_to_xml('delete from tools.notes returning id', true, false, '')",
        "0A000",
    ),
    "a command in a function": (
        "select query_to_xml('set role aiq_owner', true, false, '')",
        "0A000",
    ),
    "its own guard": ("select cursor_to_xml('aiq.sql_passthrough', 1, true, false, '')", "55000"),
    "closing its own guard": ("""select tools.run('close "aiq.sql_passthrough"')""", "24000"),
    "two columns of a name": ("select 1 as a, 2 as a", "42701"),
    "two columns without a name": ("select 1, 2", "42701"),
    "a cursor that was open already": (
        "select tools.run('declare \"aiq.sql_passthrough\" cursor for select 1')",
        "42P03",
    ),
    "itself without end": (
        "select aiq.sql_passthrough(current_setting('tools.itself'))",
        "54001",
    ),
    "a parameter": ("select $1", "42P02"),
    "a backslash that ends no string": (
        r"select E'\'; delete from tools.notes; --'; select 1",
        "42P11",
    ),
    "a zero division": ("select 1 / 0", "22012"),
}

# What is answered, and leaves nothing.
HARMLESS = {
    "a semicolon at the end": "select 1 ; ; -- that is all",
    "comments first": "-- first\r/* a /* b */ ; */ \n\t select 1",
    "a semicolon in dollars": "select $$; delete from tools.notes; $$ as text",
    "a semicolon in named dollars": "select $q$ $$; delete from tools.notes $q$ as text",
    "a semicolon in unicode": r"select U&'\003b delete from tools.notes' as text",
    "a semicolon in a name": 'select 1 as "; delete from tools.notes"',
    "a closing comment in a string": "select '*/ ; delete from tools.notes --' as text",
    "an explained write that is not run": "explain delete from tools.notes",
    "an explained table that is not made": "explain create table tools.made as select 1 as a",
    "an explained prepared write": "explain execute a_write",
    "plain options": "explain (format json, verbose, costs off, summary true) select 1",
    "verbose": "explain verbose select 1",
    "a notification": "select pg_notify('passthrough', 'hello')",
    "a text that notifies": "select tools.run('notify passthrough, ''hello''')",
    "a text that listens": "select tools.run('listen passthrough')",
    "a text that is refused and caught": "select tools.swallow('delete from tools.notes')",
    "a time-out for the session": "select set_config('statement_timeout', '0', false)",
    "a path for the session": "select set_config('search_path', 'tools', false)",
    "claims for the session": "select set_config('request.jwt.claims', '{}', false)",
    "claims for the transaction": "select set_config('request.jwt.claims', 'nonsense', true)",
    "a judge": "select set_config('percolate.link_judge', 'tools.judge', false)",
    "a setting of nobody's": "select set_config('tools.made', 'x', false)",
    "a text that sets": "select tools.run('set search_path = tools')",
    "a session lock": "select pg_advisory_lock(11)",
    "a shared session lock": "select pg_advisory_lock_shared(11)",
    "a session lock of two keys": "select pg_advisory_lock(-11, 12)",
    "a session lock, many times": "select pg_advisory_lock(g)"
    " from tools.many(-3, 3) as g, tools.many(1, 9)",
    "a transaction's lock": "select pg_advisory_xact_lock(11)",
    "a lock of the session's, released": "select pg_advisory_unlock(77)",
    "all locks released": "select pg_advisory_unlock_all()",
    "a transaction's number": "select txid_current()",
    "a seed": "select setseed(0.5)",
    "a message in the log of changes": "select pg_logical_emit_message(true, 'a', 'b')",
    "no columns": "select",
    "no rows": "select 1 where false",
    "a table": "table tools.notes",
    "values": "values (1, 'a'), (2, 'b')",
    "itself": "select aiq.sql_passthrough('select aiq.sql_passthrough(''select 1'')')",
}

# What one version refuses and another runs; either way nothing stays.
EITHER = {
    "a large object": ("select lo_create(0)", {"25006"}),
    "a large object's bytes": (r"select lo_from_bytea(0, '\x00')", {"25006"}),
    "a large object's end": (
        "select lo_unlink((select min(oid) from pg_largeobject_metadata))",
        {"25006", "42501"},
    ),
    "the transaction's mode before": (
        "select set_config('transaction_read_only', null, true)",
        {"25006", "0A000"},
    ),
    "a write in between": (
        "select set_config('transaction_read_only', null, true) as a, tools.write(3) as b,"
        " set_config('transaction_read_only', 'on', true) as c",
        {"25006", "0A000"},
    ),
    "a writer that caught the mode": (
        "select tools.run('reset transaction_read_only; insert into tools.notes values (3)')",
        {"25006", "0A000"},
    ),
}


def passthrough(
    connection: psycopg.Connection[Any], statement: str, limit: int = 1000
) -> dict[str, Any]:
    """Call the function."""
    row = connection.execute(
        "select aiq.sql_passthrough(%s, %s)", [statement, limit], binary=True
    ).fetchone()
    assert row is not None
    answer: dict[str, Any] = row[0]
    return answer


STATE = """
select
    current_user::text, session_user::text, current_setting('transaction_read_only'),
    current_setting('request.jwt.claims', true), coalesce(current_setting('tools.made', true), ''),
    (
        select array_agg(s.name || '=' || coalesce(s.setting, '') order by s.name)
        from pg_catalog.pg_settings as s
    ),
    (
        select array_agg(l.lock order by l.lock) from (
            select (k.classid, k.objid, k.objsubid, k.mode)::text as lock, k.locktype, k.pid
            from pg_catalog.pg_locks as k
        ) as l where l.locktype = 'advisory' and l.pid = pg_backend_pid()
    ),
    (select array_agg(c.name order by c.name) from pg_catalog.pg_cursors as c where c.name <> ''),
    (select array_agg(p.name order by p.name) from pg_catalog.pg_prepared_statements as p),
    (select array_agg(c) from pg_catalog.pg_listening_channels() as c),
    (
        select array_agg(c.relname order by c.relname) from pg_catalog.pg_class as c
        where c.relname = 'made' or c.relnamespace = pg_my_temp_schema()
    ),
    (select count(*) from pg_catalog.pg_largeobject_metadata),
    (select array_agg((n.id, n.note)::text order by n.id) from tools.notes as n)
"""


def state(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    """What a statement must leave as it was, as its caller sees it."""
    row = connection.execute(STATE.encode()).fetchone()
    assert row is not None
    return tuple(row)


def check_writable(connection: psycopg.Connection[Any]) -> None:
    """The caller's transaction goes on, and still writes."""
    with connection.transaction(force_rollback=True):
        row = connection.execute("insert into tools.notes values (50, 'mine') returning id")
        assert row.fetchone() == (50,)
