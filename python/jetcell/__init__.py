"""Reads ESE (JET Blue) databases: Active Directory, SRUM, Windows Search, user access logging, web caches and others.

    import jetcell

    with jetcell.open("SRUDB.dat") as database:
        for row in database["ApplicationResourceUsage"]:
            print(row["TimeStamp"], row["AppId"], row["ForegroundBytesRead"])

Tables and their arrow() are Arrow streams (__arrow_c_stream__), which polars, pyarrow, DuckDB and pandas take as they are:

    polars.DataFrame(database["ApplicationResourceUsage"])
"""

from ._jetcell import (
    ArrowRows,
    CheckReport,
    Column,
    Database,
    Finding,
    Issue,
    Rows,
    Table,
    Unreadable,
    __version__,
    check,
    open,
)
from .errors import (
    ClosedError,
    DamagedError,
    DirtyDatabaseError,
    InUseError,
    JetcellError,
    NotADatabaseError,
    UnknownNameError,
)

__all__ = [
    "ArrowRows",
    "CheckReport",
    "ClosedError",
    "Column",
    "DamagedError",
    "Database",
    "DirtyDatabaseError",
    "Finding",
    "InUseError",
    "Issue",
    "JetcellError",
    "NotADatabaseError",
    "Rows",
    "Table",
    "UnknownNameError",
    "Unreadable",
    "__version__",
    "check",
    "open",
]
