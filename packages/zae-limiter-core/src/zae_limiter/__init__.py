"""Rate limiting with token buckets in one DynamoDB table.

This module has the public names, and imports each when it is first used. It imports no AWS library.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from .aio.lease import DrawLease as DrawLease
    from .aio.lease import Lease as Lease
    from .aio.limiter import RateLimiter as RateLimiter
    from .aio.repository import Repository as Repository
    from .aio.repository import RepositoryBuilder as RepositoryBuilder
    from .clock.system import Clock as Clock
    from .engines.engine import Store as Store
    from .engines.engine import SyncStore as SyncStore
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
    from .exceptions import RepositoryClosedError as RepositoryClosedError
    from .exceptions import StackTooOldError as StackTooOldError
    from .exceptions import StaleEntityError as StaleEntityError
    from .exceptions import StaleStateError as StaleStateError
    from .exceptions import StoreRefusedError as StoreRefusedError
    from .exceptions import ValidationError as ValidationError
    from .exceptions import VersionError as VersionError
    from .exceptions import ZAELimiterError as ZAELimiterError
    from .settings import Options as Options
    from .sync.lease import SyncDrawLease as SyncDrawLease
    from .sync.lease import SyncLease as SyncLease
    from .sync.limiter import SyncRateLimiter as SyncRateLimiter
    from .sync.repository import SyncRepository as SyncRepository
    from .sync.repository import SyncRepositoryBuilder as SyncRepositoryBuilder
    from .values.audit import AuditEvent as AuditEvent
    from .values.audit import AuditPage as AuditPage
    from .values.buckets import Bucket as Bucket
    from .values.buckets import BucketLimit as BucketLimit
    from .values.buckets import BucketPage as BucketPage
    from .values.buckets import LimitCapacity as LimitCapacity
    from .values.buckets import LiveBuckets as LiveBuckets
    from .values.buckets import ResourceCapacity as ResourceCapacity
    from .values.buckets import ToldBuckets as ToldBuckets
    from .values.bulk import BulkResult as BulkResult
    from .values.checks import Check as Check
    from .values.draws import Draw as Draw
    from .values.entities import Entity as Entity
    from .values.entities import EntityPage as EntityPage
    from .values.entities import KnownEntity as KnownEntity
    from .values.estimates import Estimate as Estimate
    from .values.explanation import BucketExplanation as BucketExplanation
    from .values.explanation import Explanation as Explanation
    from .values.explanation import LimitExplanation as LimitExplanation
    from .values.limit_status import LimitStatus as LimitStatus
    from .values.limits import Limit as Limit
    from .values.limits import OnUnavailable as OnUnavailable
    from .values.namespaces import Namespace as Namespace
    from .values.on_refused import OnRefused as OnRefused
    from .values.overrides import Override as Override
    from .values.provisioner import HandledEvent as HandledEvent
    from .values.provisioner import ProvisionerLock as ProvisionerLock
    from .values.provisioner import ProvisionerState as ProvisionerState
    from .values.provisioner import StoredConfig as StoredConfig
    from .values.provisioner import StoredEntity as StoredEntity
    from .values.refusal import AccessDisabled as AccessDisabled
    from .values.refusal import RateLimitExceeded as RateLimitExceeded
    from .values.stats import CacheStats as CacheStats
    from .values.stats import StoreStats as StoreStats
    from .values.switches import ResolvedSwitches as ResolvedSwitches
    from .values.switches import SetSwitch as SetSwitch
    from .values.switches import Switches as Switches
    from .values.token_usage import TokenUsage as TokenUsage
    from .values.usage import EntityUsage as EntityUsage
    from .values.usage import LimitUsage as LimitUsage
    from .values.usage import Refuser as Refuser
    from .values.usage import UsagePage as UsagePage
    from .values.usage import UsageSnapshot as UsageSnapshot
    from .values.usage import UsageSummary as UsageSummary
    from .values.versions import VersionRecord as VersionRecord

_NAMES = {
    "aio.lease": "DrawLease Lease",
    "aio.limiter": "RateLimiter",
    "aio.repository": "Repository RepositoryBuilder",
    "clock.system": "Clock",
    "engines.engine": "Store SyncStore",
    "exceptions": (
        "CertificateError ClientTooOldError ContentionError EntityError EntityExistsError EntityHasChildrenError "
        "EntityNotFoundError EventLoopError InfrastructureError InfrastructureNotFoundError InvalidIdentifierError "
        "InvalidNameError LeaseExpiredError NamespaceNotFoundError NamespaceStateError NoUpgradePathError "
        "OlderClientsError RateLimitError RateLimiterUnavailable RepositoryClosedError StackTooOldError "
        "StaleEntityError StaleStateError StoreRefusedError ValidationError VersionError ZAELimiterError"
    ),
    "settings": "Options",
    "sync.lease": "SyncDrawLease SyncLease",
    "sync.limiter": "SyncRateLimiter",
    "sync.repository": "SyncRepository SyncRepositoryBuilder",
    "values.audit": "AuditEvent AuditPage",
    "values.buckets": "Bucket BucketLimit BucketPage LimitCapacity LiveBuckets ResourceCapacity ToldBuckets",
    "values.bulk": "BulkResult",
    "values.checks": "Check",
    "values.draws": "Draw",
    "values.entities": "Entity EntityPage KnownEntity",
    "values.estimates": "Estimate",
    "values.explanation": "BucketExplanation Explanation LimitExplanation",
    "values.limit_status": "LimitStatus",
    "values.limits": "Limit OnUnavailable",
    "values.namespaces": "Namespace",
    "values.on_refused": "OnRefused",
    "values.overrides": "Override",
    "values.provisioner": "HandledEvent ProvisionerLock ProvisionerState StoredConfig StoredEntity",
    "values.refusal": "AccessDisabled RateLimitExceeded",
    "values.stats": "CacheStats StoreStats",
    "values.switches": "ResolvedSwitches SetSwitch Switches",
    "values.token_usage": "TokenUsage",
    "values.usage": "EntityUsage LimitUsage Refuser UsagePage UsageSnapshot UsageSummary",
    "values.versions": "VersionRecord",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of _HOMES, and of the imports above


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module(".values.versions", __name__).core_version()
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        return import_module(".renamed", __name__).moved(name)
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
