#!/bin/sh
# Makes Temporal's two databases and brings their schema up to date; doing it again changes nothing.
set -eu

tool() { # DATABASE COMMAND…
    database=$1
    shift
    # The password is in SQL_PASSWORD.
    temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_SEEDS" -p 5432 -u "$POSTGRES_USER" --db "$database" "$@"
}

prepare() { # DATABASE SCHEMA-FOLDER
    tool "$1" create || echo "database $1 is there already"
    tool "$1" setup-schema -v 0.0 || echo "schema of $1 is there already"
    tool "$1" update-schema -d "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
