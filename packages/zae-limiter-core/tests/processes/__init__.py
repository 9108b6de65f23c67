"""A seeded simulation of the life of a process: the real drivers, through the public API, in virtual time.

Lives here: event loops, threads, stores and callers that may be cut off anywhere. Never: a rule of the limiter.
"""
