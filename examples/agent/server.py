"""A server of MCP with two tools: a dear one that finds pages, and a cheap one that reads them."""

from mcp.server import MCPServer

PAGES = {
    "owls": "Owls hunt at night.",
    "bats": "Bats hear where they fly.",
    "moths": "Moths follow the moon.",
}
server = MCPServer("library")


@server.tool()
async def search(topic: str) -> str:
    """Return the name of the page about a topic."""
    return f"page-{topic}" if topic in PAGES else "nothing found"


@server.tool()
async def fetch(page: str) -> str:
    """Return the text of a page."""
    return PAGES[page.removeprefix("page-")]


if __name__ == "__main__":
    server.run("streamable-http")
