"""What lives here: a name that was renamed stands in the tables of old names, and in no other file; gone with 1.0."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TABLES: Final = (
    "**/renamed.py",
    "**/test_renamed*.py",
    "tools/tests/test_old_names.py",
    "docs/museum*",
    "**/*.svg",
    "**/*.lock",
)
OLD: Final = {
    "tier": (
        r"(set|get|delete)_plan_limits|list_plans|entities_of_plan|\bplan_default\b"
        r"|\bPLAN#|\$PLAN\b|\bPlanDecl\b|\bplan_in_use\b|\bplan (set|delete)-limits|`plan (show|list)`|--no-plan\b"
        r"|\bplan: (gold|free|silver|pro)\b|\bplan=[\"'](gold|free|silver|pro)|^plans:"
        r"|\bx-plan-\d|\bplan (gold|free|silver)\b|guides/plans\.md"
    ),
    "prefetch": (
        r"\bahead=|\bahead:|`ahead`|\.ahead\b|\[`?ahead`?\]\(|\bahead_ms\b|held_ahead|guides/ahead\.md"
        r"|\b(hold|holds|holding) (its )?tokens ahead|tokens held ahead|\d(ms|s|/\w+) ahead \d"
        r"|(clock|anchor)s? (that )?(is|was|are|were) ahead"
    ),
    "draws": r"\balso=|`also[=`]|--also\b|\.also\b|\balso(-\d)?/(NAME|rpm|tpm|parent)",
}


@pytest.mark.parametrize("new", OLD)
def test_an_old_name_stands_in_its_table_alone(new: str) -> None:
    search = ["git", "grep", "-nIP", "-e", OLD[new], "--", ".", *(f":(exclude,glob){table}" for table in TABLES)]
    found = subprocess.run(search, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("", ""), f"it is called {new} now"
