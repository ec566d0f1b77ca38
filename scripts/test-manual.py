#!/usr/bin/env python3
"""Runs the command blocks of the manual and the examples of every --help.

    scripts/test-manual.py [--quick] [--program FILE] [--jobs N] [PAGE or COMMAND ...]

Blocks: in each page, every block that begins with ```sh runnable is run by bash, in order, in one empty directory for each page.

Examples: every example of every `--help` is run in the directory that scripts/manual-examples.toml prepares for its command. An example
that cannot be run here (it needs a device, another host, hours) is listed there with the reason. Every other example is run. First, the
options of all examples are parsed.

The short form (`--quick`), which test.sh runs, leaves out the pages and commands that the file marks as long, and begins no block or
example after 60 s. Its last line says how many it left to the long form.

Exit code: 0 all succeeded, 1 some failed, 2 could not run.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "scripts" / "manual-examples.toml"
# Time limit of one block or one example. The long form has simulations that take minutes with a debug build.
TIMEOUT_SECONDS = {"long": 600, "quick": 120}
# Time after which the short form begins no block or example.
QUICK_SECONDS = 60
# Programs that examples use. Without one, the commands whose examples use it are skipped.
TOOLS = ("jq", "man", "openssl", "script", "zstd")


class Failure(Exception):
    """A block or an example failed; the text says where and how."""


time_limit = TIMEOUT_SECONDS["long"]


def run_script(script, directory, program, accepted=(0,)):
    """Runs a script with bash, with the program first in PATH, and returns its output."""
    environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", HOME=str(directory), LC_ALL="C.UTF-8")
    # The session is new, so that everything that a script started can be ended.
    process = subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise Failure(f"no end after {time_limit} s") from None
    if process.returncode not in accepted:
        raise Failure(f"exit code {process.returncode}:\n{output[-2000:]}")
    return output


def runnable_blocks(page):
    """The blocks of a page that are marked as runnable, with the numbers of their first lines."""
    blocks, current = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if current is not None:
            if line.startswith("```"):
                blocks.append((start, "\n".join(current)))
                current = None
            else:
                current.append(line)
        elif line.strip() == "```sh runnable":
            current, start = [], number + 1
    return blocks


class TaskResult:
    """What became of the blocks of a page, or of the examples of a command."""

    def __init__(self):
        self.passed = 0
        # Examples that cannot run here, with the reasons.
        self.not_run = []
        # Number of blocks and examples that the short form leaves out.
        self.left = 0


def test_page(page, program, is_over):
    """Runs the blocks of a page, until the time is over."""
    result = TaskResult()
    with scratch_directory() as directory:
        for line, block in runnable_blocks(page):
            if is_over():
                result.left += 1
                continue
            try:
                run_script(block, directory, program)
            except Failure as failure:
                raise Failure(f"{page.relative_to(ROOT)}:{line}: {failure}") from None
            result.passed += 1
    return result


def help_text(program, words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def examples(program, words=()):
    """All commands with the examples of their --help, in order: pairs of the command's name and its examples."""
    text = help_text(program, words)
    section = re.search(r"^Examples:\n((?:[ ].*\n|\n)*)", text + "\n", re.M)
    found = []
    lines = iter(section.group(1).splitlines() if section else [])
    for line in lines:
        # Examples are indented by two columns, what they do by six.
        if line.startswith("  ") and line[2] != " ":
            while line.endswith("\\"):
                line = line[:-1].rstrip() + " " + next(lines).strip()
            found.append(line.strip())
    yield " ".join(["jetcell", *words]), found
    commands = re.search(r"^(?:Commands|Kinds):\n(.*?)(?:\n\n|\Z)", text, re.S | re.M)
    for name in re.findall(r"^  ([a-z][a-z-]*)(?:  |$)", commands.group(1) if commands else "", re.M):
        if name != "help":
            yield from examples(program, (*words, name))


