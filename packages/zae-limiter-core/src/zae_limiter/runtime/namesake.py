"""What the other project ``zae-limiter`` calls otherwise: a warning where both are installed, and what its names are
here, for the errors of code that was written for it.

Its names are those of its public documentation. docs/guides/from-zae-limiter.md has the whole comparison.
"""

import re
import warnings
from collections.abc import Mapping
from typing import Final

PAGE: Final = "https://github.com/zae-limiter/zae-limiter/blob/main/docs/guides/from-zae-limiter.md"

_DEPLOY: Final = "no code deploys: run `zae-limiter deploy`, or pass create_table=True to Repository.open"
_OPEN: Final = "pass what `await Repository.open(stack=…, region=…)` returns, or in tests `Repository.in_memory()`"
_BY_POLICY: Final = "on_unavailable='block', 'allow' or 'share', of Repository.open or of acquire"

# A name that code imports: what stands for it here.
NAMES: Final[Mapping[str, str]] = {
    "BucketState": "limiter.available() or limiter.explain() says what a bucket has",
    "ConfigSource": "repository.resolve_limits() and limiter.explain() say the level as a text",
    "FailureMode": f"OnUnavailable is its enum: {_BY_POLICY}",
    "IncompatibleSchemaError": "catch VersionError, of zae_limiter.exceptions",
    "RepositoryProtocol": "Store and SyncStore are the protocols of a backend",
    "StackAlreadyExistsError": _DEPLOY,
    "StackCreationError": _DEPLOY,
    "StackOptions": _DEPLOY,
    "VersionMismatchError": "catch VersionError, of zae_limiter.exceptions",
}

# A method or an attribute, of whatever has it there.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "create_stack": _DEPLOY,
    "delete_stack": "run `zae-limiter delete`",
    "refill_period_seconds": "Limit.refill_period",
    "refill_rate": "Limit.refill_amount / Limit.refill_period",
}

# A keyword argument, of whatever takes it there.
ARGUMENTS: Final[Mapping[str, str]] = {
    "auto_update": "run `zae-limiter upgrade`",
    "create_stack": _DEPLOY,
    "endpoint_url": _OPEN,
    "failure_mode": _BY_POLICY,
    "name": _OPEN,
    "needed": "consume",  # of time_until_available
    "on_unavailable": _BY_POLICY,  # of the limiter itself
    "rate": "capacity; the ceiling of a bucket is its burst",
    "refill_period_seconds": "refill_period",
    "region": _OPEN,
    "skip_version_check": "check_version=False, of Repository.open",
    "stack_options": _DEPLOY,
    "strict_version": "check_version, of Repository.open",
    "table_name": _OPEN,
    "use_stored_limits": (
        "if it is True, leave out both it and `limits`, and pass the limits as `RateLimiter(repository, "
        "default_limits=…)`; if False, leave out only it: `limits` replaces all stored limits, of ancestors too"
    ),
}


def warn() -> None:
    """Warn on import that the other project is installed in the same folder."""
    warnings.warn(
        "the distribution zae-limiter is another project, installed over the same files as zae-limiter-core: "
        "which of the two runs is chance. `pip uninstall zae-limiter zae-limiter-core`, then install one",
        RuntimeWarning,
        stacklevel=3,
    )


def in_blocking(advice: str) -> str:
    """Return an advice in the words of the blocking variant."""
    return re.sub(r"\b(RateLimiter|Repository|Maintenance)\b", r"Sync\1", advice.replace("await ", ""))


def told(problem: str, here: str | None) -> str:
    """Return the message of an error for a name of the other project, with what stands for it here; for any other name,
    ``None``, the problem alone.
    """
    if here is None:
        return problem
    if problem.lstrip("'").startswith("Sync"):
        here = in_blocking(here)
    return f"{problem}: the other zae-limiter has it; here: {here}. {PAGE}"
