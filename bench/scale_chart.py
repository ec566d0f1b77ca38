"""The table and the chart of the figures that bench/scale.py measures."""

import math
from html import escape

SERIES = {"gib": "GiB of one database", "databases": "databases", "threads": "threads of the load"}
FIGURES = {
    "creation_of_fio": "creation over fio's write",
    "creation_processor": "processor s per GiB created",
    "warm_up": "warm-up, s",
    "mix": "mix, I/O per second",
    "verification_of_raw": "verification over raw read",
    "backup_of_raw": "full backup over raw read",
    "recovery": "recovery after a kill, s",
    "memory": "peak memory, MiB",
}
# What a figure should reach, or not exceed.
GOALS = {"creation_of_fio": 0.6, "creation_processor": 1.5, "verification_of_raw": 0.95}
COLUMNS = [
    ("fio_write", "fio write MiB/s", 0), ("creation", "creation MiB/s", 0), ("creation_of_fio", "of fio", 2),
    ("creation_processor", "processor s/GiB", 2), ("warm_up", "warm-up s", 1), ("mix", "mix I/O/s", 0),
    ("mix_processor", "processors in the mix", 2), ("raw_read", "raw read MiB/s", 0),
    ("verification", "verification MiB/s", 0), ("verification_of_raw", "of raw", 2), ("open_of_raw", "--open of raw", 2),
    ("backup", "backup MiB/s", 0), ("backup_of_raw", "of raw", 2),
    ("recovery", "recovery s", 2), ("memory", "memory MiB", 0), ("load", "load", 1),
]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 340, 200, 56, 36, 44
COLOURS = {1: "#b45309", 2: "#1d4ed8"}


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def top(highest):
    """The end of an axis: a round number that is not below the highest value."""
    if highest <= 0:
        return 1
    unit = 10 ** math.floor(math.log10(highest))
    return next(round_one * unit for round_one in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if round_one * unit >= highest)


def table(found):
    head = ["series", "GiB", "databases", "threads", "processors", *(title for _, title, _ in COLUMNS)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for one in found["medians"]:
        point, median = one["point"], one["median"]
        cells = [one["series"], f"{point['gib']:g}", point["databases"], point["threads"], point["processors"]]
        cells += [f"{median[name]:,.{digits}f}" if name in median else "–" for name, _, digits in COLUMNS]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def lines_of(found, series, figure):
    """For each number of processors the points of a figure, by what the series varies: median, lowest and highest."""
    lines = {}
    for one in found["medians"]:
        # Figures that an earlier version did not measure are left out.
        if one["series"] == series and figure in one["median"]:
            median = one["median"][figure]
            at = (one["point"][series], median, *one.get("spread", {}).get(figure, (median, median)))
            lines.setdefault(one["point"]["processors"], []).append(at)
    return {processors: sorted(points) for processors, points in sorted(lines.items())}


def label(name):
    return f"{name} processor{'s' if name > 1 else ''}" if isinstance(name, int) else name


def head(wide, high):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12" fill="#27272a">',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
    ]


def panel(lines, title, below, x, y, goal=None):
    """A chart of lines by their names, of which the numbers of processors have colours of their own. A point is a place and a
    value, and may have the lowest and the highest value. The goal is a broken line."""
    lines = {name: [(*point, point[1], point[1])[:4] for point in points] for name, points in lines.items()}
    places = sorted({at for points in lines.values() for at, *_ in points})
    parts = [f'<g transform="translate({x} {y})">']
    parts.append(f'<text x="{LEFT}" y="18" font-weight="600">{escape(title)}</text>')
    highest = max((high for points in lines.values() for _, _, _, high in points), default=0)
    highest = top(max(highest, goal or 0))
    bottom, right = HEIGHT - BOTTOM, WIDTH - 14
    # Each step on the axis is a factor, so places have equal distances.
    across = lambda at: LEFT + 12 + (right - LEFT - 24) * places.index(at) / max(len(places) - 1, 1)
    up = lambda value: bottom - (bottom - TOP) * value / highest
    for share in (0, 0.5, 1):
        level = up(highest * share)
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}" stroke="#d4d4d8"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{number(highest * share)}</text>')
    for at in places:
        parts.append(f'<text x="{across(at):.1f}" y="{bottom + 17}" text-anchor="middle">{at:g}</text>')
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{bottom + 35}" text-anchor="middle">{escape(below)}</text>')
    if goal is not None:
        level = up(goal)
        parts.append(
            f'<line x1="{LEFT}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}" stroke="#52525b" stroke-dasharray="5 4">'
            f"<title>goal: {number(goal)}</title></line>"
        )
    for order, (name, points) in enumerate(lines.items()):
        colour = COLOURS.get(name, "#047857")
        # Ranges of different lines stand beside each other.
        aside = lambda at: across(at) + 3 * (order - (len(lines) - 1) / 2)
        path = " ".join(f"{aside(at):.1f},{up(value):.1f}" for at, value, _, _ in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, value, low, high in points:
            range_of = f", {number(low)} to {number(high)}" if low < high else ""
            parts.append(
                f'<line x1="{aside(at):.1f}" x2="{aside(at):.1f}" y1="{up(low):.1f}" y2="{up(high):.1f}" stroke="{colour}"/>'
                f'<circle cx="{aside(at):.1f}" cy="{up(value):.1f}" r="3.5" fill="{colour}">'
                f"<title>{label(name)}, {at:g}: {number(value)}{range_of}</title></circle>"
            )
    if not places:
        parts.append(f'<text x="{(LEFT + right) / 2}" y="{(TOP + bottom) / 2}" text-anchor="middle">not measured</text>')
    return parts + ["</g>"]


def chart(found):
    columns, rows = len(SERIES), len(FIGURES)
    wide, high = columns * WIDTH + 16, rows * HEIGHT + 60
    parts = head(wide, high)
    x = LEFT
    for processors in sorted({one["point"]["processors"] for one in found["medians"]}):
        colour = COLOURS.get(processors, "#047857")
        parts.append(f'<line x1="{x}" x2="{x + 20}" y1="20" y2="20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 26}" y="24">{label(processors)}</text>')
        x += 130
    parts.append(f'<line x1="{x}" x2="{x + 20}" y1="20" y2="20" stroke="#52525b" stroke-dasharray="5 4"/>')
    parts.append(f'<text x="{x + 26}" y="24">goal</text>')
    said = f"{rounds(found)}; vertical lines: lowest to highest"
    parts.append(f'<text x="{x + 80}" y="24">{said}</text>')
    for row, figure in enumerate(FIGURES):
        for column, series in enumerate(SERIES):
            lines = lines_of(found, series, figure)
            at = (column * WIDTH, 44 + row * HEIGHT)
            parts += panel(lines, FIGURES[figure], SERIES[series], *at, GOALS.get(figure))
    return "\n".join(parts + ["</svg>"]) + "\n"


def rounds(found):
    """An interrupted run has a round more of its first points."""
    numbers = [one["rounds"] for one in found["medians"]] or [0]
    least, most = min(numbers), max(numbers)
    if most == 1:
        return "one round"
    return f"medians of {most} rounds" if least == most else f"medians of {least} to {most} rounds"


def write(found, output):
    output.mkdir(parents=True, exist_ok=True)
    (output / "scale.svg").write_text(chart(found))
    print(f"{found['version']}; {rounds(found)}\n")
    print(table(found))
    print(f"\nchart: {output / 'scale.svg'}")
