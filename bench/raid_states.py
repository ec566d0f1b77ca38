"""Prints the table of bench/raid-states.sh, and compares it with the claims of a paper from 2008 (IBM NS3574-0, table 8).

    python3 bench/raid_states.py DIRECTORY MEMBER_IOPS RATE SECONDS

Reads DIRECTORY/LAYOUT/STATE/result.json and DIRECTORY/LAYOUT/STATE.events, writes table.md and table.json there.
"""

import json
import pathlib
import sys

LAYOUTS = {
    "raid10": "RAID 10",
    "raid5": "RAID 5",
    "raid6": "RAID 6",
    "raid-dp": "RAID-DP in place",
    "lun": "RAID-DP, LUN",
}
STATES = {"normal": "normal", "failed-1": "one failed", "failed-2": "two failed", "rebuilding": "rebuilding"}
# Table 8, for the four aspects below.
WORDS = {
    "raid10": ("best", "best", "best", "best"),
    "raid5": ("good", "poor", "poor", "poor"),
    "raid6": ("poor", "poor", "good", "poor"),
    "lun": ("best", "best", "best", "good"),
}
RANK = {"best": 2, "good": 1, "poor": 0}


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def measured(directory, layout, state):
    """The figures of a run; None if there was none."""
    result = directory / layout / state / "result.json"
    if not result.is_file() or not (directory / layout / f"{state}.events").is_file():
        return None
    run = json.loads(result.read_text())
    reads, logs = run["latency"]["database_read"], run["latency"]["log_write"]
    of_run = events(directory / layout / f"{state}.events")
    ended = [event for event in of_run if event["event"] == "test_ended"][-1]
    host = max(ended["host_writes"], 1)
    figures = {
        "layout": layout,
        "state": state,
        "read_ms": reads["mean"] / 1000,
        "read_p99_ms": reads["p99"] / 1000,
        "log_write_ms": logs["mean"] / 1000,
        "log_write_p99_ms": logs["p99"] / 1000,
        "iops": run["achieved_transactional_iops"],
        "operations_per_second": run["operations"]["per_second"],
        "member_writes_per_host_write": ended["member_writes"] / host,
        "member_reads_per_host_write": ended["member_reads"] / host,
        "member_blocks_per_host_block": ended["member_blocks_per_host_block"],
    }
    rebuilds = [event for event in of_run if event["event"] == "rebuild_completed"]
    if state == "rebuilding":
        started = max((event["at"] for event in of_run if event["event"] == "rebuild_started"), default="")
        rebuilds = [event for event in rebuilds if event["at"] > started and event["seconds"] > 0]
        if rebuilds:
            figures["rebuild_seconds"] = rebuilds[-1]["seconds"]
            figures["rebuild_mb_per_second"] = rebuilds[-1]["bytes"] / rebuilds[-1]["seconds"] / 1e6
        else:
            done = [one for one in run["analysis"]["array_samples"] if one["rebuilt_percent"] is not None]
            rebuilt = done[-1]["rebuilt_percent"] - done[0]["rebuilt_percent"] if done else 0
            if rebuilt > 0:
                figures["rebuild_seconds_expected"] = (done[-1]["at_seconds"] - done[0]["at_seconds"]) / rebuilt * 100
    return figures


