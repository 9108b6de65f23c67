import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manifest.reference import with_pieces
from zae_limiter_manifest import LimitsManifest, ManifestError, StackProperties, load, render_template
from zae_limiter_manifest.look_alikes import find_look_alikes
from zae_limiter_manifest.warned import NAMES
from zae_limiter_manifest.warnings import load_with_warnings

ROOT = Path(__file__).parents[4]
REFERENCE = ROOT / "docs" / "manifest.md"
PAGES = [REFERENCE, ROOT / "packages" / "zae-limiter-manifest" / "README.md"]
BLOCK = re.compile(r"^```(yaml[^\n]*|text[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = sorted((ROOT / "examples").glob("*.limits.yaml"))


def blocks(kind: str) -> Iterator[str]:
    for page in PAGES:
        for found in BLOCK.finditer(page.read_text("utf-8")):
            if found[1] == kind:
                yield found[2]


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_a_manifest_of_the_pages_loads(text: str) -> None:
    assert load(text).namespace == "tenant-alpha"


def test_the_mistakes_of_the_page_are_told_as_it_says() -> None:
    ((mistakes,), (*_, told)) = blocks("yaml mistakes"), blocks("text")
    with pytest.raises(ManifestError) as caught:
        load(mistakes, "limits.yaml")
    assert str(caught.value) == told.rstrip("\n")


def test_the_warning_of_the_page_is_of_the_example_above_it() -> None:
    (_, example, *_), (told, *_) = blocks("yaml"), blocks("text")
    ((_, warnings),) = load_with_warnings([("limits.yaml", example)])
    assert told.rstrip("\n") in [f"Warning: {each}\n{each.place.excerpt}" for each in warnings if each.place]


def test_the_warning_of_ids_on_the_page_is_told_as_it_says() -> None:
    _, told, _ = blocks("text")
    (found,) = find_look_alikes(load("{namespace: tenant-alpha, entities: {acme: {}, Acme: {}}}"))
    assert told.rstrip("\n") == f"Warning: {found}"


def test_the_page_has_every_warning() -> None:
    table = REFERENCE.read_text("utf-8").partition("## Warnings")[2].partition("## Mistakes")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [*NAMES]


def test_the_example_of_a_gateway_has_no_warnings() -> None:
    text = (ROOT / "examples" / "llm-gateway" / "limits.yaml").read_bytes()
    ((_, warnings),) = load_with_warnings([("limits.yaml", text)])
    assert warnings == ()


def test_the_generated_pieces_of_the_page_are_those_of_the_models() -> None:
    page = REFERENCE.read_text("utf-8")
    assert page == with_pieces(page), (
        "run python packages/zae-limiter-manifest/tests/support/manifest/reference.py docs/manifest.md"
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads(path: Path) -> None:
    assert load(path.read_bytes(), path.name).namespace == path.name.partition(".")[0]


def test_the_example_of_a_template_is_that_of_the_example_of_a_manifest() -> None:
    manifest: LimitsManifest = load((ROOT / "examples" / "tenant-alpha.limits.yaml").read_bytes())
    template = (ROOT / "examples" / "tenant-alpha.template.yaml").read_text("utf-8")
    assert template == render_template(StackProperties(manifest), "my-app")
