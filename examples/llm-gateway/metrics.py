"""Count calls for Prometheus; PROMETHEUS_MULTIPROC_DIR has the counts of all workers, and any of them shows them."""

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from zae_limiter.observers import AcquireEvent, Event

ACQUIRES = Counter("zae_limiter_acquires", "Acquires, by outcome", ["resource", "outcome"])
REFUSALS = Counter("zae_limiter_refusals", "Limits that were short", ["resource", "limit"])
TOKENS = Counter("zae_limiter_tokens", "Tokens that ended calls used", ["resource", "limit"])


def count(event: Event) -> None:
    """Count what became of a call: an observer of the limiter."""
    if isinstance(event, AcquireEvent):
        ACQUIRES.labels(event.resource, event.outcome).inc()
        for status in event.violations:
            REFUSALS.labels(event.resource, status.limit_name).inc()
    else:
        for limit, tokens in event.consumed.items():
            TOKENS.labels(event.resource, limit).inc(max(0, tokens))


def exposition() -> bytes:
    """Return the counts of all workers."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
