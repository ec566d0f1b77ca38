"""Measures how the cost of a run depends on size, databases, threads and processors. bench/scale.sh calls it."""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import scale_chart

MIB = 1 << 20
GIB = 1 << 30

# What is the same in all points of a series, unless the series varies it.
BASE = {"gib": 1.0, "databases": 1, "threads": 4, "processors": 2}
# Bytes of the file that fio and the raw read use, at most.
RAW_BYTES = 4 * GIB
# Times that raw reads and verifications of the same files follow each other.
TURNS = 2
# Seconds of load before the process is killed.
BEFORE_KILL = 5
# The same for all points: the default grows with the number of databases, and would hold small ones whole.
CACHE = "256MiB"


class Failed(Exception):
    pass


def run(command, processors, **options):
    pinned = ["taskset", "-c", f"0-{processors - 1}", *command]
    return subprocess.run(pinned, capture_output=True, text=True, **options)


def fio(directory, kind, name, size, processors):
    """Sequential rate in MiB/s."""
    command = [
        "fio", "--name=scale", f"--filename={directory}/{name}", f"--size={size}", f"--rw={kind}", "--bs=1M",
        "--iodepth=4", "--ioengine=libaio", "--direct=1", "--output-format=json",
    ]
    if kind == "write":
        command.append("--end_fsync=1")
    done = run(command, processors)
    if done.returncode != 0:
        raise Failed(f"fio: {done.stderr.strip()}")
    # Older versions print warnings in front of the JSON.
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return job[kind]["bw_bytes"] / MIB


def jetcell(point, directory, *options):
    return [
        os.environ["JETCELL"], "test", "performance", "--dir", str(directory / "databases"),
        "--databases", str(point["databases"]), "--threads", str(point["threads"]), "--cache", CACHE, "--quiet", "--force",
        "--growth-percent", "5", "--output", str(directory / "out"), *options,
    ]


def result(directory):
    return json.loads((directory / "out" / "result.json").read_text())


def completed(command, processors, directory):
    done = run(command, processors)
    # 1: a limit was exceeded, which does not matter here.
    if done.returncode not in (0, 1):
        raise Failed(done.stderr.strip() or f"exit code {done.returncode}")
    return result(directory)


def phase(found, name):
    return next((one for one in found["phases"] if one["phase"] == name), {"seconds": 0, "processor_seconds": 0})


