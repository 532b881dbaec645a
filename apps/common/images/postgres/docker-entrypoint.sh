#!/bin/bash
# Creates the database cluster at the first start, as the official image does, then becomes the server.
set -euo pipefail

fail() {
    echo "postgres stand-in: $*" >&2
    exit 1
}

if [[ "${1:-}" == -* ]]; then
    set -- postgres "$@"
fi
if [[ "${1:-}" != postgres ]]; then
    exec "$@"
fi
for word in "$@"; do
    case "$word" in
        --help | --version | --describe-config | -\? | -V | -C) exec "$@" ;;  # asks, and starts no server
    esac
done
if [[ "$(id -u)" == 0 ]]; then
    mkdir -p "$PGDATA"
    # Only what is not: changing the owner of a file on an overlay copies it.
    find "$PGDATA" /var/run/postgresql \! -user postgres -exec chown postgres:postgres "{}" +
    chmod 700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$BASH_SOURCE" "$@"
fi

# A value may come from NAME or from the file named by NAME_FILE.
value_of() {
    local file_name="$1_FILE"
    if [[ -n "${!file_name:-}" ]]; then cat "${!file_name}"; else printf '%s' "${!1:-$2}"; fi
}

run_initial_files() {
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        case "$file" in
            *.sh) echo "running $file"; if [[ -x "$file" ]]; then "$file"; else . "$file"; fi ;;
            *.sql) echo "running $file"; "${client[@]}" --dbname "$database" --file "$file" ;;
            *.sql.gz) echo "running $file"; gunzip --stdout "$file" | "${client[@]}" --dbname "$database" ;;
            "/docker-entrypoint-initdb.d/*") ;;
            *) echo "ignoring $file" ;;
        esac
    done
}

if [[ ! -s "$PGDATA/PG_VERSION" ]]; then
    user="$(value_of POSTGRES_USER postgres)"
    database="$(value_of POSTGRES_DB "$user")"
    password="$(value_of POSTGRES_PASSWORD '')"
    method="${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}"
    if [[ -z "$password" && "$method" != trust ]]; then
        fail "POSTGRES_PASSWORD is not set: set it, or POSTGRES_HOST_AUTH_METHOD=trust to let everyone in"
    fi
    # shellcheck disable=SC2086 # POSTGRES_INITDB_ARGS is a list of words by its definition
    initdb --username="$user" --pwfile=<(printf '%s\n' "$password") --auth-local=trust --auth-host=trust \
        ${POSTGRES_INITDB_ARGS:-}
    printf '\nhost all all all %s\n' "$method" >> "$PGDATA/pg_hba.conf"
    # Only the socket listens until the first start is over, so that nobody meets a half-made database.
    pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses='' -p 5432" --wait start
    client=(psql --set=ON_ERROR_STOP=1 --no-psqlrc --username "$user" --no-password)
    if [[ "$database" != postgres ]]; then
        echo 'CREATE DATABASE :"name";' | "${client[@]}" --dbname postgres --set=name="$database"
    fi
    export PGUSER="$user" PGDATABASE="$database"
    run_initial_files
    unset PGUSER PGDATABASE
    pg_ctl --pgdata="$PGDATA" --mode=fast --wait stop
    echo "PostgreSQL init process complete; ready for start up."
fi
exec "$@"
