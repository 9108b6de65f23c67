"""Rate limiting with token buckets in one DynamoDB table.

This module has the public names, and imports each when it is first used. It imports no AWS library.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from .aio.lease import Lease as Lease
    from .aio.limiter import RateLimiter as RateLimiter
    from .aio.repository import Repository as Repository
    from .aio.repository import RepositoryBuilder as RepositoryBuilder
    from .aio.store import Store as Store
    from .audit import AuditEvent as AuditEvent
    from .audit import AuditPage as AuditPage
    from .buckets import Bucket as Bucket
    from .buckets import BucketLimit as BucketLimit
    from .buckets import LimitCapacity as LimitCapacity
    from .buckets import ResourceCapacity as ResourceCapacity
    from .clock.system import Clock as Clock
    from .entities import Entity as Entity
    from .exceptions import CertificateError as CertificateError
    from .exceptions import ClientTooOldError as ClientTooOldError
    from .exceptions import ContentionError as ContentionError
    from .exceptions import EntityError as EntityError
    from .exceptions import EntityExistsError as EntityExistsError
    from .exceptions import EntityHasChildrenError as EntityHasChildrenError
    from .exceptions import EntityNotFoundError as EntityNotFoundError
    from .exceptions import EventLoopError as EventLoopError
    from .exceptions import InfrastructureError as InfrastructureError
    from .exceptions import InfrastructureNotFoundError as InfrastructureNotFoundError
    from .exceptions import InvalidIdentifierError as InvalidIdentifierError
    from .exceptions import InvalidNameError as InvalidNameError
    from .exceptions import LeaseExpiredError as LeaseExpiredError
    from .exceptions import NamespaceNotFoundError as NamespaceNotFoundError
    from .exceptions import NamespaceStateError as NamespaceStateError
    from .exceptions import NoUpgradePathError as NoUpgradePathError
    from .exceptions import OlderClientsError as OlderClientsError
    from .exceptions import RateLimitError as RateLimitError
    from .exceptions import RateLimiterUnavailable as RateLimiterUnavailable
    from .exceptions import RateLimitExceeded as RateLimitExceeded
    from .exceptions import RepositoryClosedError as RepositoryClosedError
    from .exceptions import StackTooOldError as StackTooOldError
    from .exceptions import StaleEntityError as StaleEntityError
    from .exceptions import StaleStateError as StaleStateError
    from .exceptions import StoreRefusedError as StoreRefusedError
    from .exceptions import ValidationError as ValidationError
    from .exceptions import VersionError as VersionError
    from .exceptions import ZAELimiterError as ZAELimiterError
    from .limits import BulkResult as BulkResult
    from .limits import Limit as Limit
    from .limits import LimitStatus as LimitStatus
    from .limits import OnUnavailable as OnUnavailable
    from .namespaces import Namespace as Namespace
    from .overrides import Override as Override
    from .provisioner import HandledEvent as HandledEvent
    from .provisioner import ProvisionerLock as ProvisionerLock
    from .provisioner import ProvisionerState as ProvisionerState
    from .provisioner import StoredConfig as StoredConfig
    from .settings import Options as Options
    from .stats import CacheStats as CacheStats
    from .stats import StoreStats as StoreStats
    from .sync.lease import SyncLease as SyncLease
    from .sync.limiter import SyncRateLimiter as SyncRateLimiter
    from .sync.repository import SyncRepository as SyncRepository
    from .sync.repository import SyncRepositoryBuilder as SyncRepositoryBuilder
    from .sync.store import SyncStore as SyncStore
    from .usage import EntityUsage as EntityUsage
    from .usage import LimitUsage as LimitUsage
    from .usage import UsagePage as UsagePage
    from .usage import UsageSnapshot as UsageSnapshot
    from .usage import UsageSummary as UsageSummary
    from .versions import VersionRecord as VersionRecord

_HOMES = {
    "AuditEvent": "audit",
    "AuditPage": "audit",
    "Bucket": "buckets",
    "BucketLimit": "buckets",
    "BulkResult": "limits",
    "CacheStats": "stats",
    "CertificateError": "exceptions",
    "ClientTooOldError": "exceptions",
    "Clock": "clock.system",
    "ContentionError": "exceptions",
    "Entity": "entities",
    "EntityError": "exceptions",
    "EntityExistsError": "exceptions",
    "EntityHasChildrenError": "exceptions",
    "EntityNotFoundError": "exceptions",
    "EntityUsage": "usage",
    "EventLoopError": "exceptions",
    "HandledEvent": "provisioner",
    "InfrastructureError": "exceptions",
    "InfrastructureNotFoundError": "exceptions",
    "InvalidIdentifierError": "exceptions",
    "InvalidNameError": "exceptions",
    "Lease": "aio.lease",
    "LeaseExpiredError": "exceptions",
    "Limit": "limits",
    "LimitCapacity": "buckets",
    "LimitStatus": "limits",
    "LimitUsage": "usage",
    "Namespace": "namespaces",
    "NamespaceNotFoundError": "exceptions",
    "NamespaceStateError": "exceptions",
    "NoUpgradePathError": "exceptions",
    "OlderClientsError": "exceptions",
    "OnUnavailable": "limits",
    "Options": "settings",
    "Override": "overrides",
    "ProvisionerLock": "provisioner",
    "ProvisionerState": "provisioner",
    "RateLimitError": "exceptions",
    "RateLimitExceeded": "exceptions",
    "RateLimiter": "aio.limiter",
    "RateLimiterUnavailable": "exceptions",
    "Repository": "aio.repository",
    "RepositoryBuilder": "aio.repository",
    "RepositoryClosedError": "exceptions",
    "ResourceCapacity": "buckets",
    "StackTooOldError": "exceptions",
    "StaleEntityError": "exceptions",
    "StaleStateError": "exceptions",
    "Store": "aio.store",
    "StoreRefusedError": "exceptions",
    "StoreStats": "stats",
    "StoredConfig": "provisioner",
    "SyncLease": "sync.lease",
    "SyncRateLimiter": "sync.limiter",
    "SyncRepository": "sync.repository",
    "SyncRepositoryBuilder": "sync.repository",
    "SyncStore": "sync.store",
    "UsagePage": "usage",
    "UsageSnapshot": "usage",
    "UsageSummary": "usage",
    "ValidationError": "exceptions",
    "VersionError": "exceptions",
    "VersionRecord": "versions",
    "ZAELimiterError": "exceptions",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of _HOMES, and of the imports above


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module(".versions", __name__).core_version()
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})


def _has_namesake() -> bool:
    """Return whether another project's ``zae-limiter`` is installed in the same folder.

    Reading the folder's names takes a fiftieth of what ``importlib.metadata`` needs to be imported.
    """
    try:
        beside = os.listdir(os.path.dirname(__path__[0]))  # noqa: PTH120, PTH208 - pathlib takes long to import
    except OSError:  # as in a zip
        return False
    return any(name.startswith("zae_limiter-") and name.endswith(".dist-info") for name in beside)


if _has_namesake():
    import_module(".runtime.namesake", __name__).warn()
