"""Tasks that call the servers of customers, each of which takes five requests a second."""

import math
import os
import random
from urllib.request import urlopen

from celery import Celery, Task

from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded, SyncRateLimiter, SyncRepository

app = Celery("tasks")
app.config_from_object("celeryconfig")
# Opened before Celery forks its pool: each child has connections of its own
limiter = SyncRateLimiter(SyncRepository.open(), default_limits=[Limit.per_second("rps", 5)])
# In an outage of the table tasks come back later, and no customer is asked too often
WHEN_AWAY = {"autoretry_for": (RateLimiterUnavailable,), "retry_backoff": True, "max_retries": None}


@app.task(bind=True, **WHEN_AWAY)
def deliver(self: Task, customer: str, url: str, events: list[str]) -> int:
    """Send events, one request each. A task without tokens goes back to the queue, and no process waits for them."""
    try:
        with limiter.acquire(customer, "webhook", {"rps": len(events)}) as lease:
            lease.keep()  # the requests count, whatever the customer's server answers
            for event in events:
                urlopen(url, event.encode(), timeout=10).close()
            return os.getpid()
    except RateLimitExceeded as refusal:
        if math.isinf(refusal.retry_after_seconds):
            raise ValueError(str(refusal)) from None  # more events than the limit ever admits; results keep the text
        raise self.retry(countdown=refusal.retry_after_seconds + random.random()) from None


@app.task(**WHEN_AWAY)
def check(customer: str, url: str) -> float:
    """Ask whether a server is there, and wait for the token: right where it comes soon and nobody queues behind."""
    with limiter.acquire(customer, "health", {"rps": 5}, max_wait=5.0) as lease:
        urlopen(url, timeout=10).close()
        return lease.waited
