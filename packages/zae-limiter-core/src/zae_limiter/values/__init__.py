"""The public values, checked where they are made: what methods return, and what some of them take.

A process imports each when it is first used, and so the modules of those that few limits have, such as schedules.
"""

from typing import TYPE_CHECKING

from ..runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import alerts as alerts
    from . import limit_text as limit_text
    from . import money as money
    from . import money_amounts as money_amounts
    from . import overrides as overrides
    from . import provisioner as provisioner
    from . import schedules as schedules
    from . import slots as slots
    from . import stats as stats
    from . import timetables as timetables
    from .audit import AuditEvent as AuditEvent
    from .audit import AuditPage as AuditPage
    from .buckets import Bucket as Bucket
    from .buckets import BucketLimit as BucketLimit
    from .buckets import BucketPage as BucketPage
    from .buckets import LimitCapacity as LimitCapacity
    from .buckets import ResourceCapacity as ResourceCapacity
    from .bulk import BulkResult as BulkResult
    from .checks import Check as Check
    from .draws import Draw as Draw
    from .entities import Entity as Entity
    from .entities import EntityPage as EntityPage
    from .entities import KnownEntity as KnownEntity
    from .estimates import Estimate as Estimate
    from .explanation import BucketExplanation as BucketExplanation
    from .explanation import Explanation as Explanation
    from .explanation import LimitExplanation as LimitExplanation
    from .limit_status import LimitStatus as LimitStatus
    from .limit_status import Reason as Reason
    from .limits import ConfigSource as ConfigSource
    from .limits import Limit as Limit
    from .limits import OnUnavailable as OnUnavailable
    from .namespaces import Namespace as Namespace
    from .on_refused import OnRefused as OnRefused
    from .overrides import Override as Override
    from .resolution import UNLIMITED as UNLIMITED
    from .resolution import LevelLimits as LevelLimits
    from .resolution import ResolvedLimits as ResolvedLimits
    from .resolution import SystemDefaults as SystemDefaults
    from .schedules import ScheduleEntry as ScheduleEntry
    from .stats import CacheStats as CacheStats
    from .stats import StoreStats as StoreStats
    from .switches import ResolvedSwitches as ResolvedSwitches
    from .switches import SetSwitch as SetSwitch
    from .switches import Switches as Switches
    from .token_usage import TokenUsage as TokenUsage
    from .usage import EntityUsage as EntityUsage
    from .usage import LimitUsage as LimitUsage
    from .usage import Refuser as Refuser
    from .usage import UsagePage as UsagePage
    from .usage import UsageSnapshot as UsageSnapshot
    from .usage import UsageSummary as UsageSummary

_NAMES = {
    "audit": "AuditEvent AuditPage",
    "buckets": "Bucket BucketLimit BucketPage LimitCapacity ResourceCapacity",
    "bulk": "BulkResult",
    "checks": "Check",
    "draws": "Draw",
    "entities": "Entity EntityPage KnownEntity",
    "estimates": "Estimate",
    "explanation": "BucketExplanation Explanation LimitExplanation",
    "limit_status": "LimitStatus Reason",
    "limits": "ConfigSource Limit OnUnavailable",
    "namespaces": "Namespace",
    "on_refused": "OnRefused",
    "overrides": "Override",
    "resolution": "LevelLimits ResolvedLimits SystemDefaults UNLIMITED",
    "schedules": "ScheduleEntry",
    "stats": "CacheStats StoreStats",
    "switches": "ResolvedSwitches SetSwitch Switches",
    "token_usage": "TokenUsage",
    "usage": "EntityUsage LimitUsage Refuser UsagePage UsageSnapshot UsageSummary",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of _HOMES, and of the imports above

if not TYPE_CHECKING:
    __getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
