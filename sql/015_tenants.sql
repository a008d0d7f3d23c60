-- Organisations, users and memberships, and who the caller is.

create table if not exists rbac.orgs (
    id uuid primary key,
    slug text collate "C" unique,
    name text
);
alter table rbac.orgs owner to aiq_owner;
comment on table rbac.orgs is 'The tenants';

create table if not exists rbac.users (
    id uuid primary key,
    name text
);
alter table rbac.users owner to aiq_owner;
comment on table rbac.users is 'The people who call, by the sub of their claims';

create table if not exists rbac.org_members (
    org_id uuid not null references rbac.orgs (id) on delete cascade,
    user_id uuid not null references rbac.users (id) on delete cascade,
    primary key (user_id, org_id)
);
alter table rbac.org_members owner to aiq_owner;
comment on table rbac.org_members is 'Which user belongs to which organisation';
create index if not exists org_members_org on rbac.org_members (org_id, user_id);

-- A claims setting that cannot be read is an error, never an empty answer.
create or replace function rbac.private_audience(p_owner uuid) returns uuid
language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$ select md5('private:' || p_owner::text)::uuid $$;
alter function rbac.private_audience(uuid) owner to aiq_owner;
comment on function rbac.private_audience(uuid) is
    'The audience of a user''s private rows: theirs alone, and no organisation''s id';
revoke all on function rbac.private_audience(uuid) from public;

-- What is wrong with the claims, if anything, in the words of the error.
create or replace function rbac.refuse_claims(p_setting text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    claims jsonb;
    claim text;
begin
    begin
        claims := p_setting::jsonb;
    exception when others then
        raise exception using
            errcode = '22023',
            message = format('the setting request.jwt.claims is not JSON: "%s"', left(p_setting, 80)),
            hint = 'Set it to an object such as {"sub": "<user uuid>", "orgs": ["<uuid>"]}, or leave it empty.';
    end;
    if jsonb_typeof(claims) <> 'object' then
        raise exception using
            errcode = '22023',
            message = format('the setting request.jwt.claims holds a JSON %s, but must hold an object: %s', jsonb_typeof(claims), left(claims::text, 80)),
            hint = 'Set it to an object such as {"sub": "<user uuid>", "orgs": ["<uuid>"]}, or leave it empty.';
    end if;
    claim := 'sub';
    if jsonb_typeof(claims -> 'sub') in ('string', 'null') or not claims ? 'sub' then
        begin
            perform (claims ->> 'sub')::uuid;
            claim := 'orgs';
        exception when invalid_text_representation then
            null;
        end;
    end if;
    raise exception using
        errcode = '22023',
        message = format('the claim "%s" in the setting request.jwt.claims is not made of uuids: %s', claim, left((claims -> claim)::text, 80)),
        hint = 'Write uuids in quotes, such as "e0000000-0000-0000-0000-00000000000a"; "orgs" is a list of them.';
end
$$;
alter function rbac.refuse_claims(text) owner to aiq_owner;
comment on function rbac.refuse_claims(text) is
    'Raises the error that says what is wrong with claims that cannot be read';
revoke all on function rbac.refuse_claims(text) from public;

-- The claims that a statement handed to aiq.sql_passthrough runs under. A server with
-- PL/Python gets another body of this function; without it no statement can be handed.
create or replace function rbac.pinned_claims() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return null;
end
$$;
alter function rbac.pinned_claims() owner to aiq_owner;
comment on function rbac.pinned_claims() is
    'The claims of whoever called aiq.sql_passthrough, while their statement runs; null elsewhere';
revoke all on function rbac.pinned_claims() from public;

-- A policy's helpers are definer functions: under a view they run as the caller,
-- who may not read the memberships. This one is asked several times a statement,
-- so it reads the claims once and leaves the wording of errors to another. It is
-- not parallel safe: to catch an error takes a subtransaction, which no statement
-- with parallel workers may begin before PostgreSQL 17. Nor has a worker the cursor
-- or the Python of its leader.
--
-- A statement that aiq.sql_passthrough runs may write the setting, but not the claims
-- that count meanwhile. That such a statement runs is told by its cursor, which is
-- being read and so cannot be closed. It is looked for only where it can be: that
-- statement is read-only, which from PostgreSQL 17 on it certainly stays (15 lets it
-- reset transaction_read_only).
create or replace function rbac.caller_audiences() returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    setting text := current_setting('request.jwt.claims', true);
    claims jsonb;
    caller uuid;
    claimed uuid[];
begin
    if current_setting('transaction_read_only') = 'on'
        or current_setting('server_version_num')::int < 170000
    then
        if exists (select from pg_cursors as c where c.name = 'aiq.sql_passthrough') then
            setting := coalesce(rbac.pinned_claims(), setting);
        end if;
    end if;
    if setting is null or btrim(setting, E' \t\r\n') = '' then
        return '{}';
    end if;
    begin
        claims := setting::jsonb;
        caller := (claims ->> 'sub')::uuid;
        if jsonb_typeof(claims) <> 'object' or jsonb_typeof(claims -> 'sub') not in ('string', 'null') then
            raise invalid_text_representation;
        end if;
        if claims ? 'orgs' then
            case jsonb_typeof(claims -> 'orgs')
                when 'array' then
                    claimed := array(
                        select case jsonb_typeof(o.value) when 'string' then o.value #>> '{}' else '' end
                        from jsonb_array_elements(claims -> 'orgs') as o (value)
                    )::uuid[];
                when 'null' then null;
                else raise invalid_text_representation;
            end case;
        end if;
    exception when data_exception or statement_too_complex then
        perform rbac.refuse_claims(setting);
    end;
    if caller is null then
        return '{}';
    end if;
    return array(
        select m.org_id
        from rbac.org_members as m
        where m.user_id = caller and (claimed is null or m.org_id = any (claimed))
        order by m.org_id
    ) || md5('private:' || caller::text)::uuid;  -- rbac.private_audience, whose call alone would double the time
end
$$;
alter function rbac.caller_audiences() owner to aiq_owner;
comment on function rbac.caller_audiences() is
    'The audiences the caller belongs to: their organisations (their memberships, narrowed by the claim "orgs" where there is one) and their own private rows''; rows without an audience are everyone''s';
revoke all on function rbac.caller_audiences() from public;
grant execute on function rbac.caller_audiences() to authenticated, aiq_worker, aiq_engine;
