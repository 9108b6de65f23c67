"""Turn a page of the repository's root, such as CONTRIBUTING.md, into a page of the site."""

import re
from typing import Final

_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


def page_of_root(text: str, host: str) -> str:
    """Return a page of the repository's root as one of ``docs``: its links lead to pages, or to files at the host."""

    def target(link: re.Match[str]) -> str:
        path = link[1]
        return f"]({path.removeprefix('docs/')})" if path.startswith("docs/") else f"]({host}/blob/main/{path})"

    return _LINK.sub(target, text)
