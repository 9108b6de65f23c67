"""Usage for people: queries, tables, charts."""
