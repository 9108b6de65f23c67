"""The doors as a type checker sees them: mypy checks this file, and nothing runs it."""

from typing import assert_type

import zae_limiter
from zae_limiter import AccessDisabled, Repository, SyncRepository, exceptions, maintenance, values
from zae_limiter.exceptions import AccessDisabled as Disabled
from zae_limiter.exceptions import EntityExistsError
from zae_limiter.maintenance import Maintenance, ProvisionerState, SyncMaintenance
from zae_limiter.values import ResolvedLimits, SystemDefaults


async def names(repository: Repository, blocking: SyncRepository) -> None:
    """Types of what is there, and what is not."""
    assert_type(await Maintenance(repository).get_provisioner_state(), ProvisionerState)
    assert_type(SyncMaintenance(blocking).get_provisioner_state(), ProvisionerState)
    assert_type(await repository.resolve_limits("user", "api"), ResolvedLimits)
    assert_type(blocking.get_system_defaults(), SystemDefaults)
    print(AccessDisabled, Disabled, EntityExistsError)
    print(zae_limiter.EntityExistsError)  # type: ignore[attr-defined]
    print(exceptions.NoSuchError)  # type: ignore[attr-defined]
    print(maintenance.no_such_name)  # type: ignore[attr-defined]
    print(values.NoSuchValue)  # type: ignore[attr-defined]
    SyncMaintenance(repository)  # type: ignore[arg-type]
    Maintenance(blocking)  # type: ignore[arg-type]
