"""The table of old names: an old name is answered with the new one. Deleted with 1.0.

No module imports this one before an unknown name is used.
"""

import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any, Final, NoReturn

from .runtime import namesake

# A name of `zae_limiter`: the module that has it now, and its name there. The import works, and warns.
_MOVED: Final = {
    "zae_limiter.exceptions": (
        "CertificateError ClientTooOldError ContentionError EntityError EntityExistsError EntityHasChildrenError "
        "EventLoopError InfrastructureError InfrastructureNotFoundError InvalidIdentifierError InvalidNameError "
        "LeaseExpiredError NamespaceNotFoundError NamespaceStateError NoUpgradePathError OlderClientsError "
        "RepositoryClosedError StackTooOldError StaleEntityError StaleStateError StoreRefusedError VersionError"
    ),
    "zae_limiter.values": (
        "AuditEvent AuditPage Bucket BucketExplanation BucketLimit BucketPage BulkResult CacheStats EntityPage "
        "EntityUsage KnownEntity LimitCapacity LimitExplanation LimitUsage Namespace Refuser ResolvedSwitches "
        "ResourceCapacity SetSwitch StoreStats UsagePage UsageSummary"
    ),
    "zae_limiter.maintenance": (
        "HandledEvent LiveBuckets ProvisionerLock ProvisionerState StoredConfig StoredEntity VersionRecord"
    ),
}
NAMES: Final[Mapping[str, str]] = {
    **{name: f"{home}.{name}" for home, names in _MOVED.items() for name in names.split()},
    "ToldBuckets": "zae_limiter.maintenance.InvalidatedBuckets",
}

# A method or an attribute of a class, or of its blocking variant: what to write instead.
_FOR_MAINTENANCE: Final = (
    "count_live_buckets get_buckets_at get_configs get_entity_records get_last_calls get_provisioner_state "
    "get_version_record list_config_places list_entity_ids list_orphan_namespaces merge_bucket note_applied "
    "purge_namespace put_configs put_entity_records put_provisioner_state recover_namespace set_version_record"
)
_MAINTENANCE: Final = "zae_limiter.maintenance.Maintenance(repository)"
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "RateLimiter": {
        "is_available": "check(...), whose answer has `passes`",
        "count_live_buckets": f"{_MAINTENANCE}.count_live_buckets",
        "tell_live_buckets": f"{_MAINTENANCE}.invalidate_live_buckets",
    },
    "Repository": {
        **{name: f"{_MAINTENANCE}.{name}" for name in _FOR_MAINTENANCE.split()},
        "tell_live_buckets": f"{_MAINTENANCE}.invalidate_live_buckets",
    },
}

# An argument, of any function that had it: what to write instead.
ARGUMENTS: Final[Mapping[str, str]] = {"ahead": "prefetch=", "also": "draws="}


def moved(name: str) -> Any:
    """Return what an old name of ``zae_limiter`` stands for, and warn. Raises ``AttributeError`` for any other name."""
    if name in namesake.NAMES:  # for an AttributeError, `from zae_limiter import …` would say another text
        raise ImportError(namesake.told(f"cannot import name {name!r} from 'zae_limiter'", namesake.NAMES[name]))
    if name not in NAMES:
        raise AttributeError(f"module 'zae_limiter' has no attribute {name!r}", name=name)
    module, _, new = NAMES[name].rpartition(".")
    message = f"zae_limiter.{name} is deprecated: use `from {module} import {new}`"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(import_module(module), new)


def refuse_attribute(of: object, name: str) -> NoReturn:
    """Raise ``AttributeError`` for an attribute that an object lacks; it says the new name of an old one, and which
    methods of a limiter its repository has.
    """
    kind = type(of).__name__
    message = f"{kind!r} object has no attribute {name!r}"
    repository = None if name.startswith("_") else getattr(of, "__dict__", {}).get("repository")
    if isinstance(getattr(type(repository), name, None), FunctionType):
        message = f"{kind!r} has no {name!r}: it is on the repository: limiter.repository.{name}"
        raise AttributeError(message, name=name, obj=of)
    for known in type(of).__mro__:
        new = ATTRIBUTES.get(known.__name__.removeprefix("Sync"), {}).get(name)
        if new is not None:
            here = namesake.in_blocking(new) if known.__name__.startswith("Sync") else new
            message = f"{message}: use {here}"
            break
    else:
        message = namesake.told(message, namesake.ATTRIBUTES.get(name))
    raise AttributeError(message, name=name, obj=of)


def refuse_arguments(function: str, given: Iterable[str]) -> None:
    """Raise ``TypeError`` for a keyword argument that a function lacks; it says the new name of an old one."""
    for name in given:
        message = f"{function}() got an unexpected keyword argument {name!r}"
        if name in ARGUMENTS:
            raise TypeError(f"{message}: use {ARGUMENTS[name]}")
        raise TypeError(namesake.told(message, namesake.ARGUMENTS.get(name)))
