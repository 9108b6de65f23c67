"""The manifest that the demo applies by default."""

from pathlib import Path
from typing import Final

NAME: Final = "tenant-alpha.limits.yaml"


def example() -> Path:
    """The file in the wheel; a checkout has it in `examples`, and there alone."""
    packaged = Path(__file__).with_name(NAME)
    return packaged if packaged.exists() else Path(__file__).parents[5] / "examples" / NAME