def killed(command, processors, directory):
    """Ends a load without warning, a few seconds after its first sample."""
    shutil.rmtree(directory / "out", ignore_errors=True)
    process = subprocess.Popen(
        ["taskset", "-c", f"0-{processors - 1}", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    samples = directory / "out" / "samples.csv"
    try:
        while process.poll() is None:
            if samples.exists() and samples.read_text().count("\n") > 1:
                time.sleep(BEFORE_KILL)
                break
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        elif process.returncode not in (0, 1):
            raise Failed(process.stderr.read().decode().strip())
        process.wait()


def opened(point, directory, duration):
    """A run on existing databases."""
    shutil.rmtree(directory / "out", ignore_errors=True)
    command = jetcell(point, directory, "--open", "--duration", f"{duration}s")
    return [option for option in command if option != "--force"]


def backup(point, directory):
    """Reads all databases from end to end, as a full backup does. Returns bytes per second."""
    command = opened(point, directory, 1)
    command[command.index("performance")] = "backup"
    at = command.index("--duration")
    del command[at:at + 2]
    found = completed(command, point["processors"], directory)
    return found["initial_database_bytes"] / found["backup"]["seconds"]


def summary(series, point, rounds):
    """Medians of the rounds, and the lowest and highest figure."""
    values = {name: [one[name] for one in rounds] for name in rounds[0]}
    return {
        "series": series, "point": point, "rounds": len(rounds),
        "median": {name: statistics.median(all) for name, all in values.items()},
        "spread": {name: [min(all), max(all)] for name, all in values.items()},
    }


def databases(directory):
    """The files, none of whose pages the kernel keeps: without direct I/O, they would be read from memory."""
    files = sorted((directory / "databases").glob("*.edb"))
    for file in files:
        with file.open("rb") as opened_file:
            os.fsync(opened_file.fileno())
            os.posix_fadvise(opened_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return files


def raw_read(point, directory):
    """Rate in MiB/s of reading the files one after the other."""
    files = databases(directory)
    lengths = [file.stat().st_size for file in files]
    names = [str(file.relative_to(directory)) for file in files]
    rates = [fio(directory, "read", *one, point["processors"]) for one in zip(names, lengths)]
    return sum(lengths) / sum(length / rate for length, rate in zip(lengths, rates))


def verified(point, directory):
    """Rates in MiB/s of the verifications before and after a short run."""
    databases(directory)
    found = completed(opened(point, directory, 1), point["processors"], directory)
    examined = found["initial_database_bytes"] / MIB / phase(found, "examine")["seconds"]
    return examined, found["final_database_bytes"] / MIB / phase(found, "verify")["seconds"]


def in_turns(point, directory):
    """Verifications, each between two raw reads of the same files: a disk may serve what was read before faster."""
    reads, examined, after_run = [raw_read(point, directory)], [], []
    for _ in range(TURNS):
        rates = verified(point, directory)
        reads.append(raw_read(point, directory))
        around = (reads[-2] + reads[-1]) / 2
        examined.append(rates[0] / around)
        after_run.append((rates[1], rates[1] / around))
    return {
        "raw_read": statistics.median(reads),
        "verification": statistics.median(rate for rate, _ in after_run),
        "verification_of_raw": statistics.median(share for _, share in after_run),
        "open_of_raw": statistics.median(examined),
    }


def measure(point, directory, duration):
    """All figures of one point."""
    processors, bytes_of_all = point["processors"], int(point["gib"] * GIB)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        raw = min(RAW_BYTES, bytes_of_all)
        write = fio(directory, "write", "raw", raw, processors)
        (directory / "raw").unlink()
        each = max(bytes_of_all // point["databases"], 32 * MIB)
        create = jetcell(point, directory, "--size", f"{each // MIB}MiB", "--duration", f"{duration}s")
        first = completed(create, processors, directory)
        gib = first["initial_database_bytes"] / GIB
        creation = phase(first, "create")
        read = in_turns(point, directory)
        killed(opened(point, directory, 60), processors, directory)
        again = completed(opened(point, directory, 1), processors, directory)
        backed_up = backup(point, directory) / MIB
        return {
            **read,
            "fio_write": write,
            "creation": gib * 1024 / creation["seconds"],
            "creation_of_fio": gib * 1024 / creation["seconds"] / write,
            "creation_processor": creation["processor_seconds"] / gib,
            "warm_up": phase(first, "warm")["seconds"],
            "mix": first["achieved_transactional_iops"],
            "mix_processor": phase(first, "measure")["processor_seconds"] / max(first["measured_seconds"], 0.001),
            "backup": backed_up,
            "backup_of_raw": backed_up / read["raw_read"],
            "recovery": phase(again, "attach")["seconds"],
            "memory": first["peak_resident_bytes"] / MIB,
            "cache": first["plan"]["cache_bytes"] / MIB,
        }
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def points(arguments, room):
    """Each series varies one thing, with every number of processors."""
    numbers = lambda text, kind: [kind(part) for part in text.split(",")]
    varied = {
        "gib": numbers(arguments.sizes, float),
        "databases": numbers(arguments.databases, int),
        "threads": numbers(arguments.threads, int),
    }
    base = {**BASE, "gib": arguments.base}
    for processors in numbers(arguments.processors, int):
        for series, values in varied.items():
            for value in values:
                point = {**base, "processors": processors, series: value}
                # A database has at least 32 MiB.
                point["gib"] = max(point["gib"], point["databases"] / 32)
                # The databases with their growth, and what the runs add before they are killed. The file of fio is gone by then.
                if max(point["gib"] * GIB * 1.1 + GIB, RAW_BYTES) > room:
                    print(f"skipped, not enough free space: {series} {value}", file=sys.stderr)
                    continue
                yield series, point


def main():
    parser = argparse.ArgumentParser(prog="bench/scale.sh", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--dir", default="target/scale/data", help="directory for databases")
    parser.add_argument("--output", default="target/scale", help="directory for scale.json and scale.svg")
    parser.add_argument("--sizes", help="sizes of a database in GiB [1,4,16,64]")
    parser.add_argument("--databases", help="numbers of databases [1,4,16,64]")
    parser.add_argument("--threads", help="numbers of load threads [1,4,16,64]")
    parser.add_argument("--processors", help="numbers of processors [1 and all, at most 2]")
    parser.add_argument("--base", type=float, help="total size of the databases in GiB, if the size is not varied [4]")
    parser.add_argument("--rounds", type=int, help="number of rounds [3]")
    parser.add_argument("--duration", type=int, help="duration of the mix in seconds [30]")
    parser.add_argument("--render", metavar="FILE", help="render an earlier scale.json")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    if arguments.render:
        return scale_chart.write(json.loads(Path(arguments.render).read_text()), output)
    most = min(2, os.cpu_count() or 1)
    small = {"sizes": "0.25,0.5", "databases": "1,4", "threads": "1,4", "base": 0.25, "rounds": 1, "duration": 3}
    large = {
        "sizes": "1,4,16,64", "databases": "1,4,16,64", "threads": "1,4,16,64", "base": 4, "rounds": 3,
        "duration": 30,
    }
    for name, default in (small if arguments.quick else large).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
    arguments.processors = arguments.processors or ",".join(map(str, range(1, most + 1)))
    directory = Path(arguments.dir)
    directory.mkdir(parents=True, exist_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    wanted = list(points(arguments, shutil.disk_usage(directory).free))
    rounds = [[] for _ in wanted]
    version = subprocess.run([os.environ["JETCELL"], "--version"], capture_output=True, text=True).stdout
    version = version.splitlines()[0]
    # Rounds are the outer loop, so that a disturbance does not hit all figures of one point.
    for number in range(arguments.rounds):
        for place, (series, point) in enumerate(wanted):
            load = os.getloadavg()[0]
            print(f"round {number + 1}, {series}: {point}, load of the machine {load:.1f}", file=sys.stderr)
            figures = measure(point, directory / "point", arguments.duration)
            rounds[place].append({**figures, "load": load})
            medians = [summary(*one, found) for one, found in zip(wanted, rounds) if found]
            found = {"version": version, "processors": os.cpu_count(), "medians": medians}
            (output / "scale.json").write_text(json.dumps(found, indent=1) + "\n")
    return scale_chart.write(found, output)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, OSError, ValueError, KeyError) as error:
        print(f"bench/scale.sh: {error}", file=sys.stderr)
        sys.exit(2)
