"""Compares what libesedb, dissect.esedb, impacket and Jetcell read of the corpus files, and writes docs/readers.md.

    bench/readers.py [--jetcell FILE] [--limit SECONDS] [--output FILE]

scripts/setup-readers.sh pins the readers' versions. Each reader reads each database in a process of its own, which is
stopped after the limit. tests/python/read_all.py has the rules for libesedb, dissect.esedb and impacket.
"""

import argparse
import collections
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
READERS = ("libesedb", "dissect", "impacket")
PACKAGES = {"libesedb-python": "libesedb", "dissect.esedb": "dissect.esedb", "impacket": "impacket"}
NAME = 40  # columns for the name of a database
PAGE = """# What readers read of real files

{command} wrote this page on {date} with {versions}.
It reads the {files} files of the test corpus.

The table has rows, values (columns of rows that are not null) and lost values (not read or not decoded). libesedb and impacket also
return fill bytes of null columns. dissect.esedb and impacket return deleted rows, unmarked.

```text
{table}
```

Only Jetcell reads the others: `dump header` shows {shown}.
"""


class Counts:
    """Rows, values, and values that were not read."""

    def __init__(self):
        self.rows = self.values = self.lost = 0

    def add(self, cells):
        self.rows += 1
        for cell in cells:
            if is_lost(cell):
                self.lost += 1
            elif cell is not None:
                self.values += 1

    def __str__(self):
        return f"{self.rows:>6} {self.values:>7} {self.lost:>5}"


def is_lost(cell):
    if isinstance(cell, list):
        return any(is_lost(item) for item in cell)
    return isinstance(cell, dict) and not {"unseen", "error", "$unreadable"}.isdisjoint(cell)


def lines(command, limit):
    """The lines that a command prints, as JSON."""
    with tempfile.TemporaryFile() as output:
        ended = subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, timeout=limit, check=False)
        output.seek(0)
        found = [json.loads(line) for line in output]
    return ended.returncode, found


def other_reader(python, reader, database, limit):
    counts = Counts()
    code, found = lines([python, ROOT / "tests/python/read_all.py", reader, database], limit)
    for line in found:
        if "row" in line:
            counts.add(line["row"])
    return counts if code == 0 or counts.rows else None


def jetcell_reader(jetcell, database, limit):
    counts = Counts()
    with tempfile.TemporaryDirectory() as directory:
        command = [jetcell, "export", database, "--profile", "none", "--format", "jsonl", "--output", directory]
        code = subprocess.run(command, capture_output=True, timeout=limit, check=False).returncode
        for table in pathlib.Path(directory).glob("*.jsonl"):
            with open(table, encoding="utf-8") as rows:
                for row in rows:
                    counts.add(json.loads(row).values())
    return counts if code in (0, 1) else None


def cell(read, *arguments):
    try:
        counts = read(*arguments)
    except subprocess.TimeoutExpired:
        return f"more than {arguments[-1]:.0f} s"
    return "cannot be read" if counts is None else str(counts)


def unpack(corpus, file, directory):
    path = pathlib.Path(directory) / pathlib.Path(file["name"]).name
    with open(path, "wb") as output:
        subprocess.run(["zstd", "-dcq", corpus / file["stored"]], stdout=output, check=True)
    return path


def table(arguments, python, databases):
    yield (f"{'':<{NAME}}" + "".join(f"  {name:<20}" for name in (*READERS, "Jetcell"))).rstrip()
    yield f"{'database':<{NAME}}" + f"  {'rows':>6} {'values':>7} {'lost':>5}" * 4
    for file in databases:
        with tempfile.TemporaryDirectory() as directory:
            path = unpack(arguments.corpus, file, directory)
            cells = [cell(other_reader, python, reader, path, arguments.limit) for reader in READERS]
            cells.append(cell(jetcell_reader, arguments.jetcell, path, arguments.limit))
        name = file["name"].removeprefix("db/").removeprefix("logsets/")
        line = f"{name:<{NAME}}" + "".join(f"  {text:<20}" for text in cells)
        print(line, file=sys.stderr)
        yield line.rstrip()


def headers(arguments, others):
    """How many files of each kind `jetcell dump header` shows."""
    kinds = {"log": "logs", "chk": "checkpoints", "jfm": "flush maps"}
    shown = collections.Counter()
    for file in (file for file in others if file["kind"] in kinds):
        with tempfile.TemporaryDirectory() as directory:
            command = [arguments.jetcell, "dump", "header", unpack(arguments.corpus, file, directory)]
            ended = subprocess.run(command, capture_output=True, timeout=arguments.limit, check=False)
        shown[kinds[file["kind"]]] += ended.returncode in (0, 1)
    return " and ".join(", ".join(f"{count} {kind}" for kind, count in shown.items()).rsplit(", ", 1))


def versions(arguments, python):
    listed = subprocess.run([python, "-m", "pip", "list", "--format", "json"], capture_output=True, check=True)
    found = {package["name"]: package["version"] for package in json.loads(listed.stdout)}
    jetcell = subprocess.run([arguments.jetcell, "--version"], capture_output=True, text=True, check=True)
    number = jetcell.stdout.split()[1]
    return ", ".join([f"{shown} {found[name]}" for name, shown in PACKAGES.items()]) + f" and Jetcell {number}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jetcell", type=pathlib.Path, default=ROOT / "target/release/jetcell")
    parser.add_argument("--readers", type=pathlib.Path, default=ROOT / "target/readers-venv")
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT.parent / "shared/corpus")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one file and one reader")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/readers.md")
    arguments = parser.parse_args()
    if not shutil.which("zstd"):
        sys.exit("readers.py: zstd is not installed; install it")
    python = arguments.readers / "bin/python"
    files = json.loads((arguments.corpus / "manifest.json").read_text())["files"]
    databases = [file for file in files if file["kind"] == "db"]
    others = [file for file in files if file["kind"] != "db"]
    page = PAGE.format(
        command=f"`bench/readers.py --limit {arguments.limit:.0f}`",
        date=datetime.date.today().isoformat(),
        versions=versions(arguments, python),
        files=len(files),
        table="\n".join(table(arguments, python, databases)),
        shown=headers(arguments, others),
    )
    arguments.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
