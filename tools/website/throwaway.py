"""Build the site into a folder that is gone afterwards.

python -m website.throwaway   (with tools on PYTHONPATH; `just site` calls it)
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from . import build

if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        build.main(Path(scratch) / "site")
