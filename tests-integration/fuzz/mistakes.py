"""Many cheap mistakes: manifests in YAML and in JSON whose every part is wrong, as many as a door lets through."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from .packs import pack_text

COUNTS = (2_000, 50_000, 400_000)
YAML = (
    ("", "a: 1\n"),
    ("", "k{}: 1\n"),
    ("namespace: a\n", "namespace: b\n"),
    ("namespace: a\nentities:\n", "  e{}: 1\n"),
    ("namespace: a\nentities:\n", "  e{}: {{a: 1}}\n"),
    ("namespace: a\nentities:\n", "  ? [e{}]\n  : !x 1\n"),
    ("namespace: a\nentities:\n  e: &e {a: 1}\n", "  e{}: *e\n"),
    ("namespace: a\nsystem:\n", "  on_unavailable: x\n"),
    ("namespace: a\nresources:\n", "  'r {}': {{limits: {{wcu: {{}}}}}}\n"),
    ("", "- [1]\n"),
)
JSON = ('"e{}":1', '"e{}":{{}}', '"e{}":{{"a":1}}', '"e {}":{{"resources":{{}}}}', '"{}":[]', '"e{}":"\\u202e"')


@cache
def _text(head: str, part: str, count: int) -> str:
    return head + "".join(map(part.format, range(count)))


@cache
def _plain(part: str, count: int) -> str:
    entries = ",".join(map(part.format, range(count)))
    return f'{{"namespace":"a","entities":{{{entries}}}}}'


def _request(part: str, count: int, action: str) -> dict[str, Any]:
    return {"packed": pack_text(f'{{"action":"{action}","manifest":{_plain(part, count)}}}'.encode())}


texts = st.builds(lambda kind, count: _text(*kind, count), st.sampled_from(YAML), st.sampled_from(COUNTS))
requests = st.builds(_request, st.sampled_from(JSON), st.sampled_from(COUNTS), st.sampled_from(["plan", "apply"]))
plan_files = st.builds(
    lambda part, count: f'{{"kind":"saved-plan","schema_version":1,"stack":"s","manifest":{_plain(part, count)}}}',
    st.sampled_from(JSON),
    st.sampled_from(COUNTS),
)
