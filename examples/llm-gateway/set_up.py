"""Set what limits.yaml declares, for a trial in memory; on a file or a table `zae-limiter limits apply` does it."""

from zae_limiter import OnRefused, Repository


async def set_up(repository: Repository) -> None:
    """Set the limits of models, of a tier, of an organisation and its team, and create their keys."""
    await repository.set_system_defaults([], on_unavailable="allow")
    await repository.set_resource_defaults("gpt-5", ["rpm: 60/min", "tpm: 100k/min", "streams: 3 concurrent"])
    await repository.set_resource_defaults("gpt-5-mini", ["rpm: 300/min", "tpm: 1M/min", "streams: 10 concurrent"])
    batch = ["rpm: 20/min", "tpm: 50k/min", "streams: 1 concurrent"]
    await repository.set_tier_limits("batch", batch, on_refused=OnRefused(wait=30))
    await repository.create_entity("acme")
    await repository.set_limits("acme", ["rpm: 500/min", "tpm: 2M/min"])
    await repository.set_limits("acme", ["usd: $50/day Europe/Berlin"], "budget")
    await repository.create_entity("search", parent_id="acme", cascade=True)
    await repository.set_limits("search", ["rpm: 200/min", "tpm: 1M/min"])
    for key, tier in (("key-ann", None), ("key-bob", None), ("key-nightly", "batch")):
        await repository.create_entity(key, parent_id="search", cascade=True, tier=tier)
