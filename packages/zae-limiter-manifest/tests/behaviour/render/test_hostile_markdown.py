"""The plan of a manifest, as a comment on a pull request: no text of its author is Markdown or HTML there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from zae_limiter_manifest import (
    Address,
    Change,
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    LiveOverride,
    OnRefusedDecl,
    Plan,
    ResourceDecl,
    SystemDecl,
)
from zae_limiter_manifest.metadata import Metadata
from zae_limiter_manifest.render.as_markdown import render_drift, render_plan
from zae_limiter_manifest.render.views import View

PIECES = [
    *("|", "\\", "\\|", "`", "``", "a", " b", "<img/src=//e>", "</td></tr></table>", "<details>", "<!--", "@org/team"),
    *("![x](//e)", "[Approved](//e)", "https://e.example", "**b**", "~~s~~", "&lt;", "#1", "a_b_", "$x$", "<br>"),
]
hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join).filter(str.strip)
LIMITS = {"rpm": LimitDecl(1)}


def changes(text: str, *, kept: str) -> tuple[Change, ...]:
    """What comes, and what goes, with the text in each field that its author is free in."""
    switches: dict[str, Any] = {"disabled": True, "reason": text}
    other = f"o{kept}"
    policy = OnRefusedDecl(overflow=other)
    level = ResourceDecl(LIMITS, policy, **switches)
    manifest = LimitsManifest(
        "n",
        system=SystemDecl(None, LIMITS, policy, **switches),
        resources={kept: level, other: ResourceDecl(LIMITS)},
        entities={kept: EntityDecl({kept: level}, name=text, metadata=Metadata.of({text: text, "k": [{text: 1}]}))},
    )
    return tuple(Change(address, None, decl) for address, decl in manifest.declared())


def plan(text: str, name: str) -> Plan:
    there = changes(text, kept=name)
    gone = (Change(each.address, each.after, None, drift=True) for each in there)
    overrides = (LiveOverride(Address(name, name), "2026-01-01T00:00:00Z", ResourceDecl(LIMITS)),)
    return Plan("n", (*there, *gone), overrides=overrides, taken_from=text, declared=1)


def formatted(text: str) -> list[Any]:
    """All that Markdown makes of it, but for what is code."""
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    inner = [part for token in parsed for part in (token.children or [token])]
    return [(part.type, part.content if part.type != "code_inline" else "") for part in inner]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("view", [View(full=True), View()], ids=["full", "kinds"])
@given(text=hostile)
def test_no_text_of_an_author_formats_links_or_mentions(view: View, text: str) -> None:
    name = f"a{text.replace(' ', '')[:100]}z"
    bad, good = plan(text, name), plan("harmless", "a")
    assert formatted(render_plan(bad, view=view)) == formatted(render_plan(good, view=view))
    assert formatted(render_drift(bad, view=view)) == formatted(render_drift(good, view=view))
