"""The corpus of real Windows files, unpacked once per run."""

import os
import shutil
from pathlib import Path

import pytest

CORPUS = Path(os.environ.get("JETCELL_CORPUS") or Path(__file__).parents[3] / "shared/corpus")


class Corpus:
    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        """The unpacked file. Tests must not change it."""
        import pyarrow

        target = self.directory / name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with pyarrow.input_stream(CORPUS / f"{name}.zst", compression="zstd") as packed:
                target.write_bytes(packed.read())
        return target

    def copy(self, name, directory):
        """A copy that a test may change."""
        target = directory / Path(name).name
        shutil.copyfile(self.path(name), target)
        return target


@pytest.fixture(scope="session")
def jetcell_program():
    """The command, for databases that tests need; `cargo test` has built it."""
    program = Path(os.environ.get("JETCELL") or Path(__file__).parents[2] / "target/debug/jetcell")
    if not program.exists():
        pytest.skip(f"no program at {program}; build it with cargo build -p jetcell, or set JETCELL")
    return program


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    if not (CORPUS / "manifest.json").exists():
        if os.environ.get("JETCELL_REQUIRE_CORPUS"):
            pytest.fail(f"no corpus at {CORPUS}")
        pytest.skip(f"no corpus at {CORPUS}; set JETCELL_CORPUS")
    return Corpus(tmp_path_factory.mktemp("corpus"))
