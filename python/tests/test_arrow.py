"""The Arrow stream holds what the rows hold."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import pyarrow
import pytest

import jetcell

FILES = ["db/4k/multi.edb", "db/4k/text.edb", "db/4k/ual-hyperv-yearly.mdb", "db/16k/qmgr-win11-24h2.db"]


def plain(value):
    """A value as both show it: an Arrow column of DateTime has no zone, also for those that are known to be UTC."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("batch_rows", [7, 65536])
def test_batches_hold_the_values_of_the_rows(corpus, name, batch_rows):
    found = 0
    with jetcell.open(corpus.path(name), profile="none", allow_dirty=True) as database:
        for table in database:
            reader = pyarrow.RecordBatchReader.from_stream(table.arrow(batch_rows=batch_rows))
            rows = iter(table)
            for batch in reader:
                assert 0 < batch.num_rows <= batch_rows
                values = {field.name: storage(batch.column(field.name)) for field in batch.schema}
                for at in range(batch.num_rows):
                    row = next(rows)
                    # A list in a column that is not declared multi-valued is text in another column.
                    notes = values["_unreadable"][at] or ""
                    for key, value in row.items():
                        if f"{key}: " in notes:
                            assert values[key][at] is None
                        else:
                            assert plain(values[key][at]) == plain(value), (table.name, key)
                        found += 1
            assert next(rows, None) is None
    assert found > 100


def storage(column):
    """Values of a column; those of uuids as bytes."""
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    return column.to_pylist()


def test_a_table_is_a_stream_that_can_be_read_again(corpus):
    with jetcell.open(corpus.path("db/4k/ual-hyperv-yearly.mdb")) as database:
        table = database["CLIENTS"]
        first, second = pyarrow.table(table), pyarrow.table(table)
        assert first.equals(second) and first.num_rows == sum(1 for _ in table)
        assert pyarrow.types.is_timestamp(first.schema.field("LastAccess").type)
        # The profile's names and addresses are text.
        assert first.schema.field("RoleGuid").type == first.schema.field("Address").type == pyarrow.string()
        rows = list(table.rows(columns=["RoleGuid", "Address"]))
        assert first.select(["RoleGuid", "Address"]).to_pylist() == rows
        schema = pyarrow.schema(table.arrow(columns=["Address"]))
        assert schema.names == ["Address", "_unreadable"]
        # A stream that no consumer takes is released with its capsule.
        table.__arrow_c_stream__()


def test_currency_is_a_decimal_or_an_integer(corpus):
    for form, kind in (("decimal", Decimal), ("integer", int)):
        kinds = set()
        with jetcell.open(corpus.path("db/8k/adamntds.dit"), profile="none", currency=form) as database:
            for column in database["datatable"].columns:
                if column.type == "Currency":
                    for row in database["datatable"].rows(columns=[column.name]):
                        value = row[column.name]
                        kinds |= {type(one) for one in (value if isinstance(value, list) else [value])}
                    if kinds > {type(None)}:
                        break
        assert kinds - {type(None)} == {kind}


def test_never_is_null_in_a_column_of_times(corpus):
    with jetcell.open(corpus.path("db/8k/ntds-initial.dit")) as database:
        table = database["datatable"]
        wanted = ["whenCreated", "objectSid", "sAMAccountName"]
        rows = list(table.rows(columns=wanted))
        arrow = pyarrow.table(table.arrow(columns=wanted))
        assert arrow.schema.field("whenCreated").type == pyarrow.timestamp("us", "UTC")
        never = [at for at, row in enumerate(rows) if isinstance(row["whenCreated"], int)]
        assert never
        for at, text in enumerate(arrow["_unreadable"].to_pylist()):
            assert (text is not None) == (at in never)
        assert arrow["objectSid"].to_pylist() == [row["objectSid"] for row in rows]
        assert arrow["sAMAccountName"].to_pylist() == [row["sAMAccountName"] for row in rows]


def test_failures_of_a_stream(corpus):
    database = jetcell.open(corpus.path("db/8k/decompress_test.edb"))
    table = database["test_table"]
    stream = table.arrow(row_limit=10, damage="report")
    assert any(text and "row_limit" in text for text in pyarrow.table(stream)["_unreadable"].to_pylist())
    assert any("row_limit" in str(issue) for issue in stream.issues)
    with pytest.raises(Exception, match="page .*row_limit"):
        pyarrow.table(table.arrow(row_limit=10))
    reader = pyarrow.RecordBatchReader.from_stream(table)
    database.close()
    with pytest.raises(Exception, match="closed"):
        reader.read_all()
    with pytest.raises(ValueError):
        table.arrow(batch_rows=0)


def test_polars_takes_a_table(corpus):
    polars = pytest.importorskip("polars")
    with jetcell.open(corpus.path("db/4k/ual-hyperv-yearly.mdb")) as database:
        frame = polars.DataFrame(database["CLIENTS"])
        assert frame["RoleGuid"].to_list() == [row["RoleGuid"] for row in database["CLIENTS"]]
