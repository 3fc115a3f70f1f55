#!/bin/sh
# Makes Temporal's two databases and brings their schema up to date; doing it again changes nothing.
# TEMPORAL_SCHEMA: the folder of Temporal's schemas, where it is not that of the admin-tools image.
# temporal-sql-tool takes the place and the password from SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD, SQL_PLUGIN.
set -eu

prepare() { # DATABASE FOLDER
    temporal-sql-tool --db "$1" create
    temporal-sql-tool --db "$1" setup-schema -v 0.0
    temporal-sql-tool --db "$1" update-schema -d "${TEMPORAL_SCHEMA:-/etc/temporal/schema}/postgresql/v12/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
