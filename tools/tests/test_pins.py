"""What lives here: every action of a workflow, ours or one in the docs, is pinned by its commit.
What never does: which version is meant.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (
    "examples/*/.github/**/*.yaml",
    ".github/**/*.yml",
    ".github/**/*.yaml",
    ".github/**/*.md",
    "docs/**/*.md",
    "packages/*/*.md",
    "*.md",
)
FILES = sorted({path for place in PLACES for path in ROOT.glob(place)})
USES = re.compile(r"^[ \t]*(?:- )?uses:[ \t]*(.*)$", re.MULTILINE)
OURS = "./"
PINNED = re.compile(r"(?P<action>[\w.-]+/[\w./-]+)@(?P<commit>[0-9a-f]{40})  ?# (?P<version>v\d+(\.\d+){2})")


def loose(text: str) -> list[str]:
    """What is used by a name that can be moved to another commit."""
    return [used for used in USES.findall(text) if not (used.startswith(OURS) or PINNED.fullmatch(used.rstrip()))]


def pins() -> dict[str, set[tuple[str, str]]]:
    """Commits and versions by action, of all files."""
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in FILES:
        for used in USES.findall(path.read_text(encoding="utf-8")):
            if match := PINNED.fullmatch(used.rstrip()):
                found[match["action"]].add((match["commit"], match["version"]))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_action_is_pinned_by_its_commit_with_its_version_beside(path: Path) -> None:
    assert loose(path.read_text(encoding="utf-8")) == []


def test_an_action_has_one_commit_everywhere() -> None:
    assert {"actions/checkout", "astral-sh/setup-uv", "aws-actions/configure-aws-credentials"} <= set(pins())
    assert {action: found for action, found in pins().items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    "used",
    [
        "actions/checkout@v5",
        "actions/checkout@main  # v5.0.0",
        f"actions/checkout@{'a' * 40}",
        f"actions/checkout@{'a' * 39} # v5.0.0",
        f"actions/checkout@{'a' * 40} # v5",
        "docker://alpine:3",
    ],
)
def test_a_loose_action_is_found(used: str) -> None:
    assert loose(f"steps:\n  - uses: {used}\n  - name: x\n    uses: {used}\n") == [used, used]


def test_what_is_pinned_or_of_this_repository_is_not() -> None:
    assert loose(f"- uses: actions/cache/restore@{'a' * 40} # v5.0.0\n  uses: ./.github/workflows/ci.yml\n") == []
