"""Audit events for people."""
