#!/usr/bin/env python3
"""Mutation tests of the engine, with one build for all mutants of a sample.

  scripts/mutants-at-once.py all --sample 250 --seed 1    250 mutants of all folders, chosen at random
  scripts/mutants-at-once.py btree                        all mutants of one folder
  scripts/mutants-at-once.py btree log --sample 50        50 mutants of two folders
  scripts/mutants-at-once.py all --named FILE             mutants whose names contain a line of FILE
  scripts/mutants-at-once.py all --sample 250 --quick     only with the tests that take less than a second
  scripts/mutants-at-once.py all --sample 250 --engine    only with the tests of the engine's package
  scripts/mutants-at-once.py all --sample 250 --resume    goes on with the mutants that have no result yet
  scripts/mutants-at-once.py --table RESULTS...           counts the results of one or more runs, by folder

cargo-mutants lists the mutants (cargo install cargo-mutants). Each function of the sample is written with one variant of
its body per mutant, into a copy of the workspace. The variable JETCELL_MUTANT chooses the variant when a test starts.
scripts/mutants.sh builds each mutant alone. The copy, the builds and the results are in target/mutants-at-once; only one
run at a time can use them. See docs/internals/testing.md.
"""

import argparse
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "target/mutants-at-once"
ENGINE = "crates/ese-engine/src"
FOLDERS = "btree cache log maintenance pages recovery space storage transaction".split()
# Test programs: (build, package folder, target, filter).
PROGRAMS = [
    ("tests", "crates/ese-engine", "ese_engine", []),
    ("tests", "crates/ese-engine", "it", []),
    ("tests", "tests", "system", ["space::", "concurrency::", "snapshots::", "simulation::", "copies::"]),
    ("shuttle", "crates/ese-engine", "ese_engine", ["schedule_tests::"]),
]
BUILDS = {
    "tests": ("--cap-lints allow", ["-p", "ese-engine", "-p", "system-tests", "--lib", "--test", "it", "--test", "system"]),
    "shuttle": ("--cap-lints allow --cfg shuttle", ["-p", "ese-engine", "--lib"]),
}
# Without the tests of other packages and those under thread schedules.
ENGINE_BUILDS = {"tests": (BUILDS["tests"][0], ["-p", "ese-engine", "--lib", "--test", "it"])}
# Tests that take less processor time run together.
QUICK = 1.0
# A test hangs if it takes five times the processor time that it takes without a mutant, and at least this time in
# seconds, or if it takes no processor time for a minute. So it does not matter whether the machine is busy.
SHORTEST_LIMIT = 10.0
LIMIT_FACTOR = 5
IDLE = 60.0
IDLE_USE = 0.05
MEMORY = 12 << 30
NOT_VIABLE = ["does not compile", "cannot be built at once"]
SWITCH = """//! Which mutant is on: see scripts/mutants-at-once.py.
use std::sync::atomic::{AtomicU32, Ordering};

static ON: AtomicU32 = AtomicU32::new(u32::MAX);

/// Number of the mutant that `JETCELL_MUTANT` names; 0 without one.
#[inline]
pub(crate) fn on() -> u32 {
    match ON.load(Ordering::Relaxed) {
        u32::MAX => read(),
        on => on,
    }
}

#[cold]
fn read() -> u32 {
    let on = std::env::var("JETCELL_MUTANT").ok().and_then(|on| on.parse().ok()).unwrap_or(0);
    ON.store(on, Ordering::Relaxed);
    on
}
"""
# Comments, strings and characters, in which braces do not count. A lifetime is not a character.
OPAQUE = r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\u\{[^}]*\}|\\x..|\\.|[^'\\])'"""
TOKEN = re.compile(rf"(?:{OPAQUE})|([{{}}])", re.DOTALL)


def folder_of(mutant):
    return mutant["file"].removeprefix(ENGINE + "/").split("/")[0]


def list_mutants(folders):
    command = ["cargo", "mutants", "--list", "--json"]
    for name in FOLDERS if folders == ["all"] else folders:
        if not (ROOT / ENGINE / name).is_dir():
            sys.exit(f"{ENGINE} has no folder {name}")
        command += ["--file", f"{ENGINE}/{name}/**/*.rs"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if listed.returncode != 0:
        sys.exit("cargo mutants --list failed; if it is missing: cargo install cargo-mutants")
    # Constants cannot depend on a variable.
    mutants = [group_result_as_result(mutant) for mutant in json.loads(listed.stdout) if mutant["function"]]
    return [mutant for mutant in mutants if "with GroupResult::" not in mutant["name"]]


def group_result_as_result(mutant):
    """cargo-mutants does not know that `GroupResult` is a `Result`."""
    value = re.fullmatch(r"GroupResult::new\((.+)\)", mutant["replacement"])
    if value:
        name = mutant["name"].replace(mutant["replacement"], f"Ok({value[1]})")
        mutant = {**mutant, "replacement": f"Ok({value[1]})", "name": name}
    return mutant


def choose(mutants, options):
    """The sample in random order, so that the results of a run that was stopped are a random sample, too."""
    if options.named:
        names = [line for line in Path(options.named).read_text().splitlines() if line]
        for name in names:
            if not any(name in mutant["name"] for mutant in mutants):
                sys.exit(f"no mutant is named {name}")
        return [mutant for mutant in mutants if any(name in mutant["name"] for name in names)]
    count = len(mutants) if options.sample is None else min(options.sample, len(mutants))
    return random.Random(options.seed).sample(mutants, count)


def span_of(text, span):
    """Offsets of a span. Its lines and columns count from 1, columns in characters."""
    lines = text.split("\n")
    return [
        sum(len(line) + 1 for line in lines[: place["line"] - 1]) + place["column"] - 1
        for place in (span["start"], span["end"])
    ]


def body_start(text, start, end):
    """Offset of the brace that opens the body of the function that ends at `end`."""
    opened, last = [], None
    for token in TOKEN.finditer(text, start, end):
        if token.group(2) == "{":
            opened.append(token.start())
        elif token.group(2) == "}":
            last = opened.pop()
    return last


def with_variants(text, mutants):
    """The text of a file with a variant of a function's body for each mutant, and the lines of each variant."""
    functions = defaultdict(list)
    for mutant in mutants:
        functions[tuple(span_of(text, mutant["function"]["span"]))].append(mutant)
    outer = []
    for start, end in sorted(functions, key=lambda span: (span[0], -span[1])):
        if outer and end <= outer[-1][1]:
            functions[outer[-1]] += functions[start, end]
        else:
            outer.append((start, end))
    written, line, at, lines = [], 1, 0, {}

    def write(piece):
        nonlocal line
        written.append(piece)
        line += piece.count("\n")

    for start, end in outer:
        body = body_start(text, start, end)
        write(text[at:body] + "{ match crate::mutant::on() {\n")
        function_line = line
        for mutant in functions[start, end]:
            first, last = span_of(text, mutant["span"])
            variant_line = line
            write(f"{mutant['id']} => {text[body:first]}{mutant['replacement']}{text[last:end]}\n")
            lines[mutant["id"]] = (variant_line, line - 1)
        write(f"_ => {text[body:end]}\n}}}}")
        for mutant in functions[start, end]:
            lines[mutant["id"]] += (function_line, line)
        at = end
    write(text[at:])
    return "".join(written), lines


class Workspace:
    """A copy of the workspace, with the mutants of the sample."""

    copy = OUTPUT / "workspace"

    def write(self, mutants):
        """Writes the copy. Returns the lines of each mutant: (file, first, last, first and last of the function). A file
        that stays the same keeps its time, so that it is not compiled again."""
        by_file, lines = defaultdict(list), {}
        for mutant in mutants:
            by_file[mutant["file"]].append(mutant)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        contents = {file: (ROOT / file).read_bytes() for file in files if file and (ROOT / file).is_file()}
        for file, here in by_file.items():
            text, in_file = with_variants(contents[file].decode(), here)
            contents[file] = text.encode()
            lines.update({number: (file, *span) for number, span in in_file.items()})
        contents[f"{ENGINE}/mutant.rs"] = SWITCH.encode()
        library = f"{ENGINE}/lib.rs"
        contents[library] = contents[library].replace(b"\nmod btree;", b"\nmod btree;\nmod mutant;", 1)
        for file, content in contents.items():
            path = self.copy / file
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                shutil.copymode(ROOT / file if (ROOT / file).is_file() else path, path)
        return lines

    def cargo(self, build, *arguments):
        """Runs cargo; returns whether it succeeded, and its messages."""
        environment = dict(os.environ, RUSTFLAGS=BUILDS[build][0], CARGO_TARGET_DIR=str(OUTPUT / build))
        command = ["cargo", *arguments, "--profile", "mutants", "--message-format", "json", "--quiet"]
        done = subprocess.run(command, cwd=self.copy, env=environment, stdout=subprocess.PIPE)
        return done.returncode == 0, [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]

    def drop_what_does_not_compile(self, mutants):
        """Writes the mutants that compile. Errors of borrowing appear only when no others are left: hence the loop."""
        viable, dropped = list(mutants), {}
        while True:
            lines = self.write(viable)
            succeeded, messages = self.cargo("tests", "check", "-p", "ese-engine")
            if succeeded:
                return viable, dropped
            before = len(dropped)
            for message in (each["message"] for each in messages if each["reason"] == "compiler-message"):
                if message["level"] == "error":
                    dropped.update(blamed(message, viable, lines))
            if len(dropped) == before:
                for each in messages:
                    print(each.get("message", {}).get("rendered", ""), file=sys.stderr)
                sys.exit("the copy does not compile, and no mutant is the reason")
            viable = [mutant for mutant in viable if mutant["id"] not in dropped]
            print(f"{len(dropped)} mutants dropped, {len(viable)} left", flush=True)

    def build(self, builds):
        """Builds the test programs. Returns them by build and target."""
        programs = {}
        for build, (_, arguments) in builds.items():
            succeeded, messages = self.cargo(build, "test", "--no-run", *arguments)
            if not succeeded:
                sys.exit(f"the build of {build} failed")
            for each in messages:
                if each["reason"] == "compiler-artifact" and each["executable"]:
                    programs[build, each["target"]["name"]] = each["executable"]
        return programs


def blamed(message, mutants, lines):
    """The mutants in whose lines the compiler found an error, or else those of the function in which it found one. The
    latter cannot be built at once, as if the function returns `impl Trait`."""
    places = [(span["file_name"], span["line_start"]) for span in message["spans"] if span["is_primary"]]
    for reason, part in zip(NOT_VIABLE, (slice(1, 3), slice(3, 5))):
        guilty = {}
        for mutant in mutants:
            file, (first, last) = lines[mutant["id"]][0], lines[mutant["id"]][part]
            if any(place == file and first <= line <= last for place, line in places):
                guilty[mutant["id"]] = reason
        if guilty:
            break
    return guilty


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def processor_time(process):
    """Seconds that a process and its children have used."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Runner:
    """Runs test programs, one at a time."""

    def __init__(self, programs, results):
        self.programs, self.results, self.temporary = programs, results, OUTPUT / "tmp"

    def start(self, program, mutant, arguments):
        build, folder, target, _ = PROGRAMS[program]
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        environment = dict(os.environ, JETCELL_MUTANT=str(mutant), TMPDIR=str(self.temporary))
        environment.setdefault("JETCELL_CORPUS", str(ROOT.parent / "shared/corpus"))
        environment.setdefault("JETCELL_SIM_CUTS", "400")
        environment.setdefault("JETCELL_COPY_HISTORIES", "100")
        environment.setdefault("JETCELL_SCHEDULE_SECONDS", "1")
        return subprocess.Popen(
            [self.programs[build, target], *arguments], cwd=Workspace.copy / folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
            start_new_session=True, preexec_fn=limit_memory)

    def run(self, program, mutant, arguments, limit):
        """Runs tests up to the first failure. Returns the result, the failed test, and the time of each test."""
        process = self.start(program, mutant, arguments)
        used, since, hung, times, failed = [0.0], [time.monotonic()], [], {}, None

        def watch():
            while process.poll() is None:
                busy, wall = processor_time(process) - used[0], time.monotonic() - since[0]
                if busy > limit or wall > IDLE and busy < IDLE_USE:
                    hung.append(True)
                    os.killpg(process.pid, signal.SIGKILL)
                    return
                time.sleep(0.2)

        watcher = threading.Thread(target=watch)
        watcher.start()
        for line in process.stdout:
            found = re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)", line)
            if found:
                now = processor_time(process)
                times[found[1]] = now - used[0]
                used[0], since[0] = now, time.monotonic()
                if found[2] == "FAILED":
                    failed = found[1]
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        code = process.wait()
        watcher.join()
        result = "failed" if failed else "hangs" if hung else "aborts" if code != 0 else "passed"
        return result, failed, times

    def baseline(self):
        """The processor time of each test without a mutant: [program, test, seconds]."""
        builds = "-".join(sorted({target for _, target in self.programs}))
        file, tests = self.results.with_name(f"baseline-{builds}.json"), []
        if file.exists():
            return json.loads(file.read_text())
        for program, (build, _, target, filters) in enumerate(PROGRAMS):
            if (build, target) not in self.programs:
                continue
            result, failed, times = self.run(program, 0, [*filters, "--test-threads", "1"], 600)
            if result != "passed":
                sys.exit(f"without a mutant, {target} {result}: {failed or ''}")
            tests += [(program, test, seconds) for test, seconds in times.items()]
            print(f"{build} {target}: {len(times)} tests, {sum(times.values()):.0f} s of processor time", flush=True)
        file.write_text(json.dumps(tests))
        return tests

    def quick(self, folder):
        """Groups of quick tests: (program, tests, time of the slowest). The quickest and those of the folder are first."""
        groups = defaultdict(list)
        for program, test, seconds in self.baseline():
            if seconds < QUICK:
                groups[seconds > QUICK / 20, not test.startswith(folder + "::"), program].append(test)
        return [(program, tests, QUICK) for (*_, program), tests in sorted(groups.items())]

    def slow(self):
        """The other tests, each alone, the fastest first."""
        slow = [(program, [test], seconds) for program, test, seconds in self.baseline() if seconds >= QUICK]
        return sorted(slow, key=lambda group: group[2])

    def judge(self, mutant, groups):
        """Which test catches the mutant, if any."""
        for program, tests, seconds in groups:
            limit = max(SHORTEST_LIMIT, LIMIT_FACTOR * seconds)
            result, failed, _ = self.run(program, mutant, ["--exact", *tests], limit)
            if result != "passed":
                test = failed or (tests[0] if len(tests) == 1 else None)
                return {"result": "caught", "how": result, "program": PROGRAMS[program][2], "test": test}
        return None


def interval(caught, viable):
    """Wilson's 95 % interval of a share, in per cent."""
    z, share = 1.96, caught / viable
    middle = share + z * z / (2 * viable)
    half = z * math.sqrt(share * (1 - share) / viable + z * z / (4 * viable * viable))
    return [100 * (middle + sign * half) / (1 + z * z / viable) for sign in (-1, 1)]


def table(files):
    latest = {}
    for file in files:
        for line in Path(file).read_text().splitlines():
            result = json.loads(line)
            latest[result["name"]] = result
    counts = defaultdict(Counter)
    for result in latest.values():
        for folder in (folder_of(result), "all"):
            counts[folder][result["result"]] += 1
    print("| folder | viable | caught | not caught | share | 95 % interval |\n| --- | --- | --- | --- | --- | --- |")
    for folder in sorted(counts, key=lambda name: (name == "all", name)):
        viable = sum(count for result, count in counts[folder].items() if result not in NOT_VIABLE)
        caught = counts[folder]["caught"]
        if viable:
            low, high = interval(caught, viable)
            share = f"{100 * caught / viable:.0f} % | {low:.0f}–{high:.0f} %"
            print(f"| {folder} | {viable} | {caught} | {viable - caught} | {share} |")
    for result in sorted(latest.values(), key=lambda result: result["name"]):
        if result["result"] not in ("caught", "does not compile"):
            print(f"{result['result']}: {result['name']}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a folder of crates/ese-engine/src, or all")
    parser.add_argument("--sample", type=int, metavar="NUMBER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--table", nargs="+", metavar="RESULTS")
    options = parser.parse_args()
    if not options.table and not options.folders:
        parser.error("name a folder, or all")
    return options


def main():
    options = arguments()
    if options.table:
        return table(options.table)
    sample = options.sample and f"{options.sample}-seed-{options.seed}"
    parts = (*options.folders, sample, options.named and Path(options.named).stem)
    folder = OUTPUT / "-".join(part for part in parts if part)
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    if not options.resume:
        results.write_text("")
        for baseline in folder.glob("baseline-*.json"):
            baseline.unlink()
    done = {result["name"]: result["result"] for result in map(json.loads, results.read_text().splitlines())}
    mutants = choose(list_mutants(options.folders), options)
    for number, mutant in enumerate(mutants, 1):
        mutant["id"] = number

    def record(mutant, result):
        done[mutant["name"]] = result["result"]
        with results.open("a") as file:
            file.write(json.dumps({"name": mutant["name"], "file": mutant["file"], **result}) + "\n")

    workspace = Workspace()
    candidates = [mutant for mutant in mutants if done.get(mutant["name"]) not in NOT_VIABLE]
    viable, dropped = workspace.drop_what_does_not_compile(candidates)
    for mutant in candidates:
        if mutant["id"] in dropped:
            record(mutant, {"result": dropped[mutant["id"]]})
    runner = Runner(workspace.build(ENGINE_BUILDS if options.engine else BUILDS), results)
    # First the quick tests of all mutants: a run that is stopped then lacks only slow tests of a few.
    stages = [("quick", None, "quick tests pass"), ("slow", "quick tests pass", "not caught")]
    for stage, before, after in stages[: 1 if options.quick else 2]:
        for number, mutant in enumerate(viable, 1):
            if done.get(mutant["name"]) != before:
                continue
            begin = time.monotonic()
            groups = runner.quick(folder_of(mutant)) if stage == "quick" else runner.slow()
            result = runner.judge(mutant["id"], groups) or {"result": after}
            record(mutant, {**result, "seconds": round(time.monotonic() - begin)})
            print(f"{stage} {number}/{len(viable)} {result['result']}: {mutant['name']} "
                  f"{result.get('test') or result.get('how', '')}", flush=True)
    table([results])


main()
