"""The examples of README.md and docs/python.md run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = [Path(__file__).parents[1] / "README.md", Path(__file__).parents[2] / "docs/python.md"]
FILES = {"ual.mdb": "db/4k/ual-hyperv-yearly.mdb"}


def examples():
    texts = [page.read_text() for page in PAGES]
    return re.findall(r"^```python\n(.*?)^```", "\n".join(texts), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(examples())))
def test_an_example_runs(number, corpus, tmp_path):
    code = examples()[number]
    for modules in re.findall(r"^import (.+)$", code, re.MULTILINE):
        for module in modules.split(", "):
            pytest.importorskip(module)
    named = re.findall(r'open\("([^"]+)"\)', code)
    assert named, "an example opens a file"
    for name in named:
        (tmp_path / name).symlink_to(corpus.path(FILES[name]))
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0 and not run.stderr, run.stderr
    assert run.stdout.strip(), "an example prints something"
