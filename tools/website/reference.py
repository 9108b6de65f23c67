"""Write the pages of the Python reference: one directive of mkdocstrings for each public name."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import zae_limiter

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(ROOT / "packages" / f"zae-limiter-{name}" / "src" for name in ("core", "manifest", "cli"))


class Section(NamedTuple):
    """A page of the reference: its title, what it is for, its modules."""

    title: str
    about: str
    modules: tuple[str, ...]


_WEB: Final = ("asgi", "fastapi", "flask", "django", "addresses")
_INTEGRATIONS: Final = (*_WEB, "langchain", "litellm", "tokens", "usage", "prices")
SECTIONS: Final[Mapping[str, Section]] = {
    "limiter": Section("The limiter", "Limits, the limiter and its leases.", ("zae_limiter",)),
    "repository": Section("The repository", "Where limits and buckets are kept.", ("zae_limiter",)),
    "values": Section("Values", "What the methods return.", ("zae_limiter.values",)),
    "exceptions": Section("Exceptions", "Every exception of the library, as one tree.", ("zae_limiter.exceptions",)),
    "http": Section("Header fields", "Header fields and problem documents of answers.", ("zae_limiter.http",)),
    "integrations": Section(
        "Integrations",
        "Limits in web frameworks and in clients of language models.",
        tuple(f"zae_limiter.integrations.{name}" for name in _INTEGRATIONS),
    ),
    "observers": Section(
        "Observers",
        "What an observer gets, and the observers for OpenTelemetry and CloudWatch.",
        ("zae_limiter.observers", "zae_limiter.observers.otel", "zae_limiter.observers.emf"),
    ),
    "testing": Section(
        "Testing",
        "A clock and pytest fixtures.",
        (
            "zae_limiter.testing",
            "zae_limiter.testing.plugin",
            "zae_limiter.testing.conformance",
            "zae_limiter_cli.testing",
        ),
    ),
    "stores": Section("Stores", "For programs that choose a store, or bring one.", ("zae_limiter.stores",)),
    "maintenance": Section(
        "Maintenance", "The door of the Lambdas and the command line.", ("zae_limiter.maintenance",)
    ),
    "manifest-package": Section("The manifest's package", "Parse, check and plan limits.", ("zae_limiter_manifest",)),
}
# Of `import zae_limiter`, in this order; the others are values or exceptions
_FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "limiter": (
        "Limit",
        "RateLimiter",
        "Lease",
        "DrawLease",
        "LimitStatus",
        "OnUnavailable",
        "SyncRateLimiter",
        "SyncLease",
        "SyncDrawLease",
    ),
    "repository": (
        "Repository",
        "RepositoryBuilder",
        "Options",
        "SyncRepository",
        "SyncRepositoryBuilder",
        "Clock",
        "Store",
        "SyncStore",
    ),
}
_TAKEN: Final = {name for names in _FIRST.values() for name in names}
_TOP: Final = {*zae_limiter.__all__}
_INSIDE: Final = {"zae_limiter.exceptions", "zae_limiter.values"}  # a name of theirs may be one of the package, too


def reference_pages() -> dict[str, str]:
    """Return the text of each page of the Python reference, by its path below ``docs``."""
    return {f"reference/{name}.md": _page(name, section) for name, section in SECTIONS.items()}


def names_of(page: str, module: str) -> list[str]:
    """Return the dotted paths of the names of a module that a page has, in its order."""
    names = _FIRST.get(page) or [name for name in public_names(module) if name not in _TAKEN or module not in _INSIDE]
    return [f"{'zae_limiter' if name in _TOP and module in _INSIDE else module}.{name}" for name in names]


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
    if page == "exceptions":
        tree = "\n".join(_tree(zae_limiter.ZAELimiterError))
        parts.append(f"```text\n{tree}\n```")
    for module in section.modules:
        if len(section.modules) > 1:
            parts.append(f"## {module}")
        parts += [f"::: {path}" for path in names_of(page, module)]
    return "\n\n".join(parts) + "\n"


def _tree(root: type[Exception], indent: str = "") -> Iterator[str]:
    public = public_names("zae_limiter.exceptions")
    yield f"{indent}{root.__name__}"
    for each in sorted(root.__subclasses__(), key=lambda found: found.__name__):
        if each.__name__ in public:
            yield from _tree(each, f"{indent}    ")
