"""Conversion of time arguments."""

from datetime import date, datetime, time, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def ticks(point):
    """Returns the time in units of 100 nanoseconds since 1970. A time without a zone is UTC, and a date is its midnight."""
    if isinstance(point, str):
        # Python 3.10 does not know the Z.
        point = datetime.fromisoformat(point[:-1] + "+00:00" if point.endswith(("Z", "z")) else point)
    if isinstance(point, date) and not isinstance(point, datetime):
        point = datetime.combine(point, time())
    if not isinstance(point, datetime):
        raise TypeError(f"expected a datetime, a date or an ISO 8601 string, not {type(point).__name__}")
    if point.tzinfo is None:
        point = point.replace(tzinfo=timezone.utc)
    return (point - _EPOCH) // timedelta(microseconds=1) * 10
