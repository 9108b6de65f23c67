"""Acquire and lease: claims, choice of shards, cascade, and statuses."""
