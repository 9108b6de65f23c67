"""What lives here: no program that a package starts in Python imports a module of the current folder.
What never does: what such a program does.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from check_siblings import ROOT

SAFE = ("-P", "-I")  # without them, `python -c` looks for every module in the current folder first


def starts(path: Path) -> Iterator[tuple[str, bool]]:
    """Each place that takes `sys.executable`, and whether a command begins so and is safe. ``sys.executable or`` asks
    for its name, and starts nothing.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asked = {id(each) for node in ast.walk(tree) if isinstance(node, ast.BoolOp) for each in node.values}
    safe = {
        id(node.elts[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.List) and len(node.elts) > 1 and ast.unparse(node.elts[1]) in map(repr, SAFE)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.ImportFrom):
            continue
        named = ast.unparse(node) == "sys.executable" and id(node) not in asked
        if named or (isinstance(node, ast.ImportFrom) and node.module == "sys"):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", id(node) in safe


def test_no_child_in_python_imports_from_the_current_folder() -> None:
    found = dict(each for path in sorted(ROOT.glob("packages/*/src/**/*.py")) for each in starts(path))
    assert [place for place, is_safe in found.items() if not is_safe] == []
    assert len(found) >= 5  # as many as there were
