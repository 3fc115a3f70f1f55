#!/bin/sh
# Makes Temporal's two databases and brings their schema up to date; doing it again changes nothing.
# temporal-sql-tool takes the place and the password from SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD, SQL_PLUGIN.
set -eu

prepare() { # DATABASE FOLDER
    temporal-sql-tool --db "$1" create
    temporal-sql-tool --db "$1" setup-schema -v 0.0
    temporal-sql-tool --db "$1" update-schema -d "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
