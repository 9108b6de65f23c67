"""Put generated text between the markers of a page: ``<!-- name -->`` and ``<!-- end -->``."""


def fill(page: str, name: str, text: str) -> str:
    """Return the page with the text between its markers. Raise ``ValueError`` where they are not there once."""
    before, rest = page.split(f"<!-- {name} -->\n")
    return f"{before}<!-- {name} -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
