"""Write the pages of the Python reference: one directive of mkdocstrings for each public name."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import griffe

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(ROOT / "packages" / f"zae-limiter-{name}" / "src" for name in ("core", "manifest", "cli"))


class Section(NamedTuple):
    """A page of the reference: its title, what it is for, its modules."""

    title: str
    about: str
    modules: tuple[str, ...]


_INTEGRATIONS: Final = ("asgi", "fastapi", "flask", "django", "langchain", "litellm", "tokens")
SECTIONS: Final[Mapping[str, Section]] = {
    "library": Section("The library", "Every name that `import zae_limiter` has.", ("zae_limiter",)),
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
        ("zae_limiter.testing", "zae_limiter.testing.plugin", "zae_limiter_cli.testing"),
    ),
    "stores": Section("Stores", "For programs that choose a store, or bring one.", ("zae_limiter.stores",)),
    "maintenance": Section(
        "Maintenance", "The door of the Lambdas and the command line.", ("zae_limiter.maintenance",)
    ),
    "manifest-package": Section("The manifest's package", "Parse, check and plan limits.", ("zae_limiter_manifest",)),
}


def reference_pages() -> dict[str, str]:
    """Return the text of each page of the Python reference, by its path below ``docs``."""
    return {f"reference/{name}.md": _page(section) for name, section in SECTIONS.items()}


def public_names(module: str) -> list[str]:
    """Return the dotted paths of a module's public names: those of ``__all__``, else what it defines itself.

    A module without ``__all__`` is read and not imported: it may need a library that is not here.
    """
    if _load(module).exports is not None or module == "zae_limiter":
        names = import_module(module).__all__
    else:
        names = [name for name, member in _load(module).members.items() if _is_public(member)]
    return [f"{module}.{name}" for name in sorted(names)]


def _is_public(member: griffe.Object | griffe.Alias) -> bool:
    if member.is_alias or member.name.startswith("_"):
        return False
    return member.is_class or member.is_function or (member.name.isupper() and len(member.name) > 1)


def _page(section: Section) -> str:
    parts = [f"# {section.title}", section.about]
    for module in section.modules:
        if len(section.modules) > 1:
            parts.append(f"## {module}")
        parts += [f"::: {path}" for path in public_names(module)]
    return "\n\n".join(parts) + "\n"


@cache
def _load(module: str) -> griffe.Module:
    found = griffe.load(module, search_paths=SOURCES, resolve_aliases=False)
    if not isinstance(found, griffe.Module):
        raise TypeError(f"{module} is no module")
    return found
