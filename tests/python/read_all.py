"""Dumps every table of an ESE database through one reader that is not ours, as JSON lines.

    read_all.py libesedb|dissect|impacket FILE [--count]

    {"table": name, "columns": [[id, name, type], ...]}      then, for each row in leaf order,
    {"row": [cell, ...]}                                     cells in the order of the columns, and at the end
    {"end": name, "rows": count}

A cell is null, the raw little-endian bytes in hexadecimal, a list of those (multi-value), {"unseen": why} for what
the reader cannot show by design, or {"error": text}. With --count rows are read but not printed.
"""

import json
import struct
import sys

BINARY_TYPES = (9, 11)
TEXT_TYPES = (10, 12)
LONG_TYPES = (11, 12)
GUID_TYPE = 16


def hexed(value):
    return None if value is None else bytes(value).hex()


def guarded(cell, *arguments):
    try:
        return cell(*arguments)
    except Exception as problem:  # every reader raises its own kinds
        return {"error": f"{type(problem).__name__}: {problem}"}


class Libesedb:
    def __init__(self, path):
        import pyesedb

        self.flags = pyesedb.value_flags
        self.file = pyesedb.file()
        self.file.open(path)

    def tables(self):
        for table in self.file.tables:
            columns = [[c.identifier, c.name, c.type] for c in table.columns]
            yield table.name, columns, self.rows(table, columns)

    def rows(self, table, columns):
        for number in range(table.number_of_records):
            record = table.get_record(number)
            yield lambda record=record: [
                guarded(self.cell, record, index, column) for index, column in enumerate(columns)
            ]

    def cell(self, record, index, column):
        if record.is_long_value(index):
            long_value = record.get_value_data_as_long_value(index)
            return hexed(long_value.get_data())
        if record.is_multi_value(index):
            return {"unseen": "libesedb returns multi-values undecoded"}
        if record.get_value_data_flags(index) & self.flags.COMPRESSED:
            return {"unseen": "libesedb returns compressed intrinsic values as stored"}
        return hexed(record.get_value_data(index))


class Dissect:
    def __init__(self, path):
        from dissect.esedb import EseDB, compression
        from dissect.esedb.c_esedb import TAGFLD_HEADER

        self.compression, self.header = compression, TAGFLD_HEADER
        self.database = EseDB(open(path, "rb"))

    def tables(self):
        for table in self.database.tables():
            columns = [[c.identifier, c.name, int(c.type)] for c in table.columns]
            yield table.name, columns, self.rows(table)

    def rows(self, table):
        for record in table.records():
            yield lambda record=record: [guarded(self.cell, record, table, column) for column in table.columns]

    def cell(self, record, table, column):
        # The public getter decodes into Python types; its parts give the bytes.
        data = record._data
        if not column.is_tagged:
            return hexed(data.get(column, raw=True))
        field, value = data._get_tagged(column)
        if value is None or field is None:
            return hexed(value)
        if field.flags & self.header.MultiValues:
            return [hexed(v) for v in data._parse_multivalue(value, field)]
        if field.flags & self.header.Separated:
            return hexed(table.get_long_value(bytes(value)))
        if field.flags & self.header.Compressed:
            return hexed(self.compression.decompress(value))
        return hexed(value)


class Impacket:
    def __init__(self, path):
        import logging

        from impacket import ese

        logging.disable(logging.CRITICAL)
        self.ese = ese
        self.database = ese.ESENT_DB(path)

    def tables(self):
        for name, table in self.database._ESENT_DB__tables.items():
            entries = [(key, entry["Record"]) for key, entry in table["Columns"].items()]
            columns = [[r["Identifier"], text(key), r["ColumnType"]] for key, r in entries]
            yield text(name), columns, self.rows(name, entries)

    def rows(self, name, entries):
        cursor = self.database.openTable(name)
        while cursor is not None:
            try:
                row = self.database.getNextRow(cursor)
            except Exception as problem:
                # The cursor stands on the row that failed; the next call goes on behind it.
                message = {"error": f"{type(problem).__name__}: {problem}"}
                yield lambda message=message: [message for _ in entries]
                continue
            if row is None:
                return
            yield lambda row=row: [guarded(self.cell, row.get(key), record) for key, record in entries]

    def cell(self, value, record):
        kind = record["ColumnType"]
        if value is None:
            return None
        if kind in LONG_TYPES:
            return {"unseen": "impacket does not follow long values"}
        if kind in TEXT_TYPES and isinstance(value, str):
            return value.encode(self.ese.StringCodePages[record["CodePage"]]).hex()
        if kind == GUID_TYPE and len(value) == 16:
            return value.hex()
        if isinstance(value, bytes):
            # Binary columns come as hexadecimal text; so do multi-values of any type, undecoded.
            if kind in BINARY_TYPES or self.ese.ColumnTypeSize[kind] is None:
                return value.decode("ascii")
            return {"unseen": "impacket does not decode multi-values"}
        return struct.pack(self.ese.ColumnTypeSize[kind][1], value).hex()


def text(name):
    return name.decode("cp1252") if isinstance(name, bytes) else name


def main():
    reader = {"libesedb": Libesedb, "dissect": Dissect, "impacket": Impacket}[sys.argv[1]](sys.argv[2])
    count_only = "--count" in sys.argv[3:]
    for name, columns, rows in reader.tables():
        print(json.dumps({"table": name, "columns": columns}))
        count = 0
        for row in rows:
            count += 1
            if not count_only:
                print(json.dumps({"row": row()}))
        print(json.dumps({"end": name, "rows": count}))


if __name__ == "__main__":
    main()
