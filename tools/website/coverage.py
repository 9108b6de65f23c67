"""Say what the reference lacks: each public name, method and field has to have an anchor on its page.

What is expected comes from the imported objects, and not from mkdocstrings, which leaves out what it cannot show.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from .reference import Section, listed, parsed, sections

FOR_SIBLINGS: Final = frozenset({"driver", "namespace_state"})  # attributes that mkdocs.yml leaves out
_ID: Final = re.compile(r'\bid="([^"]+)"')


def missing(site: Path) -> list[str]:
    """Return a line for each name that the built site's reference lacks."""
    pages = {page: (site / "reference" / page / "index.html").read_text(encoding="utf-8") for page in sections()}
    return lacking(pages)


def lacking(pages: Mapping[str, str]) -> list[str]:
    """Return a line for each expected name without an anchor in the HTML of its page."""
    return [
        f"reference/{page} lacks {path}"
        for page, paths in expected().items()
        for path in sorted(paths - {*_ID.findall(pages[page])})
    ]


def expected() -> dict[str, set[str]]:
    """Return the dotted paths that each page of the reference has to have."""
    return {page: {*_paths(section)} for page, section in sections().items()}


def _paths(section: Section) -> Iterator[str]:
    yield from section.twins
    yield from listed(section)
    for path, some, alone in section.names:
        yield from [path] * (not alone)
        module, _, name = path.rpartition(".")
        yield from (f"{path}.{member}" for member in some or members(module, name))


def members(module: str, name: str) -> set[str]:
    """Return the public methods, properties and fields of a class, also inherited ones of our own classes."""
    try:
        found = getattr(import_module(module), name)
    except ImportError:  # it needs a library that is not here
        return _own(module, name)
    ours = [each for each in inspect.getmro(found) if _is_ours(each)] if inspect.isclass(found) else []
    return {member for each in ours for member in _own(each.__module__, each.__name__)} - FOR_SIBLINGS


def _is_ours(found: type) -> bool:
    return found.__module__.partition(".")[0] in {"zae_limiter", "zae_limiter_manifest"}


def _own(module: str, name: str) -> set[str]:
    classes = [node for node in parsed(module).body if isinstance(node, ast.ClassDef) and node.name == name]
    found = {member for each in classes for node in each.body for member in _names(node)}
    return {member for member in found if not member.startswith("_")}


def _names(node: ast.AST) -> Iterator[str]:
    """Yield what a statement of a class defines: of ``__init__`` also what it sets on ``self``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
        if node.name == "__init__":
            yield from (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_set(each))
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for each in targets if isinstance(each, ast.Name))


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"
