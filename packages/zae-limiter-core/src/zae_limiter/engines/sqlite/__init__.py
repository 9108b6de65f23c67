"""A table in one file of SQLite, which the processes and threads of one host share."""
