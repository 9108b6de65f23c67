"""Write the pages of the Python reference: one directive of mkdocstrings for each public name."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import zae_limiter
from zae_limiter import exceptions

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(ROOT / "packages" / f"zae-limiter-{name}" / "src" for name in ("core", "manifest", "cli"))


class Shown(NamedTuple):
    """A name on a page: with all its members, or with some of them, or some of them alone."""

    path: str
    members: tuple[str, ...] | None = None
    alone: bool = False


class Section(NamedTuple):
    """A page of the reference: its title, what it is for, and its names.

    ``twins`` are the blocking variants: they are said once, and have no directives of their own. ``listed`` is
    a module whose names that no page shows are a table. ``by_module``: the names stand below those of their modules.
    """

    title: str
    about: str
    names: tuple[Shown, ...]
    twins: tuple[str, ...] = ()
    example: tuple[str, str] | None = None
    listed: str | None = None
    by_module: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the names, in order."""
        return tuple(dict.fromkeys(each.path.rpartition(".")[0] for each in self.names))


def _of(module: str, names: str) -> tuple[Shown, ...]:
    return tuple(Shown(f"{module}.{name}") for name in names.split())


def _all_of(*modules: str) -> tuple[Shown, ...]:
    return tuple(Shown(f"{module}.{name}") for module in modules for name in public_names(module))


def _methods(names: str, of: str = "zae_limiter.Repository") -> tuple[Shown, ...]:
    return (Shown(of, tuple(names.split()), alone=True),)


def _exceptions(*, client: bool) -> tuple[Shown, ...]:
    """Return the exceptions of calls, or those of stores and stacks."""
    roots = (exceptions.InfrastructureError, exceptions.VersionError)
    found = [name for name in exceptions.__all__ if issubclass(getattr(exceptions, name), roots) is not client]
    return tuple(Shown(f"zae_limiter{'' if name in zae_limiter.__all__ else '.exceptions'}.{name}") for name in found)


_LIFE: Final = (
    "open sqlite in_memory over builder namespace name namespace_id ping close get_store_stats get_cache_stats "
    "invalidate_config_cache"
)
_INTEGRATIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "web": (
        "ASGI, FastAPI, Flask, Django",
        "Limits of requests in web frameworks.",
        "asgi fastapi flask django addresses",
    ),
    "models": ("Language models", "Limits in clients of language models.", "langchain litellm cut tokens usage prices"),
    "tools": ("MCP", "Limits of tools in servers and clients of MCP.", "mcp fastmcp"),
}


