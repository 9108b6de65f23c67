"""Show what a replay found: a table for people, a section of Markdown for a pull request."""

from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Final

import click

from zae_limiter_manifest.render.sections import code, code_in_table

from ...columns import counted, say_columns, say_wrapped
from ...times import shown
from .verdicts import Finding, Replayed, says_something

MOST_ROWS: Final = 20
"""The most rows of one namespace that are shown without being asked for."""

HOURLY: Final = (
    "Hourly usage has neither the order of the calls nor their bursts: the numbers hold for every order, if the calls "
    "of an hour are of one size"
)
UNKNOWN: Final = "unknown"
NARROWED: Final = (
    "Unknown: anything from none to more than half of the calls; a trace has them one by one, and a stack with an "
    "archive keeps it from `zae-limiter namespace trace {} --share 1` on"
)
TRACED: Final = (
    "A trace has every write, in whole seconds: calls of one write count as of one size, and refused ones as large as "
    "the last that was admitted"
)
_HEAD: Final = ("WHO", "RESOURCE", "LIMIT", "CALLS", "REFUSED", "WOULD BE", "SHARE")
_WIDTH: Final = 100


def say_replays(replays: Iterable[Replayed], *, full: bool) -> None:
    """Print each replay: what was looked at, who would be refused most, what was left out."""
    width = min(_WIDTH, get_terminal_size((_WIDTH, 24)).columns)
    for each in replays:
        click.echo()
        say_wrapped([[line] for line in (f"Replay of {each.namespace}, {_source(each)}:", _verdict(each))], width=width)
        rows, left = _rows(each, full=full)
        if rows:
            click.echo()
            say_columns([_HEAD, *map(_cells, rows)], indent="  ")
        if left:
            click.echo(f"  and {counted(left, 'more row')}: --full shows all")
        if each.findings:
            click.echo()
        if remarks := _remarks(each):
            say_wrapped([["-", _capital(note)] for note in remarks], width=width)


def markdown(replays: Sequence[Replayed], *, full: bool) -> str:
    """Return a section for each replay."""
    return "".join(_section(each, full=full) for each in replays)


def _section(replayed: Replayed, *, full: bool) -> str:
    rows, left = _rows(replayed, full=full)
    lines = [f"\n### Replay of `{replayed.namespace}`\n", f"{_capital(_source(replayed))}: {_verdict(replayed)}", ""]
    if rows:
        lines += [
            "| who | resource | limit | calls | refused | would be | share |",
            "|---|---|---|---:|---:|---:|---:|",
        ]
        for each in rows:
            who, resource, limit, *numbers = _cells(each)
            lines.append(f"| {' | '.join([*map(code_in_table, (who, resource, limit)), *numbers])} |")
    if left:
        lines.append(f"\n… and {counted(left, 'more row')}.")
    remarks = _remarks(replayed)
    lines += ["", *(f"- {code(_capital(note))}" for note in remarks)] if remarks else []
    return "\n".join(lines) + "\n"


def _remarks(replayed: Replayed) -> list[str]:
    sources = {each.source for each in replayed.findings}
    by = [text for source, text in (("trace", TRACED), ("hourly usage", HOURLY)) if source in sources]
    unknown = [] if all(each.is_known for each in replayed.refusing) else [NARROWED.format(replayed.namespace)]
    return [*replayed.notes, *by, *unknown]


def _source(replayed: Replayed) -> str:
    source: str = replayed.source
    if source == "trace and hourly usage":
        rest = counted(replayed.buckets - replayed.traced, "bucket")
        source = f"a trace of {counted(replayed.traced, 'bucket')} and hourly usage of {rest},"
    source = "" if replayed.nothing else f"{source} "
    return f"{source}from {shown(replayed.since)} to {shown(replayed.until)} UTC"


def _verdict(replayed: Replayed) -> str:
    if replayed.nothing:
        return f"nothing could be replayed: {replayed.nothing}."
    if not replayed.buckets:
        return "no bucket in use gets other limits."
    calls = f"{counted(replayed.calls, 'call')} on {counted(replayed.buckets, 'bucket')} that get other limits"
    refused = f"{calls}: {replayed.before:,} were refused"
    if not says_something(replayed.least, replayed.most, replayed.calls):
        return f"{refused}; how many would be is not known from sums of hours."
    verdict = f"{refused}, {_between(replayed.least, replayed.most)} would be"
    return f"{verdict}{_share(replayed.least, replayed.most, replayed.calls, ' (', ')')}."


def _rows(replayed: Replayed, *, full: bool) -> tuple[list[Finding], int]:
    rows = replayed.refusing
    most = len(rows) if full else MOST_ROWS
    return rows[:most], max(0, len(rows) - most)


def _cells(finding: Finding) -> tuple[str, ...]:
    mode = " (shadow)" if finding.shadow else ""
    return (
        finding.entity_id,
        finding.resource,
        f"{finding.limit} {finding.rule}".rstrip() + mode,
        f"{finding.calls:,}",
        f"{finding.before:,}",
        _range(finding.least, finding.most) if finding.is_known else UNKNOWN,
        (_share(finding.least, finding.most, finding.calls).strip() if finding.is_known else "") or "-",
    )


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _between(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"at least {least:,} and at most {most:,}"


def _share(least: int, most: int, calls: int, before: str = "", after: str = "") -> str:
    """Return parts of the calls in percent; nothing if there were no calls."""
    if not calls:
        return ""
    low, high = (_percent(each / calls) for each in (least, most))
    return f"{before}{low if low == high else f'{low} to {high}'} %{after}"


def _percent(part: float) -> str:
    return f"{100 * part:.1f}".removesuffix(".0") if part < 0.1 else f"{100 * part:.0f}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
