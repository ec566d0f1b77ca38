"""Points in time as arguments."""

from datetime import date, datetime, time, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def ticks(point):
    """100-nanosecond steps since 1970. Times without a zone are UTC; a date is its midnight; text is ISO 8601."""
    if isinstance(point, str):
        # Python 3.10 does not know the Z.
        point = datetime.fromisoformat(point[:-1] + "+00:00" if point.endswith(("Z", "z")) else point)
    if isinstance(point, date) and not isinstance(point, datetime):
        point = datetime.combine(point, time())
    if not isinstance(point, datetime):
        raise TypeError(f"a datetime, a date or a text in ISO 8601 is needed, not {type(point).__name__}")
    if point.tzinfo is None:
        point = point.replace(tzinfo=timezone.utc)
    return (point - _EPOCH) // timedelta(microseconds=1) * 10
