"""Rate limiting with token buckets in one DynamoDB table.

This module has the names for daily use, and imports each when it is first used. It imports no AWS library. The other
public names are in ``exceptions`` (all of them), in ``values`` (what methods return), in ``maintenance`` (for the
Lambdas and the command line), in ``stores``, ``http``, ``integrations``, ``observers``, ``schema`` and ``testing``.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from .aio.budgets import RunBudget as RunBudget
    from .aio.budgets import RunLease as RunLease
    from .aio.lease import DrawLease as DrawLease
    from .aio.lease import Lease as Lease
    from .aio.limiter import RateLimiter as RateLimiter
    from .aio.repository import Repository as Repository
    from .aio.repository import RepositoryBuilder as RepositoryBuilder
    from .clock.system import Clock as Clock
    from .engines.engine import Store as Store
    from .engines.engine import SyncStore as SyncStore
    from .exceptions import EntityNotFoundError as EntityNotFoundError
    from .exceptions import RateLimitError as RateLimitError
    from .exceptions import RateLimiterUnavailable as RateLimiterUnavailable
    from .exceptions import ValidationError as ValidationError
    from .exceptions import ZAELimiterError as ZAELimiterError
    from .settings import Options as Options
    from .sync.budgets import SyncRunBudget as SyncRunBudget
    from .sync.budgets import SyncRunLease as SyncRunLease
    from .sync.lease import SyncDrawLease as SyncDrawLease
    from .sync.lease import SyncLease as SyncLease
    from .sync.limiter import SyncRateLimiter as SyncRateLimiter
    from .sync.repository import SyncRepository as SyncRepository
    from .sync.repository import SyncRepositoryBuilder as SyncRepositoryBuilder
    from .values.checks import Check as Check
    from .values.draws import Draw as Draw
    from .values.entities import Entity as Entity
    from .values.estimates import Estimate as Estimate
    from .values.explanation import Explanation as Explanation
    from .values.limit_status import LimitStatus as LimitStatus
    from .values.limits import Limit as Limit
    from .values.limits import OnUnavailable as OnUnavailable
    from .values.on_refused import OnRefused as OnRefused
    from .values.overrides import Override as Override
    from .values.refusal import AccessDisabled as AccessDisabled
    from .values.refusal import RateLimitExceeded as RateLimitExceeded
    from .values.resolution import UNLIMITED as UNLIMITED
    from .values.switches import Switches as Switches
    from .values.token_usage import TokenUsage as TokenUsage
    from .values.usage import UsageSnapshot as UsageSnapshot

_NAMES = {
    "aio.budgets": "RunBudget RunLease",
    "aio.lease": "DrawLease Lease",
    "aio.limiter": "RateLimiter",
    "aio.repository": "Repository RepositoryBuilder",
    "clock.system": "Clock",
    "engines.engine": "Store SyncStore",
    "exceptions": "EntityNotFoundError RateLimitError RateLimiterUnavailable ValidationError ZAELimiterError",
    "settings": "Options",
    "sync.budgets": "SyncRunBudget SyncRunLease",
    "sync.lease": "SyncDrawLease SyncLease",
    "sync.limiter": "SyncRateLimiter",
    "sync.repository": "SyncRepository SyncRepositoryBuilder",
    "values.checks": "Check",
    "values.draws": "Draw",
    "values.entities": "Entity",
    "values.estimates": "Estimate",
    "values.explanation": "Explanation",
    "values.resolution": "UNLIMITED",
    "values.limit_status": "LimitStatus",
    "values.limits": "Limit OnUnavailable",
    "values.on_refused": "OnRefused",
    "values.overrides": "Override",
    "values.refusal": "AccessDisabled RateLimitExceeded",
    "values.switches": "Switches",
    "values.token_usage": "TokenUsage",
    "values.usage": "UsageSnapshot",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of _HOMES, and of the imports above


if not TYPE_CHECKING:  # to which a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            value = import_module(".values.versions", __name__).core_version()
        elif name in _HOMES:
            value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        elif name[:1].isupper():
            return import_module(".renamed", __name__).moved(name)
        else:  # such as a module, for which `from .. import values` looks here first
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
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
