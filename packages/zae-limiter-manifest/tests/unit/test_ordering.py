"""A manifest's text in order: lines are moved, and say the same."""

import random
from itertools import count

import pytest
import yaml

from zae_limiter_manifest import ManifestError, order

BEFORE = """\
# Limits of alpha.

namespace: alpha

entities:
  # the second
  b: &gold
    resources:
      gpt-4: {limits: {tpm: 1/min, rpm: 1/min}}   # in braces
    name: |
      # no comment
    # what b costs
    metadata: {z: 1, a: 1}

  # the first

  # of all
  a:
    parent: b

system:
  limits:
    tpm: 1k/min
    # requests
    rpm: 1/min
  on_unavailable: allow

resources:
  <<: {r: {limits: {a: 1/s}}}
  z: {limits: {a: 1/s}}
  "gpt-4":
    limits:
      a: 1/s
x-other: 1
x-early: 2

# the end
"""
AFTER = """\
# Limits of alpha.

namespace: alpha

x-other: 1

x-early: 2

system:
  on_unavailable: allow
  limits:
    # requests
    rpm: 1/min
    tpm: 1k/min

resources:
  <<: {r: {limits: {a: 1/s}}}
  "gpt-4":
    limits:
      a: 1/s
  z: {limits: {a: 1/s}}

entities:
  # of all
  a:
    parent: b

  # the second
  b: &gold
    name: |
      # no comment
    # what b costs
    metadata: {z: 1, a: 1}
    resources:
      gpt-4: {limits: {tpm: 1/min, rpm: 1/min}}   # in braces

  # the first

# the end
"""


def test_entries_move_with_their_comments() -> None:
    assert order(BEFORE, "f") == AFTER
    assert order(AFTER, "f") == AFTER


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("namespace: a", "namespace: a\n"),
        ("system: {}\nnamespace: a", "namespace: a\nsystem: {}\n"),
        ("system: {}\r\nnamespace: a\r\n", "namespace: a\r\nsystem: {}\r\n"),
        ("\ufeffsystem: {}\nnamespace: a\n", "namespace: a\nsystem: {}\n"),
        ("{system: {}, namespace: a}\n", "{system: {}, namespace: a}\n"),
        ("system: {\n  a: 1,\n  limits: 2}\n", "system: {\n  a: 1,\n  limits: 2}\n"),
        ("system: &x {\n  a: 1,\n  limits: 2}\n", "system: &x {\n  a: 1,\n  limits: 2}\n"),
        (
            "system: &x\n  limits: {b: 1, a: 2}\n  on_unavailable: 1\n",
            "system: &x\n  on_unavailable: 1\n  limits: {b: 1, a: 2}\n",
        ),
        (
            "resources:\n  b: 1\n  <<:\n    d: 1\n    c: 2\n  a: 1\n",
            "resources:\n  a: 1\n  b: 1\n  <<:\n    d: 1\n    c: 2\n",
        ),
        ("unknown: 1\nsystem: {}\n", "system: {}\nunknown: 1\n"),
        ("system: {}\n7: 1\nnamespace: a\n", "namespace: a\nsystem: {}\n7: 1\n"),
        ("---\nsystem: {}\nnamespace: a\n", "---\nnamespace: a\nsystem: {}\n"),
    ],
)
def test_odd_texts(text: str, ordered: str) -> None:
    assert order(text, "f") == ordered


def test_a_text_that_no_order_may_change_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"f: \(document\): cannot be put in order: an alias would stand above"):
        order("entities:\n  b: &gold {name: x}\n  a: *gold\n", "f")
    with pytest.raises(ManifestError, match="f:1:4: a: the alias"):
        order("a: *gold\n", "f")


@pytest.mark.parametrize("seed", range(60))
def test_any_text_keeps_its_values_and_its_lines(seed: int) -> None:
    chance, numbers = random.Random(seed), count()

    def lines(depth: int) -> list[str]:
        found: list[str] = []
        for key in chance.sample(("entities", "resources", "limits", "name", "b", "a", "system", "x-y"), 4):
            found += [f"# {next(numbers)}"] * (chance.random() < 0.4) + [""] * (chance.random() < 0.3)
            found += [f"# {next(numbers)}"] * (chance.random() < 0.4)
            inner = lines(depth + 1) if depth < 3 and chance.random() < 0.6 else []
            found += [f"{key}:", *(f"  {line}" for line in inner)] if inner else [f"{key}: {next(numbers)}  # why"]
        return found + [f"# {next(numbers)}"] * (chance.random() < 0.4)

    text = "".join(f"{line}\n" for line in lines(0))
    once = order(text, "f")
    assert yaml.safe_load(once) == yaml.safe_load(text)
    assert sorted(filter(str.strip, once.splitlines())) == sorted(filter(str.strip, text.splitlines()))
    assert order(once, "f") == once


def test_bytes_are_ordered_as_their_text_is_and_a_mistake_in_them_has_its_place() -> None:
    assert order(b"\xef\xbb\xbflimits: {}\r\nnamespace: \xc3\xa4\r\n", "a.yaml") == "namespace: ä\r\nlimits: {}\r\n"
    with pytest.raises(ManifestError, match=r"a\.yaml:2:4: .*not UTF-8 text: the byte 0xff"):
        order(b"a: 1\nb: \xff\n", "a.yaml")
