"""Build the site: copy the pages, generate the reference, render all, and add the pages as Markdown.

python -m website.build [FOLDER]   (with tools on PYTHONPATH; `just docs` calls it)
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .commands import commands_pages
from .coverage import missing
from .machines import write_markdown
from .manifest import manifest_page
from .reference import SOURCES, reference_pages
from .root import page_of_docs, page_of_root, titled

ROOT: Final = Path(__file__).parents[2]
MERMAID: Final = re.compile(r"https://unpkg\.com/mermaid@[^\"'`]+")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
HOST: Final = re.compile(r"^      link: (https://\S+)$", re.MULTILINE)
CONTRIBUTE: Final = "docs/contribute"  # its pages name files that the site does not have
LOCAL_MERMAID: Final = "/assets/vendor/mermaid.min.js"


def main(folder: Path) -> None:
    """Build the site into a folder, which is made anew. Raise ``SystemExit`` for a warning, and for a missing name."""
    with TemporaryDirectory() as scratch:
        staged = Path(scratch)
        stage(staged)
        render(staged)
        if lines := missing(staged / "site"):
            sys.exit("\n".join(lines))
        write_markdown(staged / "docs", staged / "site")
        serve_mermaid_from_here(staged / "site")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(staged / "site", folder)


def stage(folder: Path) -> None:
    """Put the pages of docs, and those that are generated, into a folder that the renderer can read."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (host,) = HOST.findall(config)
    generated = reference_pages() | {
        **commands_pages(),
        "reference/manifest.md": manifest_page(),
        "reference/costs.md": (ROOT / "benchmarks" / "costs.md").read_text(encoding="utf-8"),
        "contributing.md": page_of_root((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), host),
    }
    for page in sorted((ROOT / CONTRIBUTE).glob("*.md")):
        generated[f"contribute/{page.name}"] = page_of_docs(page.read_text(encoding="utf-8"), CONTRIBUTE, host)
    for path, text in generated.items():
        (folder / "docs" / path).parent.mkdir(exist_ok=True)
        (folder / "docs" / path).write_text(text, encoding="utf-8")
    for each in (folder / "docs").rglob("*.md"):
        each.write_text(titled(each.read_text(encoding="utf-8")), encoding="utf-8")
    paths = ", ".join(str(path) for path in SOURCES)
    (folder / "mkdocs.yml").write_text(config.replace("paths: []", f"paths: [{paths}]"), encoding="utf-8")


def render(folder: Path) -> None:
    """Run the renderer, which takes a broken link for an error, without a network if the system can do that."""
    command = [*_without_network(), "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(_COLOURS.sub("", done.stdout + done.stderr.partition("Traceback")[0]))


def _without_network() -> list[str]:
    prefix = ["unshare", "--map-root-user", "--net"]
    able = (
        shutil.which("unshare") and not subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode
    )
    return prefix if able else []


def serve_mermaid_from_here(site: Path) -> None:
    """Have the theme load Mermaid from the site: it names a server of somebody else's. Raise if it names none."""
    found = 0
    for script in (site / "assets" / "javascripts").glob("*.js"):
        text, count = MERMAID.subn(LOCAL_MERMAID, script.read_text(encoding="utf-8"))
        if count:
            script.write_text(text, encoding="utf-8")
            found += count
    if not found:
        sys.exit("the theme no longer loads Mermaid as it did: see tools/website/build.py")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
