"""The interface: databases, tables, rows, options, errors, threads, memory."""

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

import jetcell

UAL = "db/4k/ual-hyperv-yearly.mdb"
ADAM = "db/8k/adamntds.dit"
DIRTY = "logsets/srum-win11-dirty/SRUDB.dat"


def test_a_database_is_a_context_manager_and_a_mapping_of_tables(corpus):
    with jetcell.open(corpus.path(UAL)) as database:
        assert database.clean and database.state == "CleanShutdown" and database.page_size == 4096
        assert "CLIENTS" in database and "clients" in database and "none" not in database
        assert len(database) == len(list(database)) == len(database.tables)
        table = database["CLIENTS"]
        assert table.name == table.stored_name == "CLIENTS"
        assert [column.name for column in table.columns][:2] == list(next(iter(table)))[:2]
        assert repr(table).startswith("<jetcell.Table \"CLIENTS\", ") and "tables" in repr(database)
        with pytest.raises(KeyError, match="does not exist"):
            database["none"]
    assert "closed" in repr(database) and "closed" in repr(table)
    for use in (lambda: database.tables, lambda: next(iter(table)), lambda: table.columns, database.check):
        with pytest.raises(jetcell.ClosedError):
            use()
    database.close()


def test_rows_stop_when_the_database_is_closed(corpus):
    database = jetcell.open(corpus.path("db/4k/filehistory-Catalog1.edb"))
    rows = iter(max(database, key=lambda table: sum(1 for _ in table)))
    next(rows)
    database.close()
    with pytest.raises(jetcell.ClosedError):
        for _ in rows:
            pass


def test_the_file_is_closed_with_the_database(corpus):
    path = corpus.path(UAL)

    def opened():
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return sum(1 for link in links if os.path.islink(link) and os.readlink(link) == str(path))

    before = opened()
    database = jetcell.open(path)
    table = database["CLIENTS"]
    assert opened() == before + 1
    database.close()
    assert opened() == before, table


def test_profiles_name_columns_and_values(corpus):
    with jetcell.open(corpus.path(ADAM)) as database:
        table = database["datatable"]
        names = {column.name for column in table.columns}
        assert "objectClass" in names or "objectCategory" in names
        times = [row["whenCreated"] for row in table.rows(columns=["whenCreated"])]
        assert {time.tzinfo for time in times if isinstance(time, datetime)} == {timezone.utc}
    with jetcell.open(corpus.path(ADAM), profile="none") as database:
        assert all(not column.name.startswith("object") for column in database["datatable"].columns)
    with pytest.raises(ValueError, match="srum"):
        jetcell.open(corpus.path(ADAM), profile="SRUM")
    with pytest.raises(ValueError, match="usage monitor"):
        jetcell.open(corpus.path(ADAM), profile="srum")


