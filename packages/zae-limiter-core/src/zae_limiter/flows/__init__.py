"""Generators that say what to ask next: all policy of the limiter.

Lives here: decisions. Never: a client, a clock, a sleep, a log line.
"""
