#!/usr/bin/env python3
"""Measures the load of many hosts on a coordinator and its NATS server: messages, memory, processor time.

    bench/fleet.py                        4, 64 and 1,000 hosts
    bench/fleet.py --hosts 4,1000 --output docs/images/fleet.svg

One process (the example `joiners` of jetcell-fleet) simulates all hosts without a load. The hosts reach each barrier at once,
measure for five seconds and deliver a real result. Rates are per second of measured time, and do not depend on its length.
Prints a table and writes a chart. Requires nats-server. JETCELL=FILE and JOINERS=FILE replace the release builds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from scale_chart import HEIGHT, WIDTH, head, panel

ROOT = Path(__file__).resolve().parent.parent
PORT, MONITOR = 42229, 42230
TICKS = os.sysconf("SC_CLK_TCK")


def built(variable, *arguments, path):
    if variable in os.environ:
        return os.environ[variable]
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", *arguments], check=True, cwd=ROOT)
    return ROOT / "target/release" / path


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def served():
    with urllib.request.urlopen(f"http://127.0.0.1:{MONITOR}/varz") as answer:
        return json.load(answer)


class Snapshot:
    """What has happened so far."""

    def __init__(self, coordinator, server):
        figures = served()
        self.time = time.monotonic()
        self.coordinator, self.server = processor_seconds(coordinator), processor_seconds(server)
        self.messages, self.bytes = figures["in_msgs"] + figures["out_msgs"], figures["in_bytes"] + figures["out_bytes"]


def measured(count, jetcell, joiners, result, work):
    """The figures of a fleet of this many hosts."""
    directory = work / f"fleet-{count}"
    directory.mkdir()
    (directory / "FLEET.toml").write_text(
        f'name = "many{count}"\nhosts = {count}\noutput = "{directory}/out"\njoin_timeout = "120s"\n[options]\ndirs = ["/srv"]\n')
    server = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(PORT), "-m", str(MONITOR)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    url = f"nats://127.0.0.1:{PORT}"
    log = directory / "coordinator.log"
    try:
        coordinator = subprocess.Popen(
            [jetcell, "fleet", "run", "--config", directory / "FLEET.toml", "--nats", url], stdout=subprocess.DEVNULL,
            stderr=log.open("wb"))
        began = time.monotonic()
        hosts = subprocess.Popen([joiners, f"many{count}", url, str(count), result], stdout=subprocess.DEVNULL)
        while b"Measuring" not in log.read_bytes():
            if coordinator.poll() is not None:
                sys.exit(f"bench/fleet.py: {log.read_text()}")
            time.sleep(0.05)
        joined = time.monotonic() - began
        # Past the lead, and within the five seconds.
        time.sleep(2.5)
        one = Snapshot(coordinator.pid, server.pid)
        time.sleep(3)
        other = Snapshot(coordinator.pid, server.pid)
        took = other.time - one.time
        peak = 0
        while coordinator.poll() is None:
            try:
                peak = max(peak, peak_mib(coordinator.pid))
            except (StopIteration, FileNotFoundError):
                break
            time.sleep(0.05)
        coordinator.wait()
        whole = time.monotonic() - began
        server_peak = peak_mib(server.pid)
        hosts.wait()
    finally:
        server.terminate()
        server.wait()
    found = next((directory / "out").glob("Fleet_*/fleet.json"))
    fleet = json.loads(found.read_text())
    completed = sum(host["outcome"] == "completed" for host in fleet["hosts"])
    return {
        "hosts": count, "completed": completed, "ignored": fleet["messages"]["ignored"],
        "until all measured, s": joined, "whole run, s": whole,
        "messages per second": (other.messages - one.messages) / took,
        "kB per second": (other.bytes - one.bytes) / took / 1000,
        "coordinator, processors": (other.coordinator - one.coordinator) / took,
        "server, processors": (other.server - one.server) / took,
        "coordinator, peak MiB": peak, "server, peak MiB": server_peak,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="4,64,1000")
    parser.add_argument("--output", type=Path, default=ROOT / "target/fleet.svg")
    arguments = parser.parse_args()
    jetcell = built("JETCELL", "-p", "jetcell", "--features", "full", path="jetcell")
    joiners = built("JOINERS", "-p", "jetcell-fleet", "--example", "joiners", path="examples/joiners")
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as work:
        work = Path(work)
        words = [jetcell, "test", "performance", "--dir", work / "db", "--output", work / "run", "--size", "64MiB", "--duration", "5s",
                 "--quiet"]
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [measured(int(count), jetcell, joiners, work / "run/result.json", work) for count in arguments.hosts.split(",")]
    names = list(rows[0])
    print("| " + " | ".join(names) + " |")
    print("|" + " --- |" * len(names))
    for row in rows:
        print("| " + " | ".join(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in row.values()) + " |")
    figures = names[5:]
    wide, high = 3 * WIDTH + 16, 2 * HEIGHT + 16
    parts = head(wide, high)
    for place, figure in enumerate(figures):
        points = {"one fleet": [(row["hosts"], row[figure]) for row in rows]}
        parts += panel(points, figure, "hosts", place % 3 * WIDTH, 8 + place // 3 * HEIGHT)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("\n".join(parts + ["</svg>"]) + "\n")
    print(f"\nchart: {arguments.output}")


if __name__ == "__main__":
    main()
