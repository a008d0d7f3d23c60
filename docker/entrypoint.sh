#!/usr/bin/env bash
# Starts PostgreSQL with graphalgo installed, as process 1 of a container.
#
#   POSTGRES_PASSWORD           the superuser's password; needed on the first start, unless
#   POSTGRES_HOST_AUTH_METHOD   is trust (default: scram-sha-256)
#   POSTGRES_USER               the superuser (default: postgres)
#   POSTGRES_DB                 the database to make and install in (default: the superuser's name)
#   POSTGRES_INITDB_ARGS        more arguments for initdb
#   GRAPHALGO_SAMPLE            harbour or investigation loads that sample on the first start, all
#                               loads both (default: none)
#   GRAPHALGO_AGENT_PASSWORD    makes the role graphalgo_agent with that password on the first
#                               start: the MCP server's, which may become a caller (default: no role)
#
# Each of the first four, and the last, may be given as NAME_FILE, the path of a file that holds
# it. Files *.sql and *.sh in /docker-entrypoint-initdb.d run at the end of the
# first start. A start with another build of graphalgo upgrades every database
# that has an older one.
set -Eeuo pipefail

here=/usr/local/share/graphalgo
socket=/var/run/postgresql
prepared=$PGDATA/graphalgo.prepared   # the build that prepared this directory, and its superuser
fresh=$PGDATA/.new                    # where a new cluster is made before it is moved into place

say() { echo "graphalgo: $*"; }
fail() {
    echo "graphalgo: $1" >&2
    [ -z "${2:-}" ] || echo "HINT: $2" >&2
    exit 1
}

# read_file NAME: where NAME_FILE is set, NAME is what that file holds.
read_file() {
    local file=$1_FILE
    [ -n "${!file:-}" ] || return 0
    [ -z "${!1:-}" ] || fail "$1 and $file are both set, but one is expected" "Unset one of them."
    [ -r "${!file}" ] || fail "$file names '${!file}', which cannot be read"
    export "$1=$(<"${!file}")"
    unset "$file"
}

check_environment() {
    local sample=${GRAPHALGO_SAMPLE:-none}
    case $sample in
        none | harbour | investigation | all) ;;
        *) fail "GRAPHALGO_SAMPLE is '$sample', but harbour, investigation, all or none is expected" ;;
    esac
    [ -e "$PGDATA/PG_VERSION" ] || [ -n "${POSTGRES_PASSWORD:-}" ] ||
        [ "${POSTGRES_HOST_AUTH_METHOD:-}" = trust ] ||
        fail "the superuser has no password, and the database is not yet made" \
            "Give one with -e POSTGRES_PASSWORD=…, or let everybody in with -e POSTGRES_HOST_AUTH_METHOD=trust."
}

# Makes the cluster beside its place and moves it there, PG_VERSION last: a start
# that is cut short leaves nothing that the next one takes for a cluster.
make_cluster() {
    local method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256} foreign
    rm -rf "$fresh"
    foreign=$(find "$PGDATA" -mindepth 1 -maxdepth 1 ! -name lost+found -printf '%f ' -quit)
    [ -z "$foreign" ] || fail "$PGDATA holds ${foreign% }, but no PostgreSQL cluster" \
        "Mount an empty volume there, or one that this image made."
    local -a password=() more=()
    [ -z "${POSTGRES_PASSWORD:-}" ] || password=(--pwfile=/dev/fd/3)
    read -r -a more <<<"${POSTGRES_INITDB_ARGS:-}"
    say "making a PostgreSQL $PG_MAJOR cluster in $PGDATA"
    initdb --pgdata="$fresh" --username="$POSTGRES_USER" --encoding=UTF8 --locale=C.UTF-8 \
        --auth-local=trust --auth-host="$method" "${password[@]}" "${more[@]}" \
        3<<<"${POSTGRES_PASSWORD:-}" >/dev/null
    printf '\nhost all all all %s\n' "$method" >>"$fresh/pg_hba.conf"
    printf "\nlisten_addresses = '*'\n" >>"$fresh/postgresql.conf"
    find "$fresh" -mindepth 1 -maxdepth 1 ! -name PG_VERSION -exec mv -t "$PGDATA" {} +
    mv "$fresh/PG_VERSION" "$PGDATA"
    rmdir "$fresh"
}

stop_server() { pg_ctl --pgdata="$PGDATA" --silent --mode=fast --wait stop || true; }

# Runs the rest of its arguments while a server listens on the socket alone.
with_server() {
    trap stop_server EXIT
    pg_ctl --pgdata="$PGDATA" --silent --wait --timeout=600 --options="-c listen_addresses=''" start
    "$@"
    trap - EXIT
    stop_server
}

first_preparation() {
    /usr/bin/python3 "$here/prepare.py" --user="$POSTGRES_USER" --database="$POSTGRES_DB" \
        --sample="${GRAPHALGO_SAMPLE:-none}"
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) say "running $file"; bash "$file" ;;
            *.sql)
                say "running $file"
                psql --host="$socket" --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
                    --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --file="$file"
                ;;
        esac
    done
}

upgrade() { /usr/bin/python3 "$here/prepare.py" --user="$POSTGRES_USER"; }

main() {
    local build name
    case ${1:-} in '' | -*) set -- postgres "$@" ;; esac
    # Anything but a server to serve: a shell, psql, postgres --version …
    if [ "$1" != postgres ] || [[ " $* " =~ \ (--help|-\?|--version|-V|--describe-config|-C)\  ]]; then
        exec "$@"
    fi
    for name in POSTGRES_PASSWORD POSTGRES_USER POSTGRES_DB POSTGRES_HOST_AUTH_METHOD \
        GRAPHALGO_AGENT_PASSWORD; do
        read_file "$name"
    done
    if [ "$(id -u)" = 0 ]; then
        install -d -o postgres -g postgres -m 0700 "$PGDATA"
        find "$PGDATA" ! -user postgres -exec chown postgres:postgres {} +
        export HOME=/var/lib/postgresql
        exec setpriv --reuid=postgres --regid=postgres --init-groups -- /bin/bash "$0" "$@"
    fi
    # Process 1 ignores what it does not handle; once it is the server, that handles them.
    trap 'exit 130' INT TERM
    check_environment
    export POSTGRES_USER=${POSTGRES_USER:-postgres}
    export POSTGRES_DB=${POSTGRES_DB:-$POSTGRES_USER}
    [ -e "$PGDATA/PG_VERSION" ] || make_cluster
    [ "$(<"$PGDATA/PG_VERSION")" = "$PG_MAJOR" ] ||
        fail "$PGDATA was made by PostgreSQL $(<"$PGDATA/PG_VERSION"), but this image has $PG_MAJOR" \
            "Dump it with an image of that version and load the dump into a new volume."
    build=$(<"$here/digest")
    if [ ! -e "$prepared" ]; then
        with_server first_preparation
        printf '%s\n%s\n' "$build" "$POSTGRES_USER" >"$prepared"
    elif [ "$(head -n 1 "$prepared")" != "$build" ]; then
        POSTGRES_USER=$(tail -n +2 "$prepared")
        with_server upgrade
        printf '%s\n%s\n' "$build" "$POSTGRES_USER" >"$prepared"
    fi
    # Code in the server can read its environment.
    unset POSTGRES_PASSWORD GRAPHALGO_AGENT_PASSWORD
    exec "$@"
}

main "$@"
