"""Streams on an event loop."""
