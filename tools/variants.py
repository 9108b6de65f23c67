"""Write the modules that are generated: blocking variants, and copies for a package that may not import the source.

A source says in its first line that it is one, and a copy of it is the same text. The blocking variant of
`aio/limiter.py` is `sync/limiter.py`, the same text, but

- `async` and `await` go, and the words of `WORDS` change;
- a class `Lease` is `SyncLease`, if a source defines it or `SyncLease` is written by hand, wherever that is;
- so it is in docstrings and comments, names only between double backticks. A string that is such a name and nothing
  else is an annotation; every other string stays.

What differs otherwise lies in a module that is written by hand in both folders.

    variants.py            write what has changed
    variants.py --check    1 where a file is not what its source gives
"""

import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Collection, Iterator
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = "# `just variants` writes the blocking variant of this module."
COPIED: Final = re.compile(r"# `just variants` copies this module to (\S+)\.\n")
GENERATED: Final = "# Generated from {source} by `just variants`: edit that one."
WORDS: Final = {"__aenter__": "__enter__", "__aexit__": "__exit__", "aio": "sync"}
BEFORE_STATEMENT: Final = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def variants(tree: Path) -> dict[Path, str | None]:
    """Return the generated files, as they should be; ``None`` for one that has lost its source."""
    texts = {path: path.read_text("utf-8") for path in sorted(tree.glob("packages/*/src/**/*.py"))}
    generated = [path for path, text in texts.items() if text.startswith(GENERATED.partition("{")[0])]
    sources = {path: text for path, text in texts.items() if text.startswith(SOURCE)}
    by_hand = "".join(text for path, text in texts.items() if path not in generated)
    names = {
        *re.findall(r"^(?:class )?Sync([A-Z]\w*)", by_hand, re.MULTILINE),
        *re.findall(r"^class ([A-Z]\w*)", "".join(sources.values()), re.MULTILINE),
    }
    written = dict(_variant(tree, path, text, names) for path, text in sources.items())
    copies = dict(_copy(tree, path, text) for path, text in texts.items() if COPIED.match(text))
    return {**dict.fromkeys(generated), **written, **copies}


def _variant(tree: Path, source: Path, text: str, names: Collection[str]) -> tuple[Path, str]:
    """Return where the variant of a source lies, and its text."""
    place = source.relative_to(tree)
    target = tree.joinpath(*(WORDS.get(part, part) for part in place.parts))
    return target, _formatted(_header(source) + blocking(text.removeprefix(SOURCE), names), target)


def _copy(tree: Path, source: Path, text: str) -> tuple[Path, str]:
    """Return where the copy of a source lies, and its text."""
    found = COPIED.match(text)
    assert found is not None, "a source of a copy begins with its mark"
    return tree / found[1] / source.name, f"{_header(source)}\n{text[found.end() :]}"


def _header(source: Path) -> str:
    return GENERATED.format(source=f"{source.parent.name}/{source.name}")


def blocking(source: str, names: Collection[str]) -> str:
    """Return the blocking variant of a module, not yet formatted; ``names`` are those that get the prefix ``Sync``."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for token, text in reversed(list(_changes(source, lambda name: f"Sync{name}" if name in names else name))):
        begin, end = (starts[line - 1] + column for line, column in (token.start, token.end))
        source = source[:begin] + text + (source[end:] if text else source[end:].lstrip(" "))
    return source


def _changes(source: str, rename: Callable[[str], str]) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Yield the tokens that change, each with its new text."""
    before, in_f_string = tokenize.NEWLINE, 0
    for token in tokenize.generate_tokens(StringIO(source).readline):
        in_f_string += {"FSTRING_START": 1, "FSTRING_END": -1}.get(tokenize.tok_name[token.type], 0)
        text = token.string
        if token.type == tokenize.NAME and not in_f_string:  # before Python 3.12, an f-string is one token
            text = "" if text in {"async", "await"} else WORDS.get(text, rename(text))
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and before in BEFORE_STATEMENT):
            text = _blocking_prose(text, rename)
        elif token.type == tokenize.STRING:
            text = re.sub(r'^"(\w+)"$', lambda found: f'"{rename(found[1])}"', text)
        if text != token.string:
            yield token, text
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            before = token.type


def _blocking_prose(text: str, rename: Callable[[str], str]) -> str:
    text = re.sub(r"``.+?``", lambda code: re.sub(r"\w+", lambda word: rename(word[0]), code[0]), text)
    return re.sub(r"\basync\b", "sync", re.sub(r"\b(async (?=def|for|with)|await )", "", text))


def _formatted(text: str, path: Path) -> str:
    """Return the module as ruff sorts its imports and formats it."""
    for command in (["check", "--select=I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={path}", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, encoding="utf-8", check=True).stdout
    return text


def main(arguments: Collection[str], tree: Path = ROOT) -> int:
    """Write the files that are not what their sources give; with ``--check`` only name them."""
    stale = {path: text for path, text in variants(tree).items() if text != _text(path)}
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(tree)} is not what its source gives: run `uv run just variants`", file=sys.stderr)
        elif text is None:
            path.unlink()
        else:
            path.write_text(text, "utf-8")
    return int(bool(stale) and "--check" in arguments)


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
