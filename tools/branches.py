"""Measure which branches of the source the fast tests take, in both variants, and hold it to what the page says.

branches.py [--write] [OPTION …]     options of pytest; with --write, the page gets a figure that is higher

It prints a table by package, also into the summary of a job of GitHub. A package that falls below the whole percent
of the page is a failure, so that its figure may only rise.
"""

import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sessions import GROUPS
from shell import code_of, heading, run, scratch
from website.markers import fill

PAGE: Final = Path("docs/contribute/checks.md")
MARKER: Final = "coverage"
ROW: Final = re.compile(r"^\| `zae-limiter-([a-z]+)` \| .* \| (\d+\.\d) % \|$", re.MULTILINE)


class Coverage(NamedTuple):
    """How many lines and branches there are, and how many of them tests reach."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_taken: int = 0

    @property
    def percent(self) -> float:
        """Of lines and branches together, as coverage.py counts it; rounded down, so that no figure promises more."""
        reached = self.lines_run + self.branches_taken
        return reached * 1000 // max(self.lines + self.branches, 1) / 10


def measure(options: Sequence[str]) -> tuple[Mapping[str, Any], list[str]]:
    """Run the fast tests, a session for each group; return the report of coverage.py and the sessions that failed."""
    failed = []
    with scratch() as folder:
        environ = {"COVERAGE_FILE": str(folder / "data")}
        for group in GROUPS:
            heading(f"coverage of {' and '.join(group)}")
            tests = [f"packages/zae-limiter-{name}/tests/{kind}" for name in group for kind in ("unit", "behaviour")]
            chosen = ("-q", "-m", "not slow", "--numprocesses", "auto", "--dist", "loadfile", *options)
            counted = ("--cov", "--cov-append", "--cov-report=")
            if code_of("uv", "run", "--group", "coverage", "pytest", *chosen, *counted, *tests, environ=environ):
                failed.append(f"the tests of {' and '.join(group)} failed")
        report = folder / "report.json"
        run("uv", "run", "--group", "coverage", "coverage", "json", "-q", "-o", str(report), environ=environ)
        found: Mapping[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found, failed


def by_package(report: Mapping[str, Any]) -> dict[str, Coverage]:
    """Return the sums by package of a report by file, in the report's order."""
    sums: dict[str, Coverage] = defaultdict(Coverage)
    for path, file in report["files"].items():
        name = path.partition("zae-limiter-")[2].partition("/")[0]
        counts = file["summary"]
        fields = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        sums[name] = Coverage(*(old + counts[field] for old, field in zip(sums[name], fields, strict=True)))
    return dict(sums)


def table(found: Mapping[str, Coverage]) -> str:
    """Return the figures as a table in Markdown."""
    head = "| package | lines | lines run | branches | branches taken | together |\n|---|---|---|---|---|---|"
    rows = [
        f"| `zae-limiter-{name}` | {' | '.join(f'{count:,}' for count in each)} | {each.percent} % |"
        for name, each in found.items()
    ]
    return "\n".join([head, *rows])


def promised(page: str) -> dict[str, float]:
    """Return the figure of each package that a page has."""
    return {name: float(percent) for name, percent in ROW.findall(page)}


def problems(found: Mapping[str, Coverage], floors: Mapping[str, float]) -> list[str]:
    """Return a line for each package that is not measured, or below the whole percent that the page promises."""
    missing = [f"{name}: nothing was measured" for name in floors if name not in found]
    return missing + [
        f"{name}: {each.percent} %, less than {int(floors[name])} %: test what you have added"
        for name, each in found.items()
        if each.percent < int(floors.get(name, 0))
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the table, and what is wrong; 1 where something is."""
    report, failed = measure([each for each in arguments if each != "--write"])
    found = by_package(report)
    page = PAGE.read_text(encoding="utf-8")
    lines = failed + problems(found, promised(page))
    print(table(found), *(f"error: {line}" for line in lines), sep="\n", flush=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"{table(found)}\n")
    if "--write" in arguments and not lines:
        PAGE.write_text(fill(page, MARKER, table(found)), encoding="utf-8")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
