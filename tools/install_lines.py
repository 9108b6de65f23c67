"""What lives here: the lines of docs and READMEs that install a distribution of this workspace.
What never does: a line of `docs/decisions` or `docs/design`, which readers do not follow.

Until its first release no index has a distribution, and a stranger may take its name. So until then a line installs the
wheel that `just wheelhouse` makes, and from then on the name:

    pip install "$(echo wheelhouse/zae_limiter_core-*.whl)[flask]" gunicorn
    pip install "zae-limiter-core[flask]" gunicorn

The switch is the distribution's changelog: `release.py` turns the lines over with its first release. So it does with

    <!-- until zae-limiter-cli is released -->     which goes, up to `<!-- end -->`, and
    <!-- once zae-limiter-cli is released          up to `-->`, which is shown.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

INSTALLS: Final = re.compile(
    r"\b(?:(?:uv )?pip install|uv tool install|uv add|pipx install|uvx|uv tool run|uv run --with)\b[^`&#\n]*"
)
_NAME: Final = re.compile(r"(?<![\w/-])zae-limiter(?:-\w+)?(?![\w-]|\s*@)")
_BROKEN: Final = re.compile(r"\\\n|(?<=install)\n")  # lines that go on
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_BUILT: Final = "docs/install.md"  # says how to install from wheels, before a release and after it


def pages(tree: Path) -> list[Path]:
    """Return the pages whose lines a reader runs."""
    docs = [page for page in tree.glob("docs/**/*.md") if page.parent.name not in {"decisions", "design"}]
    workflows = tree.glob("examples/*/.github/workflows/*.yaml")
    return sorted([tree / "README.md", *tree.glob("packages/*/README.md"), *docs, *workflows])


def turn_over(tree: Path, distribution: str) -> None:
    """Make the pages install ``distribution`` by its name."""
    for page in pages(tree):
        before = page.read_text("utf-8")
        after = _without_blocks(before, distribution)
        if page != tree / _BUILT:
            after = "".join(_by_name(line, distribution) for line in after.splitlines(keepends=True))
        if after != before:
            page.write_text(after, "utf-8")


def problems(tree: Path, released: Collection[str]) -> Iterator[str]:
    """Yield each line that installs a distribution by its name before its release, or its wheel afterwards."""
    for page in pages(tree):
        where, text = page.relative_to(tree).as_posix(), page.read_text("utf-8")
        for line in INSTALLS.findall(_BROKEN.sub(" ", _COMMENT.sub("", text))):
            yield from (f"{where}: {line}: no index has {name}" for name in _NAME.findall(line) if name not in released)
            if where != _BUILT and any(_by_name(line, name) != line for name in released):
                yield f"{where}: {line}: it is released"


def _by_name(line: str, distribution: str) -> str:
    """Return ``line`` with the distribution's name where it has its wheel."""
    if not INSTALLS.search(line):
        return line
    wheel = f"wheelhouse/{distribution.replace('-', '_')}-*.whl"
    changes = {f'"$(echo {wheel})[': f'"{distribution}[', wheel: distribution}
    if distribution == "zae-limiter-cli":  # its wheel is installed with those of the others
        with_all = {" --with \"$(echo wheelhouse/*.whl | tr ' ' ,)\"": "", 'wheelhouse/*.whl "$(': '"$('}
        changes = {**with_all, **changes, "wheelhouse/*.whl": distribution}
    for before, after in changes.items():
        line = line.replace(before, after)
    return line


def _without_blocks(text: str, distribution: str) -> str:
    text = re.sub(rf"<!-- until {distribution} is released -->\n.*?<!-- end -->\n\n?", "", text, flags=re.DOTALL)
    return re.sub(rf"<!-- once {distribution} is released\n(.*?)-->\n", r"\1", text, flags=re.DOTALL)
