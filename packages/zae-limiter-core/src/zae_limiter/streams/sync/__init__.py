"""Streams on threads."""
