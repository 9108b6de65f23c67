"""Draw `zae-limiter top`, as Textual shows it, for the page of the commands.

python -m website.top   (with tools on PYTHONPATH; `just demo-picture` calls it)
"""

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Final

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.live.screen import Look, TopScreen

PICTURE: Final = Path(__file__).parents[2] / "docs" / "assets" / "pictures" / "top.svg"
SIZE: Final = (118, 12)
SECONDS: Final = 100.0  # two half minutes are seen whole, for their bars
_FONT_FACE: Final = re.compile(r"@font-face\s*{[^}]*}\s*")  # each would be fetched from elsewhere


async def drawn(path: Path) -> str:
    """Return the picture of a namespace at work."""
    with SyncRepository.sqlite(path) as repository:
        limiter = SyncRateLimiter(repository)
        _declare(repository)
        for entity_id in ("key-1", "key-2", "key-3", "batch-job"):
            _acquire(limiter, entity_id, 1)
        health = Health(Connection.of_store(f"sqlite:///{path}", source="--store"))
        top = TopScreen(Reader(repository, None, 50), health, Look("refused"), title="shop", every=1.0, options=())
        async with top.run_test(size=SIZE) as pilot:
            for call in range(round(SECONDS / 0.02)):
                _acquire(limiter, f"key-{call % 3 + 1}", 1)
                if call % 40 == 0:
                    _acquire(limiter, "batch-job", 900)
                await pilot.pause(0.02)
            return top.export_screenshot(title="zae-limiter top")


def _declare(repository: SyncRepository) -> None:
    repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 600), Limit.per_minute("tpm", 20_000)])
    repository.create_entity("acme-corp")
    repository.set_limits("acme-corp", [Limit.per_minute("rpm", 120)], "gpt-4")
    for number in range(1, 4):
        repository.create_entity(f"key-{number}", parent_id="acme-corp", cascade=True)


def _acquire(limiter: SyncRateLimiter, entity_id: str, tokens: int) -> None:
    try:
        with limiter.acquire(entity_id, "gpt-4", {"rpm": 1, "tpm": tokens} if tokens > 1 else {"rpm": 1}):
            pass
    except RateLimitExceeded:
        return


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        picture = asyncio.run(drawn(Path(folder) / "limits.db"))
    PICTURE.write_text(_FONT_FACE.sub("", picture))


if __name__ == "__main__":
    main()
