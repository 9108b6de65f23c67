"""A function behind an HTTP API that answers each user ten times a minute, in all its instances together."""

import json
from typing import Any

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.http import PROBLEM_MEDIA_TYPE, STATUS, headers, problem
from zae_limiter.observers.emf import EmbeddedMetricsObserver

# Opened by the cold start; warm calls, and those after a freeze, use its connections
limiter = SyncRateLimiter(
    SyncRepository.open(on_unavailable="allow"),
    default_limits=[Limit.per_minute("rpm", 10)],
    observers=[EmbeddedMetricsObserver()],
)


def on_request(event: dict[str, Any], _: object) -> dict[str, Any]:
    """Answer a request that the API's JWT authorizer has let through."""
    user = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    try:
        with limiter.acquire(user, "answers", {"rpm": 1}) as lease:
            return {"statusCode": 200, "headers": headers(lease), "body": json.dumps({"answer": 42})}
    except RateLimitExceeded as refusal:
        fields = {"Content-Type": PROBLEM_MEDIA_TYPE, **headers(refusal)}
        return {"statusCode": STATUS, "headers": fields, "body": json.dumps(problem(refusal))}
