"""Show usage to people: queries, tables, charts."""
