"""Building blocks of rules: a rule looks at a plain value and yields every finding in it, none where it is good.
Never knows what a manifest holds, nor where a value stands in a file."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from .naming import NameKind, find_name_problem
from .problems import ManifestError, Path, Problem, describe, format_path, show

SETTLED: Final = object()
"""Stands for a value that was judged before, found good or already complained about: every rule accepts it."""


@frozen
class Finding:
    """What is wrong with the value at a path, or with its key."""

    path: Path
    message: str
    on_key: bool = False


Rule = Callable[[Path, object], Iterator[Finding]]


def integer(highest: int) -> Rule:
    """An integer from 1 to `highest`; a boolean is none."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if type(value) is not int:
            yield Finding(path, f"must be an integer, not {describe(value)}")
        elif value < 1:
            yield Finding(path, f"must be at least 1, not {show(value)}")
        elif value > highest:
            yield Finding(path, f"must be at most {highest}, not {show(value)}")

    return rule


def choice(*words: str) -> Rule:
    """One of the words."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if not isinstance(value, str) or value not in words:
            allowed = " or ".join(f"`{word}`" for word in words)
            yield Finding(path, f"must be {allowed}, not {describe(value)}{_suggest(value, words)}")

    return rule


def name(kind: NameKind) -> Rule:
    """A good name of this kind."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if not isinstance(value, str):
            yield Finding(path, f"must be a string, not {describe(value)}")
        elif problem := find_name_problem(kind, value):
            yield Finding(path, f"{show(value)} {problem}")

    return rule


def record(fields: Mapping[str, Rule], *, required: Iterable[str] = (), whole: Rule | None = None) -> Rule:
    """A map of known keys, each with a rule of its own; `whole` sees the map once more, for what binds two fields."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if not isinstance(value, Mapping):
            yield Finding(path, f"must be a map, not {describe(value)}")
            return
        for key, item in value.items():
            if key in fields:
                yield from _check(fields[key], (*path, key), item)
            else:
                yield _unknown_key((*path, key), key, fields)
        for key in required:
            if key not in value:
                yield Finding(path, f"`{key}` is missing", on_key=True)
        if whole:
            yield from whole(path, value)

    return rule


def table(kind: NameKind, entry: Rule) -> Rule:
    """A map from names of one kind to values of one rule; it may be empty."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if not isinstance(value, Mapping):
            yield Finding(path, f"must be a map, not {describe(value)}")
            return
        for key, item in value.items():
            yield from _check_key(kind, (*path, key), key)
            yield from _check(entry, (*path, key), item)

    return rule


def filled(inner: Rule) -> Rule:
    """What `inner` says, for a map that may not be empty."""

    def rule(path: Path, value: object) -> Iterator[Finding]:
        if isinstance(value, Mapping) and not value:
            yield Finding(path, "must not be empty")
        yield from inner(path, value)

    return rule


def find_in(rule: Rule, value: object) -> Iterator[Finding]:
    """What a rule finds in a whole value."""
    return _check(rule, (), value)


def settle(entries: Mapping[str, object]) -> dict[str, object]:
    """The keys alone, to be judged without their values: those have checked themselves when they were made."""
    return dict.fromkeys(entries, SETTLED)


def enforce(rule: Rule, value: object, name: str) -> None:
    """Nothing where the rule finds nothing; raises `ManifestError` with all findings, none with a position."""
    problems = [Problem(name, None, None, format_path(found.path), found.message) for found in find_in(rule, value)]
    if problems:
        raise ManifestError(problems)


def _check(rule: Rule, path: Path, value: object) -> Iterator[Finding]:
    return iter(()) if value is SETTLED else rule(path, value)


def _check_key(kind: NameKind, path: Path, key: object) -> Iterator[Finding]:
    if not isinstance(key, str):
        yield _unquoted_key(path, key)
    elif problem := find_name_problem(kind, key):
        yield Finding(path, f"{show(key)} {problem}", on_key=True)


def _unknown_key(path: Path, key: object, known: Iterable[str]) -> Finding:
    if not isinstance(key, str):
        return _unquoted_key(path, key)
    hint = _suggest(key, known) or f"; known here: {', '.join(f'`{k}`' for k in known)}"
    return Finding(path, f"unknown key {show(key)}{hint}", on_key=True)


def _unquoted_key(path: Path, key: object) -> Finding:
    return Finding(path, f"a key must be a string, not {describe(key)}: put it in quotes", on_key=True)


def _suggest(value: object, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(value[:64], list(words), n=1) if isinstance(value, str) else []
    return f", did you mean `{close[0]}`?" if close else ""
