-- Search over passages. Neither @@ nor a distance is leakproof, and a policy keeps
-- a statement from running in parallel; so candidate functions of the engine role
-- search among the audiences they are given and give back ids alone. What callers
-- get is read again, under their own predicate, by functions of aiq_owner.
--
-- One by one, by their ids: as joins, they could begin with all passages.
--
-- The statements are dynamic: each is planned for the words and vectors it is
-- asked about, and pgvector's schema is known only when they run.

-- Without workers: for the most frequent words the planner would take them, and where
-- the processors are few or busy the search takes a third longer with them.
create or replace function aiq.text_candidates(
    p_source_id int, p_query tsquery, p_audiences uuid[], p_limit int
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    before constant text := current_setting('enable_seqscan');
    -- Whether the index can say which passages match: not where all do but some.
    indexed constant boolean := querytree(p_query) <> 'T';
begin
    -- To ask each passage takes several times as long as the planner thinks.
    if indexed then
        perform set_config('enable_seqscan', 'off', true);
    end if;
    return query execute $statement$
        select c.id
        from aiq.text_chunks as c
        where
            c.words @@ $2 and c.source_id = $1
            and (c.audience is null or c.audience = any ($3))
        order by ts_rank(c.words, $2) desc, c.row_number, c.row_id
        limit $4
    $statement$ using p_source_id, p_query, p_audiences, p_limit;
    if indexed then
        perform set_config('enable_seqscan', before, true);
    end if;
end
$$;
alter function aiq.text_candidates(int, tsquery, uuid[], int) owner to aiq_engine;
comment on function aiq.text_candidates(int, tsquery, uuid[], int) is
    'Candidate function: ids of the best-ranked passages of some audiences; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.text_candidates(int, tsquery, uuid[], int) from public;
grant execute on function aiq.text_candidates(int, tsquery, uuid[], int) to aiq_owner;

create or replace function aiq.rank_passages(p_source text, p_words text, p_limit int)
returns table (id text, number bigint, rank real)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    source aiq.text_sources;
    query tsquery;
    audiences constant uuid[] := rbac.caller_audiences();
begin
    select * into source from aiq.text_sources as s where s.name = p_source;
    if not found then
        perform aiq.refuse_text_source(p_source);
    end if;
    if p_limit is null or p_limit < 1 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
            hint = 'Write for example p_limit => 10.';
    end if;
    query := websearch_to_tsquery(source.configuration, p_words);
    return query
    select c.row_id, c.row_number, c.rank
    from aiq.text_candidates(source.id, query, audiences, p_limit) as k (chunk_id)
    cross join lateral (
        select o.row_id, o.row_number, ts_rank(o.words, query) as rank
        from aiq.text_chunks as o where o.id = k.chunk_id limit 1
    ) as c
    order by c.rank desc, c.row_number, c.row_id;
end
$$;
alter function aiq.rank_passages(text, text, int) owner to aiq_owner;
comment on function aiq.rank_passages(text, text, int) is
    'The p_limit best of the passages of a text source that match the words, read as a web search, with their ts_rank; ties by id. A query of stop words alone finds nothing';
revoke all on function aiq.rank_passages(text, text, int) from public;

-- How long a snippet takes grows with the cube of how often one word is searched for. So
-- each alternative has each of its operands once, which finds and marks the same; and
-- where that leaves words that are there again and again, as in many phrases, any word
-- is looked for; so it is where they are so many that to write them down takes more
-- than the stack. Quoted words may contain signs of any kind, parentheses stand around
-- what a dictionary makes of one word.
create or replace function aiq.snippet_query(p_configuration regconfig, p_words text) returns tsquery
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    most_again constant int := 10;
    most_nodes constant int := 10000;
    asked constant tsquery := websearch_to_tsquery(p_configuration, p_words);
    word constant text := '(?:''[^'']*'')+';
    -- A word, a group without another in it, or what is between them.
    part constant text := '(?:''[^'']*''|\((?:''[^'']*''|[^()''])*\)|[^''()&|])+';
    alternative constant text := '(?:''[^'']*''|\((?:''[^'']*''|[^()''])*\)|[^''()|])+';
    written text;
    again int;
begin
    if numnode(asked) > most_nodes then
        select string_agg('''' || replace(replace(u.lexeme, '\', '\\'), '''', '''''') || '''', ' | ') into written
        from unnest(to_tsvector(p_configuration, p_words)) as u;
        return coalesce(written::tsquery, asked);
    end if;
    written := asked::text;
    select count(*) - count(distinct m.words[1]) into again from regexp_matches(written, word, 'g') as m (words);
    if again = 0 then
        return asked;
    end if;
    if regexp_replace(written, word, '', 'g') !~ '\([^)]*\(' then
        select string_agg(a.operands, ' | ' order by a.place) into written
        from (
            select c.operands, min(b.place) as place
            from regexp_matches(written, alternative, 'g') with ordinality as b (words, place)
            cross join lateral (
                select string_agg(o.operand, ' & ' order by o.place) as operands
                from (
                    select btrim(p.words[1]) as operand, min(p.place) as place
                    from regexp_matches(b.words[1], part, 'g') with ordinality as p (words, place)
                    group by 1
                ) as o
            ) as c
            group by 1
        ) as a;
        select count(*) - count(distinct m.words[1]) into again from regexp_matches(written, word, 'g') as m (words);
    end if;
    if again > most_again then
        select string_agg(distinct m.words[1], ' | ') into written from regexp_matches(written, word, 'g') as m (words);
    end if;
    return written::tsquery;
end
$$;
alter function aiq.snippet_query(regconfig, text) owner to aiq_owner;
comment on function aiq.snippet_query(regconfig, text) is
    'What words are marked by in a snippet: the words read as a web search, each of them once or little more often';
revoke all on function aiq.snippet_query(regconfig, text) from public;

create or replace function aiq.show_passages(p_source text, p_ids text[], p_words text)
returns table (id text, number bigint, title text, snippet text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
    select
        c.row_id, c.row_number, c.title,
        case when p_words is not null then ts_headline(
            s.configuration, c.content, q.query,
            'StartSel=«, StopSel=», MaxFragments=2, MaxWords=30, MinWords=15, FragmentDelimiter=" … "'
        ) end
    from aiq.text_sources as s
    cross join lateral (
        select aiq.snippet_query(s.configuration, p_words) as query offset 0
    ) as q
    cross join unnest(p_ids) as i (row_id)
    cross join lateral (
        select o.row_id, o.row_number, o.title, o.content
        from aiq.text_chunks as o where o.source_id = s.id and o.row_id = i.row_id limit 1
    ) as c
    where s.name = p_source and (select rbac.caller_audiences()) is not null
$$;
alter function aiq.show_passages(text, text[], text) owner to aiq_owner;
comment on function aiq.show_passages(text, text[], text) is
    'The titles of passages and, with p_words, snippets of their contents in which the words stand between « and »';
revoke all on function aiq.show_passages(text, text[], text) from public;

-- Vectors

create or replace function aiq.near_statement(p_distance text, p_schema text, p_vector text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        '(%s operator(%I.%s) $1::%I.vector)', p_vector, p_schema,
        case p_distance when 'cosine' then '<=>' when 'l2' then '<->' else '<#>' end, p_schema
    )
$$;
alter function aiq.near_statement(text, text, text) owner to aiq_owner;
comment on function aiq.near_statement(text, text, text) is
    'The expression for pgvector''s distance of a vector from the first parameter';
revoke all on function aiq.near_statement(text, text, text) from public;
grant execute on function aiq.near_statement(text, text, text) to aiq_engine;

-- p_slack times a vector's length is how much less than pgvector's its exact
-- distance can be: nothing is passed over that could be nearer. A vector so short
-- or so long that real numbers cannot hold its square is always a candidate.
create or replace function aiq.vector_candidates(
    p_source_id int, p_model_id int, p_distance text, p_schema text, p_vector real[],
    p_slack float8, p_audiences uuid[], p_limit int
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query execute format(
        $statement$
        select v.chunk_id
        from aiq.chunk_vectors as v
        where
            v.model_id = %s and v.source_id = %s
            and (v.audience is null or v.audience = any ($2))
        order by case
            when v.norm > 1e-10 and v.norm < 1e10 then %s%s
            else '-Infinity'
        end
        limit $4
        $statement$,
        p_model_id, p_source_id, aiq.near_statement(p_distance, p_schema, format('v.vector::%I.vector', p_schema)),
        case p_distance when 'inner' then ' - $3 * v.norm' else '' end
    ) using p_vector, p_audiences, p_slack, p_limit;
end
$$;
alter function aiq.vector_candidates(int, int, text, text, real[], float8, uuid[], int) owner to aiq_engine;
comment on function aiq.vector_candidates(int, int, text, text, real[], float8, uuid[], int) is
    'Candidate function: ids of the passages of some audiences that may be nearest, by pgvector''s distance; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.vector_candidates(int, int, text, text, real[], float8, uuid[], int) from public;
grant execute on function aiq.vector_candidates(int, int, text, text, real[], float8, uuid[], int) to aiq_owner;

create or replace function aiq.approximate_candidates(
    p_source_id int, p_model_id int, p_dim int, p_distance text, p_schema text, p_vector real[],
    p_audiences uuid[], p_limit int
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    item record;
    names text[] := '{}';
    before text[] := '{}';
begin
    -- Loads the library, which is what knows these settings.
    execute format('select null::%I.vector', p_schema);
    for item in
        select * from (values
            ('hnsw.ef_search', least(1000, greatest(100, p_limit))::text),
            ('hnsw.iterative_scan', 'relaxed_order'),
            -- Where few rows are the caller's, the scan has far to go.
            ('hnsw.max_scan_tuples', '2147483647'),
            ('hnsw.scan_mem_multiplier', '8'),
            -- How long a scan over stored-apart vectors takes, the planner does not know.
            ('enable_seqscan', 'off'),
            ('enable_sort', 'off')
        ) as t (name, value)
    loop
        if current_setting(item.name, true) is not null then
            names := names || item.name;
            before := before || current_setting(item.name);
            perform set_config(item.name, item.value, true);
        end if;
    end loop;
    return query execute format(
        $statement$
        select v.chunk_id
        from aiq.chunk_vectors as v
        where
            v.model_id = %s and v.source_id = %s
            and (v.audience is null or v.audience = any ($2))
        order by %s
        limit $3
        $statement$,
        p_model_id, p_source_id,
        aiq.near_statement(p_distance, p_schema, format('v.vector::%I.vector(%s)', p_schema, p_dim))
    ) using p_vector, p_audiences, p_limit;
    perform set_config(s.name, s.value, true) from unnest(names, before) as s (name, value);
end
$$;
alter function aiq.approximate_candidates(int, int, int, text, text, real[], uuid[], int) owner to aiq_engine;
comment on function aiq.approximate_candidates(int, int, int, text, text, real[], uuid[], int) is
    'Candidate function: ids of passages of some audiences that an approximate index finds near; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.approximate_candidates(int, int, int, text, text, real[], uuid[], int) from public;
grant execute on function aiq.approximate_candidates(int, int, int, text, text, real[], uuid[], int) to aiq_owner;

create or replace function aiq.near_vectors(
    p_source text, p_model text, p_vector real[], p_slack float8, p_limit int, p_approximate boolean
) returns table (id text, number bigint, vector bytea, near float8, kind text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    source_id int;
    model aiq.embedding_models;
    schema constant text := aiq.vector_schema();
    audiences constant uuid[] := rbac.caller_audiences();
    candidates bigint[];
    fault text;
begin
    select s.id into source_id from aiq.text_sources as s where s.name = p_source;
    if not found then
        perform aiq.refuse_text_source(p_source);
    end if;
    select * into model from aiq.embedding_models as m where m.name = p_model;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    if p_limit is null or p_limit < 1 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
            hint = 'Write for example p_limit => 10.';
    end if;
    fault := case
        when p_vector is null then 'is null, but must be a list of numbers'
        when array_ndims(p_vector) > 1 then format('has %s dimensions, but must be a list of numbers', array_ndims(p_vector))
        when cardinality(p_vector) <> model.dim
            then format('has %s numbers, but model "%s" writes %s', cardinality(p_vector), model.name, model.dim)
        else (
            select format('holds %s, but each of its numbers must be finite', coalesce(u.value::text, 'null'))
            from unnest(p_vector) with ordinality as u (value, place)
            where u.value is null or u.value in ('NaN', 'Infinity', '-Infinity')
            order by u.place limit 1
        )
    end;
    if fault is not null then
        raise exception using
            errcode = '22023',
            message = 'p_vector ' || fault,
            hint = format('Send the vector that the model "%s" has made.', model.name);
    end if;
    if p_slack is null or not (p_slack >= 0 and p_slack < 'Infinity') then
        raise exception using
            errcode = '22023',
            message = format('p_slack is %s, but must be a finite number of at least 0', coalesce(p_slack::text, 'null')),
            hint = 'Write for example p_slack => 0.';
    end if;
    -- After the arguments, which are refused alike with pgvector and without it.
    if schema is null then
        raise exception using
            errcode = '55000',
            message = 'the extension vector is not installed, or closed to aiq_owner and aiq_engine',
            hint = 'As a superuser: create extension vector; exact search by other means needs none.';
    end if;
    if p_approximate and to_regclass('aiq.chunk_vectors_model_' || model.id) is null then
        raise exception using
            errcode = '55000',
            message = format('aiq.vector_search is approximate, but model "%s" has no index for it', model.name),
            hint = format(
                'A worker makes it, with pgvector: select aiq.index_embeddings(%L); or set aiq.vector_search to exact.', model.name
            );
    end if;
    if p_approximate then
        candidates := array(
            select k from aiq.approximate_candidates(
                source_id, model.id, model.dim, model.distance, schema, p_vector, audiences, p_limit
            ) as k
        );
    else
        candidates := array(
            select k from aiq.vector_candidates(
                source_id, model.id, model.distance, schema, p_vector, p_slack, audiences, p_limit
            ) as k
        );
    end if;
    return query execute format(
        $statement$
        select c.row_id, c.row_number, array_send(v.vector), case
            when v.norm > 1e-10 and v.norm < 1e10 then %s%s
            else '-Infinity'
        end, %L
        from unnest($2) with ordinality as k (chunk_id, place)
        cross join lateral (
            select o.vector, o.norm from aiq.chunk_vectors as o
            where o.chunk_id = k.chunk_id and o.model_id = %s limit 1
        ) as v
        cross join lateral (
            select o.row_id, o.row_number from aiq.text_chunks as o where o.id = k.chunk_id limit 1
        ) as c
        order by k.place
        $statement$,
        aiq.near_statement(model.distance, schema, format('v.vector::%I.vector', schema)),
        case model.distance when 'inner' then ' - $3 * v.norm' else '' end, model.distance, model.id
    ) using p_vector, candidates, p_slack;
end
$$;
alter function aiq.near_vectors(text, text, real[], float8, int, boolean) owner to aiq_owner;
comment on function aiq.near_vectors(text, text, real[], float8, int, boolean) is
    'Passages that the caller may see with their vectors of a model, as the server sends them, by pgvector''s distance from p_vector (for inner, less p_slack times the vector''s length): what the exact ranking is made from. With p_approximate, those that the model''s index finds';
revoke all on function aiq.near_vectors(text, text, real[], float8, int, boolean) from public;

grant execute on function
    aiq.rank_passages(text, text, int), aiq.show_passages(text, text[], text),
    aiq.near_vectors(text, text, real[], float8, int, boolean)
    to authenticated, aiq_worker;
