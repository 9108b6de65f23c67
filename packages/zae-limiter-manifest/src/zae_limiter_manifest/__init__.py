"""The YAML manifest of zae-limiter: models, strict loading, plans, and their rendering.

It does no I/O, and imports no AWS library and no part of the limiter.
"""

from .addresses import Address, Level, ManagedSet
from .bounds import Bounds
from .changes import Action, Change, FieldChange, fingerprint
from .cloudformation import StackProperties, render_template
from .declarations import Decl, EntityDecl, OnUnavailable, RecordDecl, ResourceDecl, SystemDecl
from .diff import LiveItem, compute_diff, managed_after, settle_intended
from .dumping import dump, dump_grouped
from .formats import FormatError
from .history import ApplyEntry, compress, decompress
from .json_schema import json_schema
from .limit_declarations import LIMIT_FIELDS, LimitDecl
from .manifest import LimitsManifest, load, load_all
from .naming import RESERVED_LIMIT_NAMES
from .on_refused import OnRefusedDecl
from .ordering import order
from .overrides import LiveOverride
from .owners import CLI, OwnerError, stack_owner, taken_from
from .packing import next_page, pack, page, unpack
from .plan import Plan, plans_hash
from .problems import ManifestError, Problem
from .protocol import Answer, Failure, Status, bounds_failures, manifest_failures
from .requests import Request, UnknownActionError, ignored_in
from .shares import ShareError, settled_share
from .source import MAX_BYTES
from .states import ApplyUnderWay, LockReport, ProgressReport, StateReport
from .weights import WeightsDecl

__all__ = [
    "CLI",
    "LIMIT_FIELDS",
    "MAX_BYTES",
    "RESERVED_LIMIT_NAMES",
    "Action",
    "Address",
    "Answer",
    "ApplyEntry",
    "ApplyUnderWay",
    "Bounds",
    "Change",
    "Decl",
    "EntityDecl",
    "Failure",
    "FieldChange",
    "FormatError",
    "Level",
    "LimitDecl",
    "LimitsManifest",
    "LiveItem",
    "LiveOverride",
    "LockReport",
    "ManagedSet",
    "ManifestError",
    "OnRefusedDecl",
    "OnUnavailable",
    "OwnerError",
    "Plan",
    "Problem",
    "ProgressReport",
    "RecordDecl",
    "Request",
    "ResourceDecl",
    "ShareError",
    "StackProperties",
    "StateReport",
    "Status",
    "SystemDecl",
    "UnknownActionError",
    "WeightsDecl",
    "bounds_failures",
    "compress",
    "compute_diff",
    "decompress",
    "dump",
    "dump_grouped",
    "fingerprint",
    "ignored_in",
    "json_schema",
    "load",
    "load_all",
    "managed_after",
    "manifest_failures",
    "next_page",
    "order",
    "pack",
    "page",
    "plans_hash",
    "render_template",
    "settle_intended",
    "settled_share",
    "stack_owner",
    "taken_from",
    "unpack",
]
