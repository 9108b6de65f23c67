"""Write the table of docs/operate/alarms.md: each alarm of the stack's template, when it fires, its runbook.

python -m website.alarms   (with tools on PYTHONPATH; `just pictures` calls it)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.alarms import alarms, runbook
from zae_limiter_cli.stack.template.build import plain

from .markers import fill

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "operate" / "alarms.md"
UNITS: Final = {"IteratorAge": " ms"}
EVERY_ALARM: Final = StackOptions(alarm_refusals=1)


def table() -> str:
    """Return a row for each alarm, in the order of the template."""
    resources = plain("my-app", EVERY_ALARM)["Resources"]
    rows = [_row(name, resources[name]["Properties"]) for name in alarms()]
    return "\n".join(["| alarm and runbook | what happens | it fires from |", "|---|---|---|", *rows])


def filled(page: str) -> str:
    """Return the page with today's table."""
    return fill(page, "alarms", table())


def _row(name: str, made: Mapping[str, Any]) -> str:
    page = f"runbooks/{runbook(name).rpartition('/')[2]}"
    told = made["AlarmDescription"].partition(". What to do")[0]
    return f"| [{name}]({page}) | {told} | {_condition(made)} |"


def _condition(made: Mapping[str, Any]) -> str:
    if "Metrics" in made:
        return f"the longest invocation in 5 minutes: {made['Threshold']} % of the time-out"
    minutes, unit = made["Period"] // 60, UNITS.get(made["MetricName"], "")
    threshold = "`--alarm-refusals`" if made["MetricName"] == "refused" else f"{made['Threshold']:,}{unit}"
    return f"{made['Statistic'].lower()} of `{made['MetricName']}` in {minutes} minutes: {threshold}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
