"""The manifest that the demo applies by default."""

from pathlib import Path


def example() -> Path:
    """The file beside this module, which the checkout shows in `examples`, too."""
    return Path(__file__).with_name("tenant-alpha.limits.yaml")
