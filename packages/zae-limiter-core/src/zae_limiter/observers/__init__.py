"""Observers of a limiter: ``RateLimiter(repository, observers=[…])`` tells each of them the outcome of every call.

``otel`` has an observer for OpenTelemetry, ``emf`` one for CloudWatch.
"""

from .events import AcquireEvent, Call, Ending, Event, LeaseEvent, Observer, Outcome

__all__ = ["AcquireEvent", "Call", "Ending", "Event", "LeaseEvent", "Observer", "Outcome"]
