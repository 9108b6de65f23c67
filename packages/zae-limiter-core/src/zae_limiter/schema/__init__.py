"""The content of the table: every key and every attribute name is built here and nowhere else."""