def commands_in(example):
    """The words of each call of jetcell in an example."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    calls = [[]]
    for word in lexer:
        if word in ("|", "||", "&&", ";", ">", "--"):
            calls.append([])
        else:
            calls[-1].append(word)
    return [words[words.index("jetcell") :] for words in calls if "jetcell" in words]


def parse_failure(program, example):
    """Why an example cannot be typed as it is printed, or None. The options that stand before --help are parsed."""
    if "  " in example:
        return "cannot be copied to a shell: its explanation belongs on the next line"
    for words in commands_in(example):
        process = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True)
        if process.returncode != 0:
            return process.stderr.strip()
    return None


class Examples:
    """The examples of one command, and how manual-examples.toml prepares and changes them."""

    def __init__(self, command, found, section, every):
        self.command, self.found, self.section = command, found, section
        self.setup = section.get("setup", "")
        self.replacements = dict(section.get("replace", {}))
        if not section.get("as_printed"):
            # The replacements of the section come first.
            self.replacements = self.replacements | {
                expression: text for expression, text in every["replace"].items() if expression not in self.replacements
            }

    def matching(self, key, example):
        """The first entry of a list or table in the section that the example begins with."""
        return next((start for start in self.section.get(key, ()) if begins_with(example, start)), None)

    def script(self, example):
        """The example with paths below the working directory, small sizes and short times."""
        script = re.sub(r"(?<![\w:/.~'-])/(?!dev/)(?=[a-z])", "./", example)
        for expression, replacement in self.replacements.items():
            script = re.sub(expression, lambda _, text=replacement: text, script, count=0 if expression != "$" else 1)
        return script

    def run(self, program, variables, is_over):
        """Runs the examples, until the time is over."""
        result, failures = TaskResult(), []
        prepare = exports(variables) + self.setup
        is_fresh = self.section.get("fresh", False)
        with scratch_directory() as base:
            directory = base / "d"
            for example in self.found:
                try:
                    if start := self.matching("not_run", example):
                        result.not_run.append((example, self.section["not_run"][start]))
                        continue
                    if is_over():
                        result.left += 1
                        continue
                    if is_fresh or not directory.exists():
                        shutil.rmtree(directory, ignore_errors=True)
                        directory.mkdir()
                        run_script(prepare, directory, program)
                    script = self.script(example)
                    if self.matching("interrupt", example):
                        script = f"timeout --preserve-status -s INT -k 30 3 {script}"
                    start = self.matching("codes", example)
                    run_script(script, directory, program, self.section["codes"][start] if start else (0,))
                    result.passed += 1
                except Failure as failure:
                    failures.append(f"{self.command}: {example}: {failure}")
        if failures:
            raise Failure("\nFAILED ".join(failures))
        return result


def begins_with(example, start):
    """Whether an example begins with an entry of manual-examples.toml, or is it if the entry ends with `$`."""
    return example == start[:-1] if start.endswith("$") else example.startswith(start)


class scratch_directory:
    """A directory that is removed afterwards."""

    def __enter__(self):
        base = os.environ.get("JETCELL_SCRATCH") or None
        self.path = Path(tempfile.mkdtemp(prefix="jetcell-manual.", dir=base))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def exports(variables):
    """Commands that set variables of a script."""
    return "".join(f"export {name}={shlex.quote(str(path))}\n" for name, path in variables.items())


def unused(found, sections, long_pages):
    """The parts of manual-examples.toml that no page and no example uses."""
    for name in long_pages:
        if not (ROOT / name).is_file() or not runnable_blocks(ROOT / name):
            yield f"{name} has no commands"
    for command, section in sections.items():
        examples_of = next((of for name, of in found if name == command), None)
        if not examples_of:
            yield f"{command} has no examples"
            continue
        for key in ("not_run", "interrupt", "codes"):
            for start in section.get(key, ()):
                if not any(begins_with(example, start) for example in examples_of):
                    yield f"{command}: no example begins with '{start}'"
        for expression in section.get("replace", ()):
            if not any(re.search(expression, example) for example in examples_of):
                yield f"{command}: no example contains '{expression}'"


def missing_tools(section, examples_of):
    """The programs that the examples of a section need and this machine lacks."""
    scripts = "\n".join([section.get("setup", ""), *section.get("replace", {}).values(), *examples_of])
    return [tool for tool in TOOLS if re.search(rf"(^|[|&;(\s]){tool} ", scripts) and not shutil.which(tool)]


def is_required(need):
    return os.environ.get(f"JETCELL_REQUIRE_{need.upper()}") == "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--program", type=Path, default=target / "debug/jetcell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    parser.add_argument("only", nargs="*", metavar="PAGE or COMMAND")
    options = parser.parse_args()
    program = options.program.resolve()
    if not os.access(program, os.X_OK):
        print(f"{program} does not exist: build it first", file=sys.stderr)
        return 2
    end = float("inf")
    if options.quick:
        global time_limit
        time_limit = TIMEOUT_SECONDS["quick"]
        end = time.monotonic() + QUICK_SECONDS
    corpus = Path(os.environ.get("JETCELL_CORPUS", ROOT / "../shared/corpus")).resolve()
    sections = tomllib.loads(EXAMPLES.read_text())
    every, fixtures, pages = sections.pop("all"), sections.pop("fixtures"), sections.pop("pages")
    found = list(examples(program))
    failures = list(unused(found, sections, pages["long"]))
    for failure in failures:
        print(f"FAILED {failure}")
    # Names of pages and commands, and the examples of all commands.
    known, texts = set(), []
    tasks, skipped, left = [], [], 0

    def is_over():
        return time.monotonic() > end

    with scratch_directory() as directory:
        variables = {"FIXTURES": directory, "DATA": ROOT / "crates", "CORPUS": corpus}
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            name = str(page.relative_to(ROOT))
            blocks = runnable_blocks(page)
            if not blocks or options.only and name not in options.only:
                continue
            known.add(name)
            if options.quick and name in pages["long"]:
                left += len(blocks)
                continue
            tasks.append((name, lambda page=page: test_page(page, program, is_over)))
        for command, of in found:
            if not of or options.only and command not in options.only:
                continue
            known.add(command)
            section = sections.get(command, {})
            section = sections.get(section.get("like"), section)
            texts += [(command, example) for example in of]
            if options.quick and section.get("long", False):
                left += sum(Examples(command, of, section, every).matching("not_run", example) is None for example in of)
                continue
            lacks = [("tools", f"{tool} is missing") for tool in missing_tools(section, of)]
            if section.get("corpus") and not corpus.is_dir():
                lacks.append(("corpus", "the corpus of real files is missing"))
            if lacks:
                need, reason = lacks[0]
                if is_required(need):
                    failures.append(f"{command}: {reason}, and JETCELL_REQUIRE_{need.upper()} is set")
                    print(f"FAILED {failures[-1]}")
                skipped.append((need, command, reason))
                continue
            of = Examples(command, of, section, every)
            tasks.append((command, lambda of=of: of.run(program, variables, is_over)))
        if unknown := sorted(set(options.only) - known):
            print(f"no page with commands and no command with examples: {', '.join(unknown)}", file=sys.stderr)
            return 2
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            reasons = pool.map(lambda text: parse_failure(program, text[1]), texts)
            found_wrong = [f"{command}: {example}: {why}" for (command, example), why in zip(texts, reasons) if why]
        for failure in found_wrong:
            print(f"FAILED {failure}")
        failures += found_wrong
        if any(not name.endswith(".md") for name, _ in tasks):
            run_script(exports(variables) + fixtures["setup"], directory, program)
        failures += run_tasks(tasks, options, left)
    note_skipped(skipped)
    return 1 if failures else 0


def run_tasks(tasks, options, left):
    """Runs tasks concurrently, prints how long each took, and returns the failures."""
    failures, total = [], 0

    def timed(task):
        began = time.monotonic()
        return task(), time.monotonic() - began

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(timed, task): name for name, task in tasks}
        for done in concurrent.futures.as_completed(running):
            name = running[done]
            try:
                result, seconds = done.result()
            except Failure as failure:
                failures.append(str(failure))
                print(f"FAILED {failure}", flush=True)
                continue
            total += result.passed
            left += result.left
            if options.quick:
                continue
            parsed = f", {len(result.not_run)} only parsed" if result.not_run else ""
            print(f"{seconds:6.1f} s  {name}: {result.passed} passed{parsed}", flush=True)
            for example, reason in result.not_run:
                print(f"          only parsed, because it {reason}: {example}", flush=True)
    rest = f", {left} left to scripts/test-manual.py without --quick" if options.quick else ""
    print(f"{total} blocks and examples passed, {len(failures)} pages or commands failed{rest}")
    return failures


def note_skipped(skipped):
    """Adds the tests that could not run to the list that test.sh prints."""
    path = os.environ.get("JETCELL_SKIPPED")
    if path and skipped:
        with open(path, "a") as file:
            file.writelines("\t".join(line) + "\n" for line in skipped)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
