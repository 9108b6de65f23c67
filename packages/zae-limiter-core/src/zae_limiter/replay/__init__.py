"""Decide past calls again, by other limits: the arithmetic of ``rules``, without a table, a process or a clock.

``engine`` decides a trace of calls one by one, and agrees with a limiter; ``hourly`` has what the usage of an hour, of
which nobody knows the order, says at least and at most.
"""
