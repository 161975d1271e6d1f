"""The database of runs: SQLite by the standard library, PostgreSQL by psycopg."""
