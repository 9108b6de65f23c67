"""Engines: what performs operations. ``engine`` is their contract; each has a room of its own."""
