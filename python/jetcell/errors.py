"""Exceptions of jetcell. A file that cannot be opened raises OSError, as open() does."""


class JetcellError(Exception):
    """Base of all exceptions of this package. Unknown attributes are None.

    path:   the file
    table:  the table
    page:   the page of the database
    column: the column
    """

    def __init__(self, message, path=None, table=None, page=None, column=None):
        super().__init__(message)
        self.path = path
        self.table = table
        self.page = page
        self.column = column


class NotADatabaseError(JetcellError):
    """Neither copy of the header is an ESE database header."""


class DirtyDatabaseError(JetcellError):
    """The database was not shut down cleanly, and some changes are only in the logs."""


class DamagedError(JetcellError):
    """A page, a row or a value cannot be read."""


class InUseError(JetcellError):
    """Another process has the database open for writing."""


class ClosedError(JetcellError, ValueError):
    """The database is closed."""


class UnknownNameError(JetcellError, KeyError):
    """The table or column does not exist."""

    def __str__(self):
        return self.args[0]
