"""Measures rows per second of jetcell and dissect.esedb, reading every cell: read_rows.py FILE [--rounds N] [--limit SECONDS]."""

import argparse
import importlib.metadata
import itertools
import statistics
import time

import jetcell
import pyarrow
from dissect.esedb import EseDB


def dissect(path):
    """The rows of all tables, as dicts of all columns."""
    with open(path, "rb") as file:
        for table in EseDB(file).tables():
            names = table.column_names
            for record in table.records():
                yield {name: record.get(name) for name in names}


def dicts(path):
    with jetcell.open(path, allow_dirty=True, profile="none", damage="report") as database:
        for table in database:
            yield from table


def arrow(path):
    with jetcell.open(path, allow_dirty=True, profile="none", damage="report") as database:
        for table in database:
            for batch in pyarrow.RecordBatchReader.from_stream(table):
                yield from itertools.repeat(None, batch.num_rows)


def rate(reader, path, limit):
    """Rows per second, of all rows or of those that were read within the limit."""
    start, rows = time.perf_counter(), 0
    for rows, _ in enumerate(reader(path), 1):
        if rows % 64 == 0 and time.perf_counter() - start > limit:
            break
    return rows / (time.perf_counter() - start)


parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--limit", type=float, default=20)
arguments = parser.parse_args()
readers = {"dissect": dissect, "dicts": dicts, "arrow": arrow}
print(f"versions  jetcell {jetcell.__version__}, dissect.esedb {importlib.metadata.version('dissect.esedb')}")
rates = {name: [] for name in readers}
for _ in range(arguments.rounds):
    for name, reader in readers.items():
        rates[name].append(rate(reader, arguments.file, arguments.limit))
base = statistics.median(rates["dissect"])
for name, found in rates.items():
    middle = statistics.median(found)
    print(f"{name:<9} {middle:>12,.0f} rows/s, {min(found):,.0f} to {max(found):,.0f}; {middle / base:.1f} x dissect.esedb")
