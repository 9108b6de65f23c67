"""A seeded simulation of several processes on one table: the proof of the invariant of limiter.md.

Lives here: the real flows, under a scheduler and a network that may do anything. Never: a rule of the limiter.
"""
