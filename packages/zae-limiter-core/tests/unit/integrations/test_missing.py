import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "library"),
    [("langchain", "langchain_core"), ("litellm", "litellm"), ("mcp", "mcp"), ("fastmcp", "fastmcp")],
)
def test_a_module_whose_library_is_missing_says_how_to_install_it(module: str, library: str) -> None:
    ask = f"import sys; sys.modules[{library!r}] = None; import zae_limiter.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f'pip install "{library.replace("_", "-")}' in last
