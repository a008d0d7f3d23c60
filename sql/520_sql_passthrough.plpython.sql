-- SQL from outside: one statement, read only, as the caller.
--
-- The function is SECURITY DEFINER because nothing else keeps `role` and
-- `session_authorization` from being set inside a statement. Its owner is a role that
-- is a member of `authenticated`, holds nothing else, and whose member nobody is: so a
-- statement has the rights of `authenticated`, whoever asks and whatever else they may
-- do, under the policies of `authenticated`. It is not owned by `authenticated` itself,
-- which could then drop it.
--
-- What it does not keep from: reading settings (claims, headers, whatever a gateway puts
-- there) and the server's statistics; and a policy of others that reads the setting
-- request.jwt.claims by itself, rather than rbac.caller_audiences, can be told other
-- claims.
--
-- What a rollback does not undo, and what therefore stays:
-- - sequences, on PostgreSQL 15 alone: there set_config('transaction_read_only', null, true)
--   puts back what the session began with, without a check, so that a statement can write
--   for a moment. Rows it writes are rolled back, but a number that nextval or setval takes
--   from a sequence that `authenticated` may use is taken. Later versions refuse it;
-- - session advisory locks that the caller holds and the statement releases: each is taken
--   again when it ends, once, however often it was held, and if another session got it in
--   between the call fails with 55P03. One that the caller held and the statement took once
--   more is held once more;
-- - what functions that execute text do to the session: DEALLOCATE of the caller's prepared
--   statements, PREPARE of others, CLOSE of the caller's cursors, and how far MOVE and FETCH
--   have moved them;
-- - setseed, and messages for logical decoding that are not transactional;
-- - what a function does outside this database (dblink, an untrusted language).
--
-- All around the statement is a cursor of a fixed name (see rbac.caller_audiences), and
-- around that a subtransaction that is read only and always rolled back.

grant authenticated to aiq_reader;

create or replace function rbac.pinned_claims() returns text
language plpython3u stable
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:pinned_claims@$plpython$;
alter function rbac.pinned_claims() owner to aiq_owner;
comment on function rbac.pinned_claims() is
    'The claims of whoever called aiq.sql_passthrough, while their statement runs; null elsewhere';
revoke all on function rbac.pinned_claims() from public;

create or replace function aiq.cursor_columns(p_cursor text)
returns table (name text, type oid, modifier int)
language plpython3u volatile security invoker
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:cursor_columns@$plpython$;
alter function aiq.cursor_columns(text) owner to aiq_owner;
comment on function aiq.cursor_columns(text) is
    'The columns of an open cursor, in their order';
revoke all on function aiq.cursor_columns(text) from public;
grant execute on function aiq.cursor_columns(text) to aiq_reader;

-- Row by row: what is not shown is not read, and a value too large is not converted.
create or replace function aiq.read_statement(
    p_statement text, p_limit int,
    out columns text, out rows text, out row_count int, out cut text
)
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    most constant int := 16 * 1024 * 1024;
    statement refcursor;
    one record;
    line text;
    lines text[] := '{}';
    size bigint := 0;
    twice text;
begin
    row_count := 0;
    -- Refuses what is not one statement, or one that answers no rows.
    open statement for execute p_statement;
    -- Runs what does not run row by row: here, since an error that passes through PL/Python
    -- has its words put before the server's.
    move forward 0 in statement;
    select
        json_agg(json_build_object('name', c.name, 'type', format_type(c.type, c.modifier)) order by c.number),
        (array_agg(c.name order by c.number) filter (where c.occurrence > 1))[1]
    into columns, twice
    from (
        select c.*, row_number() over (partition by c.name order by c.number) as occurrence
        from aiq.cursor_columns(statement::text) with ordinality as c (name, type, modifier, number)
    ) as c;
    if twice is not null then
        raise exception using
            errcode = '42701',
            message = format('the statement answers two columns "%s", but rows are objects by column', twice),
            hint = 'Give each column a name of its own, with AS.';
    end if;
    loop
        fetch statement into one;
        -- PostgreSQL 15 lets a statement reset this, though what it writes is rolled back.
        if current_setting('transaction_read_only') <> 'on' then
            raise exception using
                errcode = '25006',
                message = 'the statement makes its transaction writable, but it must be read only',
                hint = 'Leave transaction_read_only as it is.';
        end if;
        exit when not found;
        if row_count = p_limit then
            cut := format('Only the first %s rows are here: p_limit leaves out the others.', row_count);
            exit;
        end if;
        if pg_column_size(one) < most then
            line := to_json(one)::text;
            size := size + octet_length(line) + 1;
        else
            size := most;
        end if;
        if size >= most then
            cut := format(
                'Only the first %s rows are here: with the next one the answer would be larger than 16 MB.',
                row_count
            );
            exit;
        end if;
        row_count := row_count + 1;
        lines[row_count] := line;
    end loop;
    close statement;
    columns := coalesce(columns, '[]');
    rows := '[' || array_to_string(lines, ',') || ']';
