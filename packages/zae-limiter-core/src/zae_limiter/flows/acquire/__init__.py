"""Acquire and lease: which buckets and shards are asked, and what callers learn."""
