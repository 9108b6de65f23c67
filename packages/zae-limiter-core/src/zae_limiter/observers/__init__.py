"""Observers of a limiter: ``RateLimiter(repository, observers=[…])`` sends each of them an event for every call.

``otel`` has an observer for OpenTelemetry, ``emf`` one for CloudWatch.
"""

from .events import AcquireEvent, Call, Ending, Event, LeaseEvent, Observer, Outcome

__all__ = ["AcquireEvent", "Call", "Ending", "Event", "LeaseEvent", "Observer", "Outcome"]
