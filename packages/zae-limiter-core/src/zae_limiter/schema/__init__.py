"""The content of the table: every key, every attribute name and every item is built here and nowhere else."""
