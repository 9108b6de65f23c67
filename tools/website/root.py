"""Turn the links of a page of the repository into those of the site, which has only some of its files."""

import posixpath
import re
from typing import Final

PAGES: Final = {"CONTRIBUTING.md": "contributing.md"}  # pages of the root, and where the site has them
_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
_NAMED_FENCE: Final = re.compile(r"^( *```\w+) (?:([\w./-]+\.\w+)|\w+)$", re.MULTILINE)


def page_of_root(text: str, host: str) -> str:
    """Return a page of the repository's root as one of the top folder of the site."""
    return _linked(text, "", "docs", host)


def page_of_docs(text: str, folder: str, host: str) -> str:
    """Return a page of a ``folder`` such as ``docs/contribute``, whose links may lead out of ``docs``."""
    return _linked(text, folder, folder, host)


def _linked(text: str, folder: str, site_folder: str, host: str) -> str:
    """Lead links to pages of the site, or to files at the host, from where the site has the page."""

    def target(link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        file = posixpath.normpath(posixpath.join(folder, path))
        file = f"docs/{PAGES[file]}" if file in PAGES else file
        if not file.startswith("docs/"):
            return f"]({host}/blob/main/{file}{mark}{anchor})"
        return f"]({posixpath.relpath(file, site_folder)}{mark}{anchor})"

    return _LINK.sub(target, text)


def titled(page: str) -> str:
    """Return a page whose blocks of code have the names of their files as titles: the renderer takes no bare word."""
    return _NAMED_FENCE.sub(lambda found: f'{found[1]} title="{found[2]}"' if found[2] else found[1], page)
