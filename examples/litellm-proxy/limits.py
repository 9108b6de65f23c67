"""The callback that `config.yaml` names: each key may send ten requests and 20,000 tokens a minute to each model."""

from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.integrations.litellm import RateLimits

LIMITS = [Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 20_000)]


async def limiter() -> RateLimiter:
    """Open the table, at the first call of each worker."""
    return RateLimiter(await Repository.open(), default_limits=LIMITS)


limits = RateLimits(limiter, units={"tpm": "tokens"}, on_unavailable="allow")
