"""Command lines for every command of `zae-limiter`, found in click's own tree.

Lives here: strategies. Never: a run of a command.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import click
from hypothesis import strategies as st

from zae_limiter_cli.main import main

from .junk import texts

MANIFEST = "FILE"  # stands for the path of the drawn file
SKIPPED = {
    ("local", "up"): "it stays",
    ("console",): "it serves until it is interrupted",
    ("demo",): "it takes seconds by design",
    ("lambda-export",): "it builds a Lambda of megabytes",
}
WORDS = [
    *(
        "e",
        "p",
        "r",
        "gpt-4",
        "rpm",
        "rpm=5",
        "rpm:5:yes-ish",
        "rpm=60/1m",
        "tpm:1000:2000",
        "tenant-alpha",
        "default",
        "victim",
    ),
    *("0", "1", "-1", "60", "10m", "2024-01-01", "2024-01-01T10:00:00Z", "1d", "json", "table", "text", "markdown"),
    *("sha256:" + "0" * 64, "-", "--", "--help", "--yes", "k=v", MANIFEST, "/nowhere/file", "."),
]


@dataclass(frozen=True)
class CommandLine:
    """Words behind `zae-limiter`, the contents of one file that they may name, and what is on standard input."""

    words: tuple[str, ...]
    content: bytes
    typed: str


def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command by its words."""
    found = dict(_below((), main, click.Context(main)))
    return {words: command for words, command in found.items() if words not in SKIPPED}


def _below(
    words: tuple[str, ...], group: click.Group, context: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _below((*words, name), command, click.Context(command, parent=context))
        elif command is not None:
            yield (*words, name), command


@st.composite
def command_lines(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> CommandLine:
    """A command with its arguments and some of its options, most of which have values that fit."""
    words, command = draw(st.sampled_from(sorted(_COMMANDS.items())))
    line = [*words]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            line += draw(st.lists(_often(_value(parameter)), min_size=parameter.required, max_size=1))
        elif isinstance(parameter, click.Option) and parameter.name not in LEFT_OUT and _is_chosen(draw, parameter):
            line.append(draw(st.sampled_from(parameter.opts)))
            line += [] if parameter.is_flag else [draw(_often(_value(parameter)))]
    if draw(st.integers(0, 7)) == 0:
        line.insert(draw(st.integers(0, len(line))), draw(_junk))
    return CommandLine(tuple(line), draw(contents), draw(st.sampled_from(["", "y\n", "n\n"])))


def _is_chosen(draw: st.DrawFn, parameter: click.Option) -> bool:
    often = parameter.required or parameter.name in {"yes", "files", "limits", "entity", "resource"}
    return draw(st.integers(0, 5)) < (5 if often else 1)


def _often(fitting: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """What fits, five times out of six."""
    return st.integers(0, 5).flatmap(lambda number: fitting if number else _junk)


def _value(parameter: click.Parameter) -> st.SearchStrategy[str]:
    if isinstance(parameter.type, click.Choice):
        return st.sampled_from([str(choice) for choice in parameter.type.choices])
    if isinstance(parameter.type, click.Path) or parameter.name == "files":
        return st.just(MANIFEST) | st.sampled_from([MANIFEST, ".", "-", "/nowhere/file", "link"])
    if isinstance(parameter.type, click.IntRange):
        return st.sampled_from([str(parameter.type.min), str(parameter.type.max), "5"])
    return st.sampled_from(FITTING.get(str(parameter.name), WORDS))


# the surface says where AWS is; --debug shows tracebacks; --every waits for so long
LEFT_OUT = {"endpoint_url", "profile", "region", "debug", "every"}
FITTING = {
    "entity_id": ["e", "p", "user-1"],
    "entity": ["e", "p", "user-1"],
    "parent": ["p"],
    "resource": ["r", "gpt-4"],
    "limits": [
        "rpm:60/min",
        "tpm:1000/hour",
        "rpm:5",
        "rpm:60/min:100",
        "rpm:5:shadow",
        "tpm:60/day:100:shadow",
        "tpm:60:prefetch=1",
        "tpm:60:weights=input=1,output=4",
    ],
    "namespace": ["default", "tenant-alpha", "spare"],
    "by": ["refused", "shadowed", "rpm"],
    "since": ["1d", "2024-01-01", "2024-01-01T10:00:00Z"],
    "until": ["1d", "2024-01-01", "2h", "9999w", "2099-01-01T00:00Z", "2026-03-29T02:30"],
    "name": ["my-app"],
    "tokens": ["rpm:5", "rpm:0"],
    "metadata": ["k=v"],
    "principal": ["ann"],
}
_junk = st.sampled_from(WORDS) | texts.map(lambda text: text.replace("\0", "").lstrip("/")[:5000])
_COMMANDS = commands()