@cache
def sections() -> Mapping[str, Section]:
    """Return the pages by their name."""
    return {
        "limiter": Section(
            "RateLimiter",
            "Acquire tokens, check and explain; and the calls of a repository that applications make most.",
            _of("zae_limiter", "RateLimiter"),
            ("zae_limiter.SyncRateLimiter",),
            (
                'async with limiter.acquire("user-1", "gpt-4", {"rpm": 1}) as lease:\n    await lease.adjust(rpm=1)',
                'with limiter.acquire("user-1", "gpt-4", {"rpm": 1}) as lease:\n    lease.adjust(rpm=1)',
            ),
        ),
        "limit": Section(
            "Limit", "A limit: how many tokens, and how they come back.", _of("zae_limiter", "Limit UNLIMITED")
        ),
        "lease": Section(
            "Lease",
            "What an acquire returns: the tokens that its block holds; and the pieces of a stream.",
            (*_of("zae_limiter", "Lease DrawLease"), *_of("zae_limiter.streams", "Pieces")),
            ("zae_limiter.SyncLease", "zae_limiter.SyncDrawLease", "zae_limiter.streams.SyncPieces"),
        ),
        "run-budget": Section(
            "RunBudget",
            "The budget of a run, and the leases of its calls.",
            _of("zae_limiter", "RunBudget RunLease"),
            ("zae_limiter.SyncRunBudget", "zae_limiter.SyncRunLease"),
        ),
        "call-values": Section(
            "Arguments and answers of calls",
            "What `acquire`, `check` and `estimate` take and return.",
            (*_of("zae_limiter", "Draw OnRefused TokenUsage Estimate LimitStatus Check"),),
        ),
        "explanation": Section(
            "Explanation",
            "What `explain` returns.",
            (
                *_of("zae_limiter", "Explanation"),
                *_of("zae_limiter.values", "BucketExplanation LimitExplanation"),
            ),
        ),
        "repository": Section(
            "Repository",
            "A namespace of a table: open it, share it in a process, close it. The next pages have its other methods.",
            (Shown("zae_limiter.Repository", tuple(_LIFE.split())),),
            ("zae_limiter.SyncRepository",),
            (
                'repository = await Repository.open("default", stack="my-app")',
                'repository = SyncRepository.open("default", stack="my-app")',
            ),
        ),
        "options": Section(
            "Options",
            "What `Repository.open` takes, and the builder that sets it one by one.",
            _of("zae_limiter", "Options OnUnavailable RepositoryBuilder Clock"),
            ("zae_limiter.SyncRepositoryBuilder",),
        ),
        "repository-limits": Section(
            "Repository: limits, tiers and switches",
            "Limits of the system, of resources, tiers and entities; overrides; switches.",
            _methods(
                "set_limits get_limits delete_limits set_resource_defaults get_resource_defaults "
                "delete_resource_defaults set_system_defaults get_system_defaults delete_system_defaults "
                "set_tier_limits get_tier_limits delete_tier_limits list_tiers list_entities_of_tier get_override "
                "delete_override set_many_limits delete_many_limits resolve_limits set_switches set_resource_switches "
                "set_system_switches get_switches resolve_switches list_resources_with_defaults "
                "list_resources_with_entity_configs list_entities_with_custom_limits"
            ),
        ),
        "repository-records": Section(
            "Repository: entities, buckets, usage",
            "Entities and their parents, buckets, usage, the audit trail, namespaces.",
            _methods(
                "create_entity get_entity update_entity delete_entity get_children get_ancestors list_entities "
                "get_bucket get_buckets list_buckets get_resource_capacity reset_bucket credit_bucket "
                "get_usage_snapshots get_usage_summary get_top_usage get_audit_events get_namespace_audit_events "
                "register_namespace get_namespace list_namespaces delete_namespace"
            ),
        ),
        "values": Section(
            "Values of limits and entities",
            "What methods of the repository return.",
            (
                *_of("zae_limiter", "Entity Override Switches"),
                *_of(
                    "zae_limiter.values",
                    "EntityPage KnownEntity ResolvedLimits SystemDefaults ConfigSource ScheduleEntry SetSwitch "
                    "ResolvedSwitches BulkResult Namespace AuditEvent AuditPage Reason LevelLimits",
                ),
            ),
        ),
        "usage-values": Section(
            "Values of buckets and usage",
            "What methods of the repository return.",
            (
                *_of("zae_limiter.values", "Bucket BucketLimit BucketPage ResourceCapacity LimitCapacity UsagePage"),
                *_of("zae_limiter", "UsageSnapshot"),
                *_of("zae_limiter.values", "UsageSummary LimitUsage EntityUsage Refuser StoreStats CacheStats"),
            ),
        ),
        "exceptions": Section("Exceptions", "What calls raise.", _exceptions(client=True)),
        "store-exceptions": Section(
            "Exceptions of stores and stacks",
            "What a store, its namespaces and its versions raise.",
            _exceptions(client=False),
        ),
        "http": Section(
            "Header fields", "Header fields and problem documents of answers.", _all_of("zae_limiter.http")
        ),
        **{
            f"integrations-{name}": Section(
                title, about, _all_of(*(f"zae_limiter.integrations.{each}" for each in modules.split())), by_module=True
            )
            for name, (title, about, modules) in _INTEGRATIONS.items()
        },
        "observers": Section(
            "Observers",
            "What an observer gets, and the observers for OpenTelemetry and CloudWatch.",
            _all_of(
                "zae_limiter.observers",
                "zae_limiter.observers.otel",
                "zae_limiter.observers.use",
                "zae_limiter.observers.emf",
            ),
            by_module=True,
        ),
        "testing": Section(
            "Testing",
            "A clock and pytest fixtures.",
            _all_of(
                "zae_limiter.testing",
                "zae_limiter.testing.plugin",
                "zae_limiter.testing.conformance",
                "zae_limiter_cli.testing",
            ),
            by_module=True,
        ),
        "stores": Section(
            "Stores",
            "For programs that choose a store, or bring one.",
            (
                *_of("zae_limiter", "Store"),
                *_of("zae_limiter.stores", "Capabilities Meter DynamoDBStore SQLiteStore MemoryStore MemoryTable"),
            ),
            (
                "zae_limiter.SyncStore",
                *(f"zae_limiter.stores.Sync{name}Store" for name in ("DynamoDB", "SQLite", "Memory")),
            ),
        ),
        "store-operations": Section(
            "Operations of stores", "What a store performs, answers and raises.", (), listed="zae_limiter.stores"
        ),
        "maintenance": Section(
            "Maintenance",
            "What the Lambdas and the command line do with a repository: applications do not need it.",
            (
                *_of("zae_limiter.maintenance", "Maintenance LiveBuckets InvalidatedBuckets StoredConfig StoredEntity"),
                *_of("zae_limiter.maintenance", "ProvisionerState ProvisionerLock HandledEvent VersionRecord"),
            ),
            ("zae_limiter.maintenance.SyncMaintenance",),
        ),
        "maintenance-names": Section(
            "Maintenance: the other names",
            "Functions and values of the Lambdas and the command line, in a line each.",
            (),
            listed="zae_limiter.maintenance",
        ),
        "manifest-package": Section(
            "The manifest's package",
            "Parse, check and plan limits.",
            _of("zae_limiter_manifest", "load load_all LimitsManifest ManifestError Problem Plan Change FieldChange"),
        ),
        "manifest-names": Section(
            "The manifest's package: the other names",
            "Names of `zae_limiter_manifest`, in a line each.",
            (),
            listed="zae_limiter_manifest",
        ),
    }


