"""Print how large the packages are and how their modules hang together, in a table with a column for each commit.

structure.py [--package NAME] COMMIT …     structure.py --package core dc57f7ae HEAD

It reads what git has, as text; nothing is imported.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from statistics import median
from subprocess import run
from typing import Final

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Structure:
    """What a tree has: the lines of its files, functions and classes, and its imports from file to file."""

    files: Mapping[str, int]
    functions: Sequence[int]
    classes: Sequence[int]
    imports: frozenset[tuple[str, str]]

    @property
    def arrows(self) -> int:
        """The imports that leave a folder."""
        return sum(PurePosixPath(a).parent != PurePosixPath(b).parent for a, b in self.imports)

    @property
    def circles(self) -> int:
        """The files that import themselves by a way over others."""
        return sum(_reaches(name, name, self._targets) for name in self._targets)

    @property
    def chain(self) -> int:
        """The most files of which each imports the next one; an import that closes a circle is passed over."""
        lengths: dict[str, int] = {}
        return max((_measure(name, self._targets, lengths, ()) for name in self._targets), default=0)

    @cached_property
    def _targets(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for importer, imported in sorted(self.imports):
            found.setdefault(importer, []).append(imported)
        return found


def _reaches(start: str, goal: str, targets: Mapping[str, Sequence[str]]) -> bool:
    seen: set[str] = set()
    next_ones = [*targets.get(start, ())]
    while next_ones:
        name = next_ones.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            next_ones.extend(targets.get(name, ()))
    return False


def _measure(name: str, targets: Mapping[str, Sequence[str]], lengths: dict[str, int], above: tuple[str, ...]) -> int:
    if name not in lengths:
        below = (each for each in targets.get(name, ()) if each not in above and each != name)
        lengths[name] = 1 + max((_measure(each, targets, lengths, (*above, name)) for each in below), default=0)
    return lengths[name]


def structure_of(sources: Mapping[str, str]) -> Structure:
    """Return the structure of Python files by their paths, in which packages are below ``src/``."""
    modules = {_module(path): path for path in sources}
    functions: list[int] = []
    classes: list[int] = []
    imports: set[tuple[str, str]] = set()
    for path, source in sources.items():
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, Definition):
                lines = classes if isinstance(node, ast.ClassDef) else functions
                lines.append((node.end_lineno or node.lineno) - node.lineno + 1)
        imports |= {(path, modules[name]) for name in _imported(path, tree, modules)} - {(path, path)}
    files = {path: source.count("\n") for path, source in sources.items()}
    return Structure(files, functions, classes, frozenset(imports))


def _module(path: str) -> str:
    parts = PurePosixPath(path.partition("src/")[2]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: str, tree: ast.AST, modules: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that a file imports, in functions and for types as well."""
    here = PurePosixPath(path.partition("src/")[2]).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            base = ".".join([*above, node.module] if node.module else above)
            names = {f"{base}.{each.name}" for each in node.names}
            yield from (names & modules.keys()) or ({base} & modules.keys())


MEASURES: Final[Mapping[str, Callable[[Structure], float]]] = {
    "files": lambda found: len(found.files),
    "lines": lambda found: sum(found.files.values()),
    "lines of a file, median": lambda found: median(found.files.values()),
    "lines of a file, most": lambda found: max(found.files.values()),
    "lines of a function, median": lambda found: median(found.functions),
    "lines of a function, most": lambda found: max(found.functions),
    "lines of a class, most": lambda found: max(found.classes),
    "files in the longest chain of imports": lambda found: found.chain,
    "files in circles of imports": lambda found: found.circles,
    "imports from folder to folder": lambda found: found.arrows,
    "the same, for 1,000 lines": lambda found: 1000 * found.arrows / sum(found.files.values()),
}


def table(columns: Mapping[str, Structure]) -> str:
    """Return a table in Markdown, with a column for each structure."""
    rows = [
        f"| {name} | {' | '.join(f'{measure(each):,.0f}' for each in columns.values())} |"
        for name, measure in MEASURES.items()
    ]
    return "\n".join([f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *rows])


def sources_at(commit: str, package: str) -> dict[str, str]:
    """Return the Python files of the packages, or of one, by their paths. Raises ``CalledProcessError``."""
    below = f"packages/{package}".rstrip("/") + "/"
    paths = _git("ls-tree", "-r", "--name-only", commit, "--", below).splitlines()
    return {path: _git("show", f"{commit}:{path}") for path in paths if "/src/" in path and path.endswith(".py")}


def _git(*args: str) -> str:
    return run(["git", *args], capture_output=True, check=True, text=True).stdout


def main(args: Sequence[str]) -> None:
    """Print the table of some commits."""
    named = args[:1] == ["--package"]
    package = f"zae-limiter-{args[1]}" if named else ""
    print(table({commit: structure_of(sources_at(commit, package)) for commit in args[2 if named else 0 :]}))


if __name__ == "__main__":
    main(sys.argv[1:])