end
$$;
alter function aiq.read_statement(text, int) owner to aiq_owner;
comment on function aiq.read_statement(text, int) is
    'Reads the first rows of one statement, at most 16 MB of them; says what cut them';
revoke all on function aiq.read_statement(text, int) from public;
grant execute on function aiq.read_statement(text, int) to aiq_reader;

create or replace function aiq.run_statement(
    p_statement text, p_limit int, p_guard text,
    out columns text, out rows text, out row_count int, out cut text
)
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    guard refcursor := p_guard;
begin
    -- Here, since it holds until the subtransaction ends, and each call of PL/Python is one.
    perform set_config('transaction_read_only', 'on', true);
    open guard no scroll for
        select s.columns, s.rows, s.row_count, s.cut from aiq.read_statement(p_statement, p_limit) as s;
    fetch guard into columns, rows, row_count, cut;
    close guard;
end
$$;
alter function aiq.run_statement(text, int, text) owner to aiq_owner;
comment on function aiq.run_statement(text, int, text) is
    'Makes the subtransaction read only and reads a statement inside a cursor of a given name, which tells that it runs';
revoke all on function aiq.run_statement(text, int, text) from public;
grant execute on function aiq.run_statement(text, int, text) to aiq_reader;

create or replace function aiq.sql_passthrough_plpython(p_statement text, p_limit int)
returns table (columns text, rows text, row_count int, cut text, refusal text)
language plpython3u volatile security invoker rows 1
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:sql_passthrough@$plpython$;
alter function aiq.sql_passthrough_plpython(text, int) owner to aiq_owner;
comment on function aiq.sql_passthrough_plpython(text, int) is
    'What aiq.sql_passthrough calls; a refusal is in its last column';
revoke all on function aiq.sql_passthrough_plpython(text, int) from public;
grant execute on function aiq.sql_passthrough_plpython(text, int) to aiq_reader;

create or replace function aiq.sql_passthrough(p_statement text, p_limit int default 1000)
returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answer record;
    written text;
begin
    select s.columns, s.rows, s.row_count, s.cut
    into answer
    from aiq.sql_passthrough_plpython(p_statement, p_limit) as s
    where s.refusal is null or aiq.refuse(s.refusal);
    -- Read by the server once, at the end: the conversion of a large answer cannot be
    -- interrupted, and to build it of parts would convert the rows again for each.
    written := format(
        '{"mode": "SQL", "plan": %s, "columns": %s, "rows": %s, "row_count": %s, "truncated": %s%s}',
        jsonb_build_object('mode', 'SQL', 'statement', p_statement), answer.columns, answer.rows,
        answer.row_count, to_json(answer.cut is not null), ', "note": ' || to_json(answer.cut)
    );
    return written;
end
$$;
alter function aiq.sql_passthrough(text, int) owner to aiq_reader;
comment on function aiq.sql_passthrough(text, int) is
    'Runs one statement (SELECT, WITH, TABLE, VALUES or EXPLAIN), read only and with the rights of authenticated, and answers its columns and rows as JSON. Names outside pg_catalog need their schema. Nothing of it stays: it is rolled back, and session locks that it took are released. Sequences on PostgreSQL 15, locks that the caller held, and prepared statements and cursors of the session are beyond that. Arguments: p_statement, at most 100,000 characters; p_limit, at least 1 row, of which no more than 16 MB are answered: truncated and note say what was left out.';
revoke all on function aiq.sql_passthrough(text, int) from public;
grant execute on function aiq.sql_passthrough(text, int) to authenticated, aiq_worker;