def reference_pages() -> dict[str, str]:
    """Return the text of each page of the Python reference, by its path below ``docs``."""
    return {f"reference/{name}.md": _page(name, section) for name, section in sections().items()}


def listed(section: Section) -> list[str]:
    """Return the dotted paths of the names that a page has in its table: those that no page shows."""
    if section.listed is None:
        return []
    shown = {path for each in sections().values() for path in (*(name.path for name in each.names), *each.twins)}
    if section.listed.startswith("zae_limiter."):
        shown |= {f"{section.listed}.{name}" for name in zae_limiter.__all__}
    return [path for name in public_names(section.listed) if (path := f"{section.listed}.{name}") not in shown]


def public_names(module: str) -> list[str]:
    """Return a module's public names, sorted: those of ``__all__``, else what it defines itself.

    A module without ``__all__`` is parsed and not imported: it may need a library that is not here.
    """
    return sorted(set(_exported(module) or _defined(module)))


def file_of(module: str) -> Path:
    """Return the file of a module. Raise ``StopIteration`` if no package has it."""
    bases = [source.joinpath(*module.split(".")) for source in SOURCES]
    files = [file for base in bases for file in (base / "__init__.py", base.with_suffix(".py"))]
    return next(file for file in files if file.exists())


def _exported(module: str) -> list[str]:
    if "__all__" not in file_of(module).read_text(encoding="utf-8"):
        return []
    return list(import_module(module).__all__)


def _defined(module: str) -> Iterator[str]:
    for node in parsed(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from [node.name] * (not node.name.startswith("_"))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for each in targets if isinstance(each, ast.Name) and _is_constant(each.id))


def _is_constant(name: str) -> bool:
    return name[0].isupper() and len(name) > 1  # also an alias of a type; `T` is a variable of one


@cache
def parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def _page(page: str, section: Section) -> str:
    parts = [f"# {section.title}", section.about]
    if section.twins:
        parts += _twins(section)
    if page == "exceptions":
        tree = "\n".join(_tree(zae_limiter.ZAELimiterError))
        parts.append(f"```text\n{tree}\n```")
    module = ""
    for each in section.names:
        if section.by_module and module != (module := each.path.rpartition(".")[0]):
            parts.append(f"## {module}")
        parts += _directives(each)
    if section.listed:
        rows = [f'| <a id="{path}"></a>`{path.rpartition(".")[2]}` | {_said(path)} |' for path in listed(section)]
        parts.append("\n".join(["| name | what it is |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _directives(each: Shown) -> list[str]:
    if each.members is None:
        return [f"::: {each.path}"]
    if each.alone:
        return [f"::: {each.path}.{member}" for member in each.members]
    return [f"::: {each.path}\n    options:\n      members: [{', '.join(each.members)}]"]


def _twins(section: Section) -> list[str]:
    """Return what is said of the blocking variants, once for the page."""
    names = [f'<a id="{path}"></a>`{path.rpartition(".")[2]}`' for path in section.twins]
    said = [f"Without `await`: {', '.join(names)}. The methods, arguments and errors are the same."]
    if section.example:
        blocks = [
            f'=== "{title}"\n\n' + "\n".join(f"    {line}" for line in ("```python", *code.splitlines(), "```"))
            for title, code in zip(("async", "sync"), section.example, strict=True)
        ]
        said += blocks
    return said


def _said(path: str) -> str:
    """Return the first sentence of a name's docstring."""
    module, _, name = path.rpartition(".")
    found = getattr(import_module(module), name)
    text = inspect.getdoc(found) if inspect.isclass(found) or inspect.isroutine(found) else ""
    first = re.split(r"(?<=[^.]\w[.:;])\s", " ".join((text or "").split("\n\n")[0].split()), maxsplit=1)[0]
    return first.replace("``", "`").replace("|", "\\|").rstrip(":;") or "a constant, or an alias of a type"


def _tree(root: type[Exception], indent: str = "") -> Iterator[str]:
    public = public_names("zae_limiter.exceptions")
    yield f"{indent}{root.__name__}"
    for each in sorted(root.__subclasses__(), key=lambda found: found.__name__):
        if each.__name__ in public:
            yield from _tree(each, f"{indent}    ")
