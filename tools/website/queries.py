"""What lives here: what readers search for, in the trade's words, and the page that answers."""

from collections.abc import Mapping
from typing import Final

QUERIES: Final[Mapping[str, str]] = {
    "concurrency": "guides/slots",
    "concurrent requests": "guides/slots",
    "per user budget": "guides/kinds",
    "unlimited": "guides/tenants",
    "priority": "guides/waiting",
    "429 body": "guides/fastapi",
    "openai error format": "guides/gateway",
    "retry after": "reference/exceptions",
    "x-forwarded-for": "guides/frameworks",
    "refund": "guides/frameworks",
    "cost": "operate/cost",
    "daily quota": "guides/quotas",
    "monthly quota": "guides/quotas",
    "streaming": "guides/streaming",
    "redis": "start/why-not-redis",
    "fail open": "guides/outages",
    "dry run": "guides/shadow",
    "api key": "guides/hierarchy",
    "celery": "guides/workers",
    "terraform": "operate/terraform-cdk",
    "github actions": "operate/pull-requests",
    "multi region": "operate/regions",
    "sqlite": "guides/sqlite",
    "django": "guides/frameworks",
    "prometheus": "metrics",
    "billing": "guides/billing",
    "slowapi": "guides/migrating",
    "kong": "guides/coming-from",
    "limitador": "guides/coming-from",
    "deprecation": "support",
    "set_tier_limits": "reference/repository-limits",
}
