"""Write the table of docs/operate/alarms.md: each alarm of the stack's template, when it fires, its runbook.

python -m website.alarms   (with tools on PYTHONPATH; `just pictures` calls it)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zae_limiter_cli.columns import counted
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.alarms import NOW, WEEK, alarms, runbook
from zae_limiter_cli.stack.template.build import plain

from .markers import fill

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "operate" / "alarms.md"
UNITS: Final = {"IteratorAge": " ms"}
WATCHED: Final = {
    "TableThrottlesAlarm": "requests that the account's quota or the table's maximum throttles,",
    "IndexThrottlesAlarm": "throttled reads and writes of all indexes",
    "SystemErrorsAlarm": "`SystemErrors` of all operations",
    "CapacityAlarm": "consumed units a second, the larger of reads and writes,",
}
EVERY_ALARM: Final = StackOptions(alarm_refusals=1)


def table() -> str:
    """Return a row for each alarm, the urgent ones first, else in the order of the template."""
    resources = plain("my-app", EVERY_ALARM)["Resources"]
    made = sorted(alarms(), key=lambda name: resources[name]["Properties"]["AlarmDescription"].split(":")[0])
    rows = [_row(name, resources[name]["Properties"]) for name in made]
    return "\n".join(["| alarm and runbook | when to act | what happens | it fires from |", "|---|---|---|---|", *rows])


def filled(page: str) -> str:
    """Return the page with today's table."""
    return fill(page, "alarms", table())


def _row(name: str, made: Mapping[str, Any]) -> str:
    page = f"runbooks/{runbook(name).rpartition('/')[2]}"
    when, _, told = made["AlarmDescription"].partition(". What to do")[0].partition(": ")
    urgent = {NOW: "**now**", WEEK: "this week"}[when]
    return f"| [{name}]({page}) | {urgent} | {told} | {_condition(name, made)} |"


def _condition(name: str, made: Mapping[str, Any]) -> str:
    times, metrics = made["EvaluationPeriods"], made.get("Metrics", ())
    seconds = made.get("Period") or next(each.get("MetricStat", each) for each in metrics)["Period"]
    period = counted(seconds // 60, "minute")
    again = f"{period}, {times} times in a row" if seconds > 60 else f"each of {times} minutes"
    lasting = f"in {period if times == 1 else again}"
    if "Metrics" in made:
        percent = {"CapacityAlarm": "of the quota", "AggregatorDurationAlarm": "of the time-out"}
        of = percent.get(name.replace("Provisioner", "Aggregator"))
        threshold = f"{made['Threshold']} % {of}" if of else made["Threshold"]
        return f"{WATCHED.get(name, 'the longest invocation')} {lasting}: {threshold}"
    unit = UNITS.get(made["MetricName"], "")
    threshold = "`--alarm-refusals`" if made["MetricName"] == "refused" else f"{made['Threshold']:,}{unit}"
    return f"{made['Statistic'].lower()} of `{made['MetricName']}` {lasting}: {threshold}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
