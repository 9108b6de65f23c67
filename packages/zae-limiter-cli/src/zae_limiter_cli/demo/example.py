"""The manifest that the demo applies by default."""

from pathlib import Path


def example() -> Path:
    """Return the path of the file beside this module; the checkout shows it in `examples`, too."""
    return Path(__file__).with_name("tenant-alpha.limits.yaml")
