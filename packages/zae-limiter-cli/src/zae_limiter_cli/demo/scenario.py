"""The state before the first call: the manifest's limits, a project with its keys, and the callers."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from zae_limiter import Limit, Repository, SyncRepository, ValidationError
from zae_limiter.exceptions import EntityExistsError
from zae_limiter_manifest import LimitsManifest

from .backends import Backend

PROJECT: Final = "project-1"
RESOURCE: Final = "gpt-4"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller that makes ``calls`` at once, each for about ``tokens`` of the model's tokens."""

    entity_id: str
    calls: int
    tokens: int
    parent_id: str | None = None


CALLERS: Final = (
    Caller("key-a", 20, 400, PROJECT),
    Caller("key-b", 20, 400, PROJECT),
    Caller("user-123", 8, 300),
    Caller("user-456", 5, 3100),
)


@dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """The limits that hold for an entity, and the level that sets them."""

    entity_id: str
    limits: tuple[Limit, ...]
    level: str | None

    def consume(self, tokens: int) -> dict[str, int]:
        """Return the amounts of one call: its tokens of ``tpm``, one of every other limit."""
        return {limit.name: tokens if limit.name == "tpm" else 1 for limit in self.limits}


def apply(backend: Backend, manifest: LimitsManifest) -> Mapping[str, Any]:
    """Apply the manifest by the installed provisioner, and return its answer."""
    (entry,) = entry_points(group="zae_limiter.provisioner", name="apply")
    with SyncRepository.over(backend.sync_store, backend.options) as repository:
        answer: Mapping[str, Any] = entry.load()(repository, manifest)
        return answer


def resource_of(manifest: LimitsManifest) -> str:
    """Return the resource to call: gpt-4, unless the manifest only has other resources."""
    return RESOURCE if RESOURCE in manifest.resources else next(iter(manifest.resources), RESOURCE)


async def make_entities(repository: Repository) -> bool:
    """Create the project, and the keys that cascade to it; return whether none was there from an earlier run."""
    anew = await _make(repository, PROJECT)
    for caller in CALLERS:
        if caller.parent_id:
            anew &= await _make(repository, caller.entity_id, parent_id=caller.parent_id, cascade=True)
    return anew


async def _make(repository: Repository, entity_id: str, **extra: Any) -> bool:
    try:
        await repository.create_entity(entity_id, **extra)
    except EntityExistsError:
        return False
    return True


async def find_effective_limits(repository: Repository, resource: str) -> list[EffectiveLimits]:
    """Return the limits that hold for each caller and for the project."""
    found = []
    for entity_id in (*(caller.entity_id for caller in CALLERS), PROJECT):
        limits, _, level = await repository.resolve_limits(entity_id, resource)
        if not limits:
            message = f"no limits hold for {entity_id} on {resource}: declare some under `system` or `resources`"
            raise ValidationError("manifest", repository.name, message)
        found.append(EffectiveLimits(entity_id, tuple(limits), level))
    return found
