"""What lives here: what the release workflow checks before it builds: tag, version, and the repository that it runs in.
What never does: a change to a file.

    tagged.py TAG     prints the name of the distribution, without `zae-limiter-`
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from check_siblings import ROOT


def name_of(tag: str, root: Path, environ: Mapping[str, str]) -> str:
    """Return the distribution that a tag releases. Raises ``ValueError`` where the tree is not that release."""
    match = re.fullmatch(r"zae-limiter-([a-z]+)/v(\d+\.\d+\.\d+)", tag)
    pyproject = root / "packages" / f"zae-limiter-{match[1]}" / "pyproject.toml" if match else None
    if not match or not pyproject or not pyproject.exists():
        raise ValueError(f"{tag}: no tag of a release; one is like zae-limiter-core/v0.2.0")
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    if project["version"] != match[2]:
        raise ValueError(f"{tag}: the tree has version {project['version']}; make tags by `just release`")
    if repository := environ.get("GITHUB_REPOSITORY"):
        here = f"{environ['GITHUB_SERVER_URL']}/{repository}"
        if project["urls"]["Repository"] != here:
            raise ValueError(f"{project['urls']['Repository']}: project.urls names another repository than {here}")
    return match[1]


def main() -> int:
    """Print the name, or why there is none."""
    (tag,) = sys.argv[1:]
    try:
        print(name_of(tag, ROOT, os.environ))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
