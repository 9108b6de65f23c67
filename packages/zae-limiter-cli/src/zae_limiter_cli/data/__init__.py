"""Entities, limits, buckets and namespaces: read from a command line, and shown on a terminal."""
