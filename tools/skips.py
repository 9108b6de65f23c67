"""What a run leaves out, and whether it may: a plugin of pytest in every session, and the list at the end of a run.

A session that ran nothing fails. So does one that skips for a reason that is not in ``ALLOWED``, where nobody looks on:
in CI, and in a run of several sessions, which keep what they skip in the file that ``ZAEL_SKIPS`` names.

    skips.py FILE     print what the sessions of a run have kept; 1 where nothing ran or a skip is not allowed
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

FILE_VARIABLE: Final = "ZAEL_SKIPS"
OUTCOMES: Final = ("passed", "failed", "error", "xfailed", "xpassed")
INSTALLED: Final = r"[^:]+ is not installed(: .+)?"
ALLOWED: Final[Mapping[str, str]] = {  # reasons, and who runs what they leave out
    r"[a-z-]+ does not offer: .+": "another target offers it",
    INSTALLED: "`just test-frameworks`, `test-llm` and `integration-sdk` install it, with --installed",
    "threads wake in any order|a thread cannot be cancelled": "a claim about coroutines",
    "this Python does not show it|later Pythons crash when .+": "the workflow runs it on another Python",
    r"Python 3\.\d+ is not here": "the nightly workflow has each Python",
    "root may write everywhere": "who is not root runs it",
    "this system gives no process a network of its own": "the workflow's machines do",
    "only root can be several users": "who is root runs it",
    "there is no Chromium: .+": "the workflow's machines have it",
    r"there is no Node\.js: .+": "the workflow's machines have it",
    "pwsh is not there": "the same lines are tested for other shells",
}
COMPLAINTS: Final = pytest.StashKey[list[str]]()


def complaints(
    ran: int, skipped: Mapping[str, int], *, installed: bool = False, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Say why a session may not pass; ``installed`` allows no skip of what is not installed."""
    if not ran:
        return ["nothing ran"]
    strict = environ.get("CI") == "true" or FILE_VARIABLE in environ
    return [
        f"nobody allows this skip: {reason}"
        for reason in skipped
        if (strict and why_allowed(reason) is None) or (installed and re.fullmatch(INSTALLED, reason))
    ]


def why_allowed(reason: str) -> str | None:
    """Return why something may be skipped for this reason; ``None`` where it may not."""
    return next((why for pattern, why in ALLOWED.items() if re.fullmatch(pattern, reason)), None)


def keep(ran: int, skipped: Mapping[str, int], environ: Mapping[str, str] = os.environ) -> None:
    """Add a session to the file of its run, where there is one."""
    if path := environ.get(FILE_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"ran": ran, "skipped": skipped}) + "\n")  # one write, among those of other sessions


def reason_of(report: Any) -> str:
    """Return why a test was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(reason).removeprefix("Skipped: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for those who have installed everything."""
    parser.addoption("--installed", action="store_true", help="fail where a test skips what is not installed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Change the exit code of a session that may not pass; the workers of one leave that to it."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}
    ran = sum(len(stats.get(kind, ())) for kind in OUTCOMES)
    skipped = Counter(map(reason_of, stats.get("skipped", ())))
    if hasattr(config, "workerinput") or not (ran or skipped):
        return  # pytest itself has a code for a session that finds nothing
    keep(ran, skipped)
    found = complaints(ran, skipped, installed=config.getoption("--installed"))
    config.stash[COMPLAINTS] = found
    if found and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if ran else pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print why the session may not pass."""
    for complaint in config.stash.get(COMPLAINTS, []):
        terminalreporter.write_line(f"error: {complaint}", red=True)


def main(path: Path) -> int:
    """Print how many tests a run had and each reason for a skip, with why it is allowed."""
    sessions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ran, skipped = sum(each["ran"] for each in sessions), Counter[str]()
    for each in sessions:
        skipped.update(each["skipped"])
    print(f"{ran:,} tests ran, {skipped.total():,} were skipped:")
    for reason, count in skipped.most_common():
        print(f"{count:7,}  {reason} ({why_allowed(reason) or 'NOT ALLOWED'})")
    found = complaints(ran, skipped, environ={FILE_VARIABLE: str(path)})
    for complaint in found:
        print(f"error: {complaint}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
