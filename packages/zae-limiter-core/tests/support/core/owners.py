"""Who has a method."""

from typing import Any, cast

from zae_limiter import Repository, SyncRepository
from zae_limiter.maintenance import Maintenance, SyncMaintenance

from .worlds import Awaited


def maintenance_of(repository: Repository) -> Maintenance:
    """The maintenance of a repository of either variant, as a script awaits it."""
    target = getattr(repository, "_target", None)  # behind the async face of a sync one
    if isinstance(target, SyncRepository):
        return cast("Maintenance", Awaited(SyncMaintenance(target)))
    return Maintenance(repository)


def owner_of(method: str, repository: Any) -> Any:
    """The repository that has the method, or else the maintenance of it."""
    if isinstance(repository, SyncRepository):
        return repository if hasattr(repository, method) else SyncMaintenance(repository)
    return repository if hasattr(Repository, method) else maintenance_of(repository)