def test_columns_and_rows_are_selected(corpus):
    with jetcell.open(corpus.path(UAL)) as database:
        table = database["CLIENTS"]
        rows = list(table.rows(columns=["RoleGuid", "*Access"]))
        assert rows and all({"RoleGuid", "LastAccess"} <= set(row) < {c.name for c in table.columns} for row in rows)
        times = sorted(row["LastAccess"] for row in rows)
        middle = times[len(times) // 2]
        later = list(table.rows(since=middle, time_columns=["LastAccess"]))
        earlier = list(table.rows(before=middle, time_columns=["LastAccess"]))
        assert len(later) == sum(time >= middle for time in times) and len(later) + len(earlier) == len(rows)
        assert len(list(table.rows(since="1990-01-01", before="2090-01-01T00:00:00Z"))) == len(rows)
        for wrong, error in [
            ({"columns": ["none*"]}, KeyError),
            ({"since": 5}, TypeError),
            ({"since": "x"}, ValueError),
            ({"time_columns": ["LastAccess"]}, ValueError),
            ({"since": "2020-01-02", "before": "2020-01-01"}, ValueError),
            ({"damage": "ignore"}, ValueError),
            ({"row_limit": 1 << 40}, ValueError),
        ]:
            with pytest.raises(error):
                table.rows(**wrong)


def test_deleted_rows_are_marked(corpus):
    with jetcell.open(corpus.path(DIRTY), allow_dirty=True) as database:
        marks = [row["_deleted"] for table in database for row in table.rows(deleted=True)]
        assert marks.count(False) == sum(1 for table in database for _ in table)
        assert marks.count(True) > 0


def test_carved_rows_are_marked(corpus):
    with jetcell.open(corpus.path(DIRTY), allow_dirty=True) as database:
        for table in database:
            current = list(table)
            rows = list(table.rows(carve=True, damage="report"))
            found = [row for row in rows if row["_confidence"] is not None]
            assert len(rows) - len(found) == len(current)
            for row in found:
                assert row["_confidence"] in {"high", "medium", "low"}
                assert row["_carved_page"] > 0 and 40 <= row["_carved_offset"] < database.page_size


def test_a_dirty_database_is_an_exception_unless_allowed(corpus):
    path = corpus.path(DIRTY)
    with pytest.raises(jetcell.DirtyDatabaseError, match="jetcell recover") as caught:
        jetcell.open(path)
    assert caught.value.path == str(path) and caught.value.page is None
    with jetcell.open(path, allow_dirty=True) as database:
        assert not database.clean and "not shut down cleanly" in str(database.issues[0])


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        jetcell.open(tmp_path / "none.edb")
    assert caught.value.filename == str(tmp_path / "none.edb")
    other = tmp_path / "text.edb"
    other.write_bytes(b"no database " * 10_000)
    for use in (jetcell.open, jetcell.check):
        with pytest.raises(jetcell.NotADatabaseError) as caught:
            use(other)
        assert caught.value.path == str(other)
        assert caught.match("; specify a different database, or restore this database$")
    other.write_bytes(b"")
    with pytest.raises(jetcell.NotADatabaseError):
        jetcell.open(other)
    with pytest.raises(OSError):
        jetcell.open(tmp_path)


@pytest.fixture
def damaged(corpus, tmp_path):
    """A database of which one leaf of the largest table has a bad checksum, and that page."""
    path = corpus.copy("db/4k/filehistory-Catalog1.edb", tmp_path)
    with jetcell.open(path) as database:
        size, good = database.page_size, bytes(path.read_bytes())
        name = max(database, key=lambda table: sum(1 for _ in table)).name
        whole = list(database[name])

    def first_missing(pages):
        """The page that the table misses first if these pages are damaged."""
        content = bytearray(good)
        for page in pages:
            for at in range((page + 1) * size + 60, (page + 1) * size + 400):
                content[at] ^= 0x5A
        path.write_bytes(content)
        try:
            with jetcell.open(path) as database:
                for _ in database[name]:
                    pass
        except jetcell.DamagedError as error:
            return error.page if error.table == name else None

    last = len(good) // size - 2
    for part in range(1, 20):
        page = first_missing(range(last * part // 20, last))
        if page and first_missing([page]) == page:
            return path, name, page, whole
    pytest.fail("no page of the table was found")


def test_a_damaged_page_is_an_exception_or_an_issue(damaged):
    path, name, page, whole = damaged
    with jetcell.open(path) as database:
        before = []
        with pytest.raises(jetcell.DamagedError, match=f"page {page}") as caught:
            before.extend(database[name])
        error = caught.value
        assert (error.path, error.table, error.page) == (str(path), name, page)
        assert before == whole[: len(before)] and len(before) < len(whole)
        copy = pickle.loads(pickle.dumps(error))
        assert (copy.path, copy.page, str(copy)) == (error.path, error.page, str(error))
        rows = database[name].rows(damage="report")
        rest = list(rows)
        assert len(before) <= len(rest) < len(whole) and all(row in whole for row in rest)
        assert [issue.page for issue in rows.issues if issue.missing] == [page]
    report = jetcell.check(path)
    assert not report.sound and page in {finding.page for finding in report.findings}


def test_rows_of_damaged_pages_are_marked(damaged):
    path, name, page, whole = damaged
    with jetcell.open(path) as database:
        rows = database[name].rows(include_damaged=True)
        found = list(rows)
        sound = list(database[name].rows(damage="report"))
        assert sum(not row["_damaged"] for row in found) == len(sound) and len(found) >= len(sound)
        assert page in {issue.page for issue in rows.issues if issue.missing}
        with pytest.raises(ValueError, match="include_damaged"):
            database[name].rows(include_damaged=True, damage="raise")


def test_a_sound_file_has_no_findings_of_damage(corpus):
    with jetcell.open(corpus.path(UAL)) as database:
        report = database.check()
    assert report.sound and report.clean and report.page_size == 4096
    assert all(finding.severity != "error" for finding in report.findings)


def test_no_damage_causes_anything_but_its_exceptions(corpus, tmp_path):
    path = corpus.copy("db/4k/multi.edb", tmp_path)
    good = path.read_bytes()
    outcomes = set()
    for step in range(0, len(good) - 4096, len(good) // 150):
        content = bytearray(good)
        content[step : step + 200] = bytes((7 * index + step) % 256 for index in range(200))
        path.write_bytes(content)
        for damage in ("raise", "report"):
            try:
                with jetcell.open(path, damage=damage, allow_dirty=True) as database:
                    for table in database:
                        for _ in table:
                            pass
                outcomes.add("read")
            except jetcell.JetcellError as error:
                assert error.path == str(path)
                outcomes.add(type(error).__name__)
    assert {"read", "DamagedError"} <= outcomes


def test_values_beyond_the_limit_of_a_row(corpus):
    with jetcell.open(corpus.path("db/8k/decompress_test.edb")) as database:
        table = database["test_table"]
        assert not any(isinstance(value, jetcell.Unreadable) for row in table for value in row.values())
        rows = table.rows(row_limit=1, damage="report")
        key, marker = next(found for row in rows for found in row.items() if isinstance(found[1], jetcell.Unreadable))
        assert "row_limit" in marker.reason and isinstance(marker.stored, bytes)
        with pytest.raises(jetcell.DamagedError, match="row_limit") as caught:
            list(table.rows(row_limit=1))
        assert caught.value.column == key and caught.value.page


def test_threads_read_the_same_rows(corpus):
    with jetcell.open(corpus.path(ADAM)) as database:
        table = database["link_table"]
        alone = list(table)
        with ThreadPoolExecutor(4) as pool:
            assert all(rows == alone for rows in pool.map(lambda _: list(table), range(8)))
        # Several threads may share one iterator: each row is returned once.
        shared, found = iter(table), []
        threads = [threading.Thread(target=lambda: found.extend(shared)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(found) == len(alone) and all(row in alone for row in found)


def test_the_types_describe_the_module():
    package = Path(jetcell.__file__).parent
    assert (package / "py.typed").exists()
    stub = (package / "__init__.pyi").read_text()
    for name in jetcell.__all__:
        assert name in stub, name
        thing = getattr(jetcell, name)
        if isinstance(thing, type) and not issubclass(thing, Exception):
            for member in vars(thing):
                assert member.startswith("__") or f"def {member}(" in stub, f"{name}.{member}"


# The most memory of this program in KiB. `ru_maxrss` would begin with that of the process that started it.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
"""

MEMORY = PEAK + """
import sys, jetcell
with jetcell.open(sys.argv[1], allow_dirty=True) as database:
    first, last = None, None
    for _ in range(int(sys.argv[2])):
        for table in database:
            for row in table: pass
        first = first or peak()
    print(peak() - first)
"""


def test_memory_stays_flat(corpus):
    grown = subprocess.run(
        [sys.executable, "-c", MEMORY, corpus.path("db/4k/filehistory-Catalog1.edb"), "20"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(grown.stdout) < 20_000, "KiB more after 20 readings than after one"


LARGE = PEAK + """
import sys, jetcell, pyarrow
way, path = sys.argv[1:]
with jetcell.open(path) as database:
    table = next(table for table in database if table.name.startswith("Messages"))
    before = peak()
    if way == "rows": count = sum(1 for _ in table)
    if way == "batches": count = sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(table.arrow(batch_rows=500)))
    if way == "list": count = len(list(table))
    print(count, peak() - before)
"""


def test_memory_does_not_grow_with_the_size_of_a_table(jetcell_program, tmp_path):
    """A table of 50 MiB, as `jetcell test` makes it."""
    subprocess.run(
        [
            jetcell_program, "test", "performance", "--dir", tmp_path / "made", "--output", tmp_path / "out", "--size", "48MiB",
            "--page-size", "4KiB", "--tables", "1", "--cache", "8MiB", "--threads", "1", "--duration", "1s", "--quiet",
        ],
        capture_output=True, timeout=300,
    )  # fmt: skip
    (path,) = (tmp_path / "made").glob("*.edb")
    size = path.stat().st_size >> 10
    assert size > 48 << 10

    def grown(way):
        """Rows, and KiB that reading them takes."""
        command = [sys.executable, "-c", LARGE, way, path]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        return [int(number) for number in found.stdout.split()]

    (rows, of_rows), (batched, of_batches), (listed, of_list) = map(grown, ("rows", "batches", "list"))
    assert rows == batched == listed > 10_000
    assert of_list > size / 2, "the measurement does not see memory"
    assert of_rows < 16 << 10 and of_batches < 16 << 10, (of_rows, of_batches)
