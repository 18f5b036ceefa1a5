#!/bin/sh
# Creates both databases of Temporal and brings them to the schema of this server version. Safe to run again.
set -eu

: "${POSTGRES_SEEDS:?}" "${POSTGRES_USER:?}" "${SQL_PASSWORD:?}"

sql() {
    database=$1
    shift
    temporal-sql-tool --plugin postgres12 --endpoint "$POSTGRES_SEEDS" --port "${DB_PORT:-5432}" \
        --user "$POSTGRES_USER" --database "$database" "$@"
}

prepare() {
    sql "$1" create
    sql "$1" setup-schema --version 0.0
    sql "$1" update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
