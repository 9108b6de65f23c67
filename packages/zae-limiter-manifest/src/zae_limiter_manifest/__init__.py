"""The YAML manifest of zae-limiter: models and strict loading.
No I/O, no AWS library, nothing of the limiter itself."""

from .declarations import EntityDecl, LimitDecl, OnUnavailable, ResourceDecl, SystemDecl
from .manifest import LimitsManifest, ManagedSet, dump, load
from .naming import RESERVED_LIMIT_NAMES
from .problems import ManifestError, Problem

__all__ = [
    "RESERVED_LIMIT_NAMES",
    "EntityDecl",
    "LimitDecl",
    "LimitsManifest",
    "ManagedSet",
    "ManifestError",
    "OnUnavailable",
    "Problem",
    "ResourceDecl",
    "SystemDecl",
    "dump",
    "load",
]
