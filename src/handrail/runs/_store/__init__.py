"""The run database: SQLite by the standard library, PostgreSQL by psycopg."""
