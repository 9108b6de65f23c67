"""Decide past calls again, by other limits: the arithmetic of ``rules``, without a table, a process or a clock.

``writes`` decides the writes of a kept trace one by one; ``hourly`` has what the usage of an hour, whose order is
unknown, says at least and at most.
"""
