"""What lives here: reading what stands in a namespace, and writing what has to change, through core's repository.
What never does: deciding what has to change (changes).
"""

from collections.abc import Iterable

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter_manifest import LimitsManifest

from .answers import Answer, Failure, answer, failure
from .changes import Address, Change, Config, compare, desired_configs


def apply_manifest(repository: SyncRepository, manifest: LimitsManifest) -> Answer:
    """Bring the manifest's namespace, in the table of ``repository``, to what the manifest declares.

    The namespace is registered where it is missing. What is equal is not written, what the manifest does not name is
    left alone. A write that fails is an error of the answer; raises `ZAELimiterError` where the table cannot be read.
    """
    if repository.name != manifest.namespace:
        repository = repository.namespace(manifest.namespace)
    desired = desired_configs(manifest)
    changes = compare(desired, {address: _read(repository, address) for address in desired})
    written, errors = _write_all(repository, changes)
    return answer(written=written, errors=errors, namespace=manifest.namespace, manifest_hash=manifest.canonical_hash())


def _read(repository: SyncRepository, address: Address) -> Config:
    match address:
        case Address("entity", str(resource), str(entity)):
            return Config(tuple(repository.get_limits(entity, resource)))
        case Address("resource", str(resource)):
            return Config(tuple(repository.get_resource_defaults(resource)))
        case _:
            limits, on_unavailable = repository.get_system_defaults()
            return Config(tuple(limits), on_unavailable)


def _write_all(repository: SyncRepository, changes: Iterable[Change]) -> tuple[list[Change], list[Failure]]:
    written, errors = [], []
    for change in changes:
        try:
            _write(repository, change.address, change.after)
        except ZAELimiterError as error:
            errors.append(failure("not_written", error, change.address))
        else:
            written.append(change)
    return written, errors


def _write(repository: SyncRepository, address: Address, config: Config) -> None:
    match address:
        case Address("entity", str(resource), str(entity)):
            repository.set_limits(entity, config.limits, resource)
        case Address("resource", str(resource)):
            repository.set_resource_defaults(resource, config.limits)
        case _:
            repository.set_system_defaults(config.limits, config.on_unavailable)
