"""Generators that decide what to do next. All policy of the limiter is here, without a client, a clock, a pause or a
logger.
"""
