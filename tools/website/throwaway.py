"""Build the site into a folder that is gone afterwards, and look at each page in light colours if Chromium is here.

python -m website.throwaway   (with tools on PYTHONPATH; `just site` calls it)
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from . import build, check

if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        site = Path(scratch) / "site"
        build.main(site)
        sys.exit(check.main(site, quick=True))
