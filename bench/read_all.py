"""Reads every cell of an ESE database with an independent reader: read_all.py dissect|libesedb FILE."""

import sys


def libesedb(path):
    import pyesedb

    file = pyesedb.file()
    file.open(path)
    for table in (file.get_table(i) for i in range(file.get_number_of_tables())):
        for record in (table.get_record(i) for i in range(table.get_number_of_records())):
            for column in range(record.get_number_of_values()):
                try:
                    if record.is_long_value(column):
                        value = record.get_value_data_as_long_value(column)
                        yield value.get_data() if value else None
                    else:
                        yield record.get_value_data(column)
                except OSError:
                    yield None


def dissect(path):
    from dissect.esedb import EseDB

    with open(path, "rb") as file:
        for table in EseDB(file).tables():
            for record in table.records():
                for column in table.column_names:
                    yield record.get(column)


cells = sum(1 for _ in {"libesedb": libesedb, "dissect": dissect}[sys.argv[1]](sys.argv[2]))
print(cells, "cells", file=sys.stderr)
