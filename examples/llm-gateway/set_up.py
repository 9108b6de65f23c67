"""Set the limits, and put two keys under a project. You may run it again, after a change for example."""

from zae_limiter import Limit, SyncRateLimiter, SyncRepository

EACH_KEY = [Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 20_000)]  # so few that you soon see a refusal
ALL_KEYS = [Limit.per_minute("rpm", 15), Limit.per_minute("tpm", 30_000)]

with SyncRateLimiter(SyncRepository.open()) as limiter:
    limiter.set_system_defaults(EACH_KEY, on_unavailable="allow")
    limiter.create_entity("project-1", exist_ok=True)
    limiter.set_limits("project-1", ALL_KEYS)
    for key in ("key-ann", "key-bob"):
        limiter.create_entity(key, parent_id="project-1", cascade=True, exist_ok=True)