def table(runs):
    lines = [
        "| layout | state | database reads, ms: mean, p99 | log writes, ms: mean, p99 | I/O per second | operations per second "
        "| writes of members for each write | blocks for each block | rebuild |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        rebuild = "–"
        if "rebuild_seconds" in run:
            rebuild = f"{run['rebuild_mb_per_second']:.2f} MB/s, {run['rebuild_seconds']:.1f} s"
        elif run["state"] == "rebuilding":
            rebuild = "not complete within the run"
            if "rebuild_seconds_expected" in run:
                rebuild += f"; at its rate, {run['rebuild_seconds_expected']:.0f} s"
        lines.append(
            f"| {LAYOUTS[run['layout']]} | {STATES[run['state']]} | {run['read_ms']:.1f}, {run['read_p99_ms']:.1f} "
            f"| {run['log_write_ms']:.1f}, {run['log_write_p99_ms']:.1f} | {run['iops']:.0f} "
            f"| {run['operations_per_second']:.1f} | {run['member_writes_per_host_write']:.2f} "
            f"| {run['member_blocks_per_host_block']:.2f} | {rebuild} |"
        )
    return lines


def aspects(runs):
    """The figure of each layout for each aspect of table 8: smaller is better."""
    by = {(run["layout"], run["state"]): run for run in runs}

    def of(state, value):
        return {layout: value(by[layout, state]) for layout in WORDS if (layout, state) in by}

    def degraded(run):
        return max(run["read_ms"], by.get((run["layout"], "rebuilding"), run)["read_ms"])

    def rebuild(run):
        return run.get("rebuild_seconds", run.get("rebuild_seconds_expected", float("inf")))

    return [
        ("overall performance", "database reads, normal, ms", of("normal", lambda run: run["read_ms"])),
        ("write performance", "writes of members for each write", of("normal", lambda run: run["member_writes_per_host_write"])),
        ("degraded performance", "database reads, one failed or rebuilding, ms", of("failed-1", degraded)),
        ("rebuild time", "seconds under load", of("rebuilding", rebuild)),
    ]


def agreement(aspect, figures):
    """Whether the figures have the order of the words: none that a better word has is more than a tenth worse."""
    wrong = []
    for one, mine in figures.items():
        for other, theirs in figures.items():
            is_better = RANK[WORDS[one][aspect]] > RANK[WORDS[other][aspect]]
            if is_better and (mine > 1.1 * theirs or mine == float("inf") != theirs):
                wrong.append(f"{LAYOUTS[one]} is {WORDS[one][aspect]} and has a worse figure than {LAYOUTS[other]}")
    return wrong


def claims(runs):
    lines = [
        "| aspect of table 8 | figure | " + " | ".join(LAYOUTS[layout] for layout in WORDS) + " | |",
        "| --- | --- |" + " --- |" * (len(WORDS) + 1),
    ]
    found = []
    for number, (name, unit, figures) in enumerate(aspects(runs)):
        wrong = agreement(number, figures)
        known = [value for value in figures.values() if value != float("inf")]
        verdict = "not measured" if len(known) < 2 else "agrees" if not wrong else "differs: " + "; ".join(wrong)
        shown = [
            f"{WORDS[layout][number]}: {figures[layout]:.2f}" if figures.get(layout, float("inf")) != float("inf") else f"{WORDS[layout][number]}: –"
            for layout in WORDS
        ]
        lines.append(f"| {name} | {unit} | " + " | ".join(shown) + f" | {verdict} |")
        found.append({"aspect": name, "figure": unit, "agrees": len(known) > 1 and not wrong, "differs": wrong,
                      "figures": {layout: value for layout, value in figures.items() if value != float("inf")}})
    by = {(run["layout"], run["state"]): run for run in runs}
    lun = {state: by.get(("lun", state)) for state in STATES}
    if lun["normal"] and lun["rebuilding"]:
        normal, rebuilding = lun["normal"], lun["rebuilding"]

        def slower(name):
            return (rebuilding[name] / normal[name] - 1) * 100

        rows = [
            ("disk writes for each host write of RAID-DP: below (figure 7)", 1.0, normal["member_writes_per_host_write"],
             normal["member_writes_per_host_write"] < 1.0),
            ("reads of RAID-DP slower while rebuilding, % (tables 5 and 7)", 48.45, slower("read_ms"), 24 <= slower("read_ms") <= 97),
            ("log writes of RAID-DP slower while rebuilding, % (tables 5 and 7)", 1.69, slower("log_write_ms"), slower("log_write_ms") <= 10),
        ]
        lines += ["", "| claim | paper | measured | |", "| --- | --- | --- | --- |"]
        for name, paper, ours, agrees in rows:
            lines.append(f"| {name} | {paper:.2f} | {ours:.2f} | {'agrees' if agrees else 'differs'} |")
            found.append({"claim": name, "paper": paper, "measured": ours, "agrees": agrees})
    return lines, found


def main():
    directory, iops, rate, seconds = pathlib.Path(sys.argv[1]), *sys.argv[2:5]
    runs = [run for layout in LAYOUTS for state in STATES if (run := measured(directory, layout, state))]
    lines, found = claims(runs)
    head = f"Eight drives of {iops} reads and {iops} writes per second each, {rate} operations per second, {seconds} s for each run:"
    text = "\n".join([head, "", *table(runs), "", *lines]) + "\n"
    (directory / "table.md").write_text(text)
    conditions = {"member_iops": float(iops), "rate": float(rate), "seconds": float(seconds)}
    (directory / "table.json").write_text(json.dumps({**conditions, "runs": runs, "claims": found}, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
