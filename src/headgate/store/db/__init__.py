"""How statements run on SQLite and PostgreSQL."""
