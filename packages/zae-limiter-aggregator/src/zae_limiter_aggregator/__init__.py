"""The Lambda on the table's stream. Admission never depends on it."""
