"""Exceptions of jetcell. A file that cannot be opened raises OSError, as open() does."""


class JetcellError(Exception):
    """Base of all exceptions of this package. What is not known is None.

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
    """Neither copy of the header is one of an ESE database."""


class DirtyDatabaseError(JetcellError):
    """The database was not shut down cleanly, and its pages lack what only the logs hold."""


class DamagedError(JetcellError):
    """A page, a row or a value cannot be read."""


class InUseError(JetcellError):
    """Another process changes the database."""


class ClosedError(JetcellError, ValueError):
    """The database is closed."""


class UnknownNameError(JetcellError, KeyError):
    """There is no such table or column."""

    def __str__(self):
        return self.args[0]
