"""Makes the extensions of PostgreSQL that Indico needs, which only a superuser may."""

import psycopg2

connection = psycopg2.connect("host=db dbname=indico user=indico password='a-secret'")
connection.autocommit = True
for name in ("pg_trgm", "unaccent"):
    connection.cursor().execute(f"CREATE EXTENSION IF NOT EXISTS {name}")
