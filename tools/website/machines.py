"""Write each page of the site as Markdown too, and ``llms.txt`` and ``llms-full.txt``, which list and contain them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from markdownify import markdownify

_DIRECTIVE: Final = re.compile(r"^::: ", re.MULTILINE)  # of mkdocstrings: the text is in the code
_ARTICLE: Final = re.compile(r"<article[^>]*>(.*)</article>", re.DOTALL)
_PERMALINK: Final = re.compile(r'<a class="headerlink".*?</a>', re.DOTALL)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def write_markdown(docs: Path, site: Path) -> None:
    """Put the Markdown of each page beside its HTML: ``guides/flask/`` is ``guides/flask.md``, too."""
    pages = {path.relative_to(docs): _text(path, docs, site) for path in sorted(docs.rglob("*.md"))}
    for path, text in pages.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text("\n".join(_listed(pages)) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(pages.values()), encoding="utf-8")


def _text(path: Path, docs: Path, site: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if not _DIRECTIVE.search(text):
        return text
    html = (site / path.relative_to(docs).with_suffix("") / "index.html").read_text(encoding="utf-8")
    article = _ARTICLE.search(html)
    if article is None:
        raise LookupError(f"{path}: the page has no article")
    return str(markdownify(_PERMALINK.sub("", article[1]), heading_style="ATX", code_language="python"))


def _listed(pages: dict[Path, str]) -> Iterator[str]:
    yield "# zae-limiter"
    yield ""
    yield "> Rate limits for Python services and applications of language models, kept in one DynamoDB table."
    yield ""
    for path, text in pages.items():
        title = _TITLE.search(text)
        yield f"- [{title[1] if title else path.stem}]({path})"
