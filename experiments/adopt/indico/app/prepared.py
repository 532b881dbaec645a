"""Ends with 0 where the database has Indico's tables."""

import psycopg2

with (
    psycopg2.connect("host=db dbname=indico user=indico password='a-secret'") as connection,
    connection.cursor() as cursor,
):
    cursor.execute("SELECT to_regclass('events.events')")
    raise SystemExit(0 if cursor.fetchone()[0] else 1)
