"""What lives here: the guide of the LLM gateway shows the files of its example, whole, and is short.
What never does: what the gateway does (examples/llm-gateway/tests).
"""

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/gateway.md").read_text("utf-8")
BLOCKS = re.compile(r"^( *)```(\w+) ?([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["gateway.py", "limits.yaml", "provider.py", "set_up.py"])
def test_the_page_shows_the_example(name: str) -> None:
    [shown] = [dedent(code) for _, _, title, code in BLOCKS.findall(PAGE) if name in title]
    assert shown == (ROOT / "examples/llm-gateway" / name).read_text("utf-8")


def test_its_prose_is_short() -> None:
    assert len(BLOCKS.sub("", PAGE).split()) <= 1_200
