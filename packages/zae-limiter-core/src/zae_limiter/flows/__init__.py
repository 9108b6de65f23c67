"""Generators that decide what to do next: all policy of the limiter, without a client, a clock, a pause or a logger."""
