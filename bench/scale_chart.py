"""The table and the chart of the figures that bench/scale.py measures."""

from html import escape

SERIES = {"gib": "GiB of one database", "databases": "databases", "threads": "threads of the load"}
FIGURES = {
    "creation_of_fio": "creation over fio's write",
    "creation_processor": "processor s per GiB created",
    "mix": "mix, I/O per second",
    "verification_of_raw": "verification over raw read",
    "recovery": "recovery after a kill, s",
    "memory": "peak memory, MiB",
}
COLUMNS = [
    ("fio_write", "fio write MiB/s", 0), ("creation", "creation MiB/s", 0), ("creation_of_fio", "of fio", 2),
    ("creation_processor", "processor s/GiB", 2), ("warm_up", "warm-up s", 1), ("mix", "mix I/O/s", 0),
    ("mix_processor", "processors in the mix", 2), ("raw_read", "raw read MiB/s", 0),
    ("verification", "verification MiB/s", 0), ("verification_of_raw", "of raw", 2), ("open_of_raw", "--open of raw", 2),
    ("recovery", "recovery s", 2), ("memory", "memory MiB", 0), ("load", "load", 1),
]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 170, 52, 34, 34
COLOURS = {1: "#b45309", 2: "#1d4ed8"}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(found):
    head = ["series", "GiB", "databases", "threads", "processors", *(title for _, title, _ in COLUMNS)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for one in found["medians"]:
        point, median = one["point"], one["median"]
        cells = [one["series"], f"{point['gib']:g}", point["databases"], point["threads"], point["processors"]]
        cells += [f"{median[name]:,.{digits}f}" for name, _, digits in COLUMNS]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def lines_of(found, series, figure):
    """For each number of processors the points of a figure, by what the series varies."""
    lines = {}
    for one in found["medians"]:
        if one["series"] == series:
            at = (one["point"][series], one["median"][figure])
            lines.setdefault(one["point"]["processors"], []).append(at)
    return {processors: sorted(points) for processors, points in sorted(lines.items())}


def label(name):
    return f"{name} processor{'s' if name > 1 else ''}" if isinstance(name, int) else name


def head(wide, high):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11" fill="#27272a">',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
    ]


def panel(lines, title, below, x, y):
    """A chart of lines by their names, of which the numbers of processors have colours of their own."""
    places = sorted({at for points in lines.values() for at, _ in points})
    parts = [f'<g transform="translate({x} {y})">']
    parts.append(f'<text x="{LEFT}" y="16" font-weight="600">{escape(title)}</text>')
    highest = max((value for points in lines.values() for _, value in points), default=0) or 1
    bottom, right = HEIGHT - BOTTOM, WIDTH - 14
    # Each step on the axis is a factor, so places have equal distances.
    across = lambda at: LEFT + 8 + (right - LEFT - 16) * places.index(at) / max(len(places) - 1, 1)
    up = lambda value: bottom - (bottom - TOP) * value / highest
    for share in (0, 0.5, 1):
        level = up(highest * share)
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}" stroke="#d4d4d8"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{number(highest * share)}</text>')
    for at in places:
        parts.append(f'<text x="{across(at):.1f}" y="{bottom + 16}" text-anchor="middle">{at:g}</text>')
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{bottom + 31}" text-anchor="middle">{escape(below)}</text>')
    for name, points in lines.items():
        colour = COLOURS.get(name, "#047857")
        path = " ".join(f"{across(at):.1f},{up(value):.1f}" for at, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, value in points:
            parts.append(
                f'<circle cx="{across(at):.1f}" cy="{up(value):.1f}" r="3" fill="{colour}">'
                f"<title>{label(name)}, {at:g}: {number(value)}</title></circle>"
            )
    return parts + ["</g>"]


def chart(found):
    columns, rows = len(SERIES), len(FIGURES)
    wide, high = columns * WIDTH + 16, rows * HEIGHT + 44
    parts = head(wide, high)
    x = LEFT
    for processors in sorted({one["point"]["processors"] for one in found["medians"]}):
        colour = COLOURS.get(processors, "#047857")
        parts.append(f'<line x1="{x}" x2="{x + 20}" y1="20" y2="20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 26}" y="24">{label(processors)}</text>')
        x += 130
    for row, figure in enumerate(FIGURES):
        for column, series in enumerate(SERIES):
            lines = lines_of(found, series, figure)
            parts += panel(lines, FIGURES[figure], SERIES[series], column * WIDTH, 36 + row * HEIGHT)
    return "\n".join(parts + ["</svg>"]) + "\n"


def write(found, output):
    output.mkdir(parents=True, exist_ok=True)
    (output / "scale.svg").write_text(chart(found))
    rounds = max((one["rounds"] for one in found["medians"]), default=0)
    print(f"{found['version']}; medians of {rounds} rounds\n")
    print(table(found))
    print(f"\nchart: {output / 'scale.svg'}")
