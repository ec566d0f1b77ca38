//! Measuring: which steps the rows need, in which order, and again when the machine was not quiet.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::TableArgs;
use crate::engines::ALL;
use crate::pulse::Pulse;
use crate::usage::Usage;
use crate::yardstick::{self, Fio};
use crate::{drive, page_io};
use crate::{list_of, remove_lists};

/// Queue depths of row 1.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Engines of several rows.
const OFTEN: [&str; 3] = ["jetcell", "wiredtiger", "rocksdb"];
/// Percent of reads in row 1: that of the mix.
const READ_PERCENT: u32 = 65;
/// Bytes that stay free on the volume.
const SPARE: u64 = 3 << 30;
/// Share of a measurement in which the machine may stand still.
const MOST_STILL: f64 = 0.02;
/// Pause before a measurement is repeated.
const PAUSE: Duration = Duration::from_secs(5);
/// Records per thread of which the durable commits of row 8 change one: few, so that they are cached.
const NEAR: u32 = 20;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Which round.
    pub round: u32,
    /// Others left the processors alone, and the machine ran.
    pub quiet: bool,
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// What was measured.
    pub value: Value,
}

/// What else happened during a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Disturbance {
    /// Cores that others used.
    pub other_cores: f64,
    /// Share of the time in which the machine stood still.
    pub stood_still: f64,
}

/// All measurements so far.
pub struct Rounds<'a> {
    args: &'a TableArgs,
    /// Measurements by step, in order.
    pub samples: BTreeMap<String, Vec<Sample>>,
    /// Engines that could not be built, and why.
    pub missing: BTreeMap<String, String>,
    /// Steps that failed, and how.
    pub failures: BTreeMap<String, String>,
    round: u32,
    /// When each engine's store was last used.
    used: BTreeMap<String, Instant>,
}

impl<'a> Rounds<'a> {
    pub fn new(args: &'a TableArgs) -> Result<Rounds<'a>> {
        let mut missing = BTreeMap::new();
        for engine in ALL {
            let wanted = args.engines.is_empty() || args.engines.iter().any(|name| name == engine);
            if !wanted {
                missing.insert(engine.to_string(), "not asked for".to_string());
            } else if !args.binaries.join(engine).exists() {
                let why = fs::read_to_string(args.binaries.join(format!("{engine}.missing")));
                missing.insert(
                    engine.to_string(),
                    why.unwrap_or_else(|_| "not built".to_string()).trim().to_string(),
                );
            }
        }
        let (samples, failures) = (BTreeMap::new(), BTreeMap::new());
        Ok(Rounds { args, samples, missing, failures, round: 0, used: BTreeMap::new() })
    }

    pub fn size_mib(&self) -> u64 {
        self.args.size_mib.unwrap_or(if self.args.quick { 256 } else { 2048 })
    }

    fn seconds(&self) -> f64 {
        self.args.seconds.unwrap_or(if self.args.quick { 5.0 } else { 15.0 })
    }

    /// Seconds of a yardstick.
    fn short(&self) -> f64 {
        if self.args.quick { 2.0 } else { 5.0 }
    }

    fn has(&self, engine: &str) -> bool {
        !self.missing.contains_key(engine)
    }

    /// One round of all that the rows need. What fails is noted, and the rest goes on.
    pub fn round(&mut self, rows: &[u8]) {
        self.round += 1;
        let any = |wanted: &[u8]| rows.iter().any(|row| wanted.contains(row));
        if any(&[1]) {
            self.page_io();
        }
        for engine in OFTEN {
            let size_only = engine == "jetcell" && any(&[13]);
            if self.has(engine) && (any(&[9]) || size_only) {
                self.step(&format!("load/{engine}"), |rounds| rounds.load(engine));
            }
        }
        if any(&[10]) {
            self.verification();
        }
        let engines_of_8: &[&str] = match () {
            () if any(&[3]) => &ALL,
            () if any(&[5, 6]) => &["jetcell", "wiredtiger"],
            () if any(&[2, 7, 13]) => &["jetcell"],
            () => &[],
        };
        for engine in engines_of_8 {
            if self.has(engine) {
                self.step(&format!("mix8/{engine}"), |rounds| rounds.mix(engine, 8, 1, &[]));
            }
            if *engine == "jetcell" && any(&[2, 7]) {
                self.step("fio-mix", |rounds| rounds.fio_mix("mix8/jetcell"));
            }
        }
        if any(&[7, 8]) {
            self.step("sync", Rounds::sync);
        }
        if any(&[8]) && self.has("jetcell") {
            let near = NEAR.to_string();
            self.step("commits/jetcell", |rounds| {
                rounds.mix("jetcell", 8, 1, &["--durable-percent", "100", "--near", &near])
            });
        }
        for engine in if any(&[4]) { &OFTEN[..] } else { &[] } {
            if self.has(engine) {
                self.step(&format!("mix4x16/{engine}"), |rounds| rounds.mix(engine, 4, 16, &[]));
            }
        }
        if any(&[3]) && self.has("jetcell") {
            // Right behind each other, on the same store: what it has been through changes the work.
            self.step("one-core/jetcell", |rounds| rounds.mix("jetcell", 8, 1, &["@one-core"]));
            self.step("all-cores/jetcell", |rounds| rounds.mix("jetcell", 8, 1, &[]));
            let near = NEAR.to_string();
            let lazy = ["--durable-percent", "0", "--near", &near, "@one-core"];
            self.step("one-core-near/jetcell", |rounds| rounds.mix("jetcell", 8, 1, &lazy));
            self.step("all-cores-near/jetcell", |rounds| rounds.mix("jetcell", 8, 1, &lazy[..4]));
        }
        if any(&[2]) && self.has("jetcell") {
            self.step("mix8-all/jetcell", |rounds| rounds.mix("jetcell", 8, 1, &["--write-all"]));
            self.step("fio-mix-all", |rounds| rounds.fio_mix("mix8-all/jetcell"));
        }
        for engine in if any(&[11]) { &["jetcell", "wiredtiger"][..] } else { &[] } {
            if self.has(engine) {
                self.step(&format!("redo/{engine}"), |rounds| rounds.redo(engine, false));
            }
        }
        if any(&[12]) && self.has("jetcell") {
            self.step("open/jetcell", |rounds| rounds.redo("jetcell", true));
        }
    }

    /// Runs a step, again if others disturbed it or it failed once, and keeps what came of it.
    fn step(&mut self, name: &str, measure: impl Fn(&mut Rounds<'a>) -> Result<Value>) {
        for attempt in 0.. {
            eprint!("  {name} ... ");
            match self.timed(&measure) {
                Err(error) if attempt == 0 => eprintln!("failed, again: {error:#}"),
                Err(error) => {
                    eprintln!("failed: {error:#}");
                    self.failures.insert(name.to_string(), format!("{error:#}"));
                    return;
                }
                Ok((value, disturbance)) => {
                    let quiet =
                        disturbance.other_cores <= self.args.quiet && disturbance.stood_still <= MOST_STILL;
                    if quiet || attempt >= self.args.retries {
                        eprintln!("{}", if quiet { "done".to_string() } else { disturbance.to_string() });
                        let sample = Sample { round: self.round, quiet, disturbance, value };
                        self.samples.entry(name.to_string()).or_default().push(sample);
                        return;
                    }
                    eprintln!("{disturbance}: again");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// A measurement and what disturbed it. Children that measure a window of their own say themselves what others used.
    fn timed(&mut self, measure: &impl Fn(&mut Rounds<'a>) -> Result<Value>) -> Result<(Value, Disturbance)> {
        let pulse = Pulse::start();
        let before = Usage::now(&self.args.dir)?;
        let value = measure(self)?;
        let used = before.until_now(&self.args.dir)?;
        let own = [&value["used"]["other_cores"], &value["other_cores"]];
        let other_cores = own.iter().find_map(|one| one.as_f64()).unwrap_or(used.other_cores);
        Ok((value, Disturbance { other_cores, stood_still: pulse.stood_still() }))
    }

    fn page_io(&mut self) {
        let (ours, theirs) = (self.file("pages.dat"), self.file("fio.dat"));
        let bytes = self.size_mib() << 20;
        let prepared = page_io::prepare(&ours, bytes)
            .and_then(|()| yardstick::prepare(&theirs, bytes))
            .and_then(|()| [&ours, &theirs].into_iter().try_for_each(|file| yardstick::warm(file)));
        if let Err(error) = prepared {
            self.failures.insert("io".to_string(), format!("{error:#}"));
            return;
        }
        for depth in DEPTHS {
            self.step(&format!("io/{depth}"), |rounds| {
                let time = Duration::from_secs_f64(rounds.short());
                Ok(serde_json::to_value(page_io::run(&ours, depth, READ_PERCENT.into(), time)?)?)
            });
            self.step(&format!("fio/{depth}"), |rounds| {
                let fio = Fio {
                    file: &theirs,
                    pattern: "randrw",
                    block: 32 << 10,
                    depth,
                    read_percent: READ_PERCENT.into(),
                    seconds: rounds.short(),
                    warm_up: 0.0,
                };
                Ok(serde_json::to_value(fio.run()?)?)
            });
        }
        // The next rows need the room.
        let _ = fs::remove_file(ours);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.args.dir.join(name)
    }

    /// The read percentage of our engine's own I/O in this round's `mix`.
    fn fio_mix(&mut self, mix: &str) -> Result<Value> {
        let last = self.samples.get(mix).and_then(|samples| samples.last());
        let transfers = &last.context("there is no mix of ours to compare with")?.value["transfers"];
        let count = |name: &str| transfers[name].as_f64().unwrap_or(0.0);
        let read_percent = 100.0 * count("reads") / (count("reads") + count("writes")).max(1.0);
        let file = self.file("fio.dat");
        yardstick::prepare(&file, self.size_mib() << 20)?;
        let fio = Fio {
            file: &file,
            pattern: "randrw",
            block: 32 << 10,
            depth: 8,
            read_percent,
            seconds: self.short(),
            warm_up: drive::warm_up(Duration::from_secs_f64(self.seconds())).as_secs_f64(),
        };
        Ok(serde_json::to_value(fio.run()?)?)
    }

    fn sync(&mut self) -> Result<Value> {
        let time = Duration::from_secs_f64(self.short());
        Ok(serde_json::to_value(yardstick::sync_rate(&self.file("sync.dat"), time)?)?)
    }

    /// Row 10: our check and fio on the same file, and the arithmetic.
    fn verification(&mut self) {
        let database = self.args.dir.join("jetcell/records.edb");
        if !list_of(&self.args.dir, "jetcell", self.size_mib()).exists() && self.has("jetcell") {
            self.step("load/jetcell", |rounds| rounds.load("jetcell"));
        }
        if let Err(error) = yardstick::warm(&database) {
            self.failures.insert("check".to_string(), format!("{error:#}"));
            return;
        }
        self.step("check", |rounds| {
            let bytes = fs::metadata(&database).with_context(|| database.display().to_string())?.len();
            let start = Instant::now();
            let mut checked = 0;
            // For as long as fio reads, which begins anew at the end of the file, too.
            while checked == 0 || start.elapsed().as_secs_f64() < rounds.short() {
                let output = Command::new(&rounds.args.jetcell)
                    .arg("check")
                    .arg(&database)
                    .output()
                    .with_context(|| rounds.args.jetcell.display().to_string())?;
                if !output.status.success() {
                    bail!("jetcell check: {}", String::from_utf8_lossy(&output.stdout).trim());
                }
                checked += bytes;
            }
            Ok(json!({ "bytes_per_second": checked as f64 / start.elapsed().as_secs_f64() }))
        });
        self.step("fio-check", |rounds| {
            let fio = Fio {
                file: &database,
                pattern: "read",
                block: 256 << 10,
                depth: 4,
                read_percent: 100.0,
                seconds: rounds.short(),
                warm_up: 0.0,
            };
            Ok(serde_json::to_value(fio.run()?)?)
        });
        self.step("checksum", |rounds| {
            Ok(serde_json::to_value(page_io::checksum(Duration::from_secs_f64(rounds.short()))?)?)
        });
    }

    fn load(&mut self, engine: &str) -> Result<Value> {
        self.make_room(engine)?;
        self.child(engine, &["load"], &[])
    }

    fn mix(&mut self, engine: &str, threads: u32, updates: u32, more: &[&str]) -> Result<Value> {
        if !list_of(&self.args.dir, engine, self.size_mib()).exists() {
            self.make_room(engine)?;
        }
        let [threads, updates, seconds] =
            [threads.to_string(), updates.to_string(), self.seconds().to_string()];
        let seed = self.round.to_string();
        let mut command = vec!["run", "--json", "--threads", &threads, "--updates-per-txn", &updates];
        command.extend(["--seconds", &seconds, "--seed", &seed]);
        self.child(engine, &command, more)
    }

    /// Kills a process in the middle of its work, and opens its store. `short`: with the log that a restart reads
    /// limited to 20 MiB; otherwise everything since a checkpoint is redone.
    fn redo(&mut self, engine: &str, short: bool) -> Result<Value> {
        if !list_of(&self.args.dir, engine, self.size_mib()).exists() {
            self.load(engine)?;
        }
        let depth = if short { "20" } else { "4096" };
        let updates = if self.args.quick { "10000" } else { "60000" };
        let mut command = vec!["crash", "--threads", "4", "--updates-per-txn", "16", "--updates", updates];
        if short {
            command.push("--no-checkpoint");
        }
        command.extend(["--checkpoint-depth-mib", depth]);
        let crashed = self.child(engine, &command, &[])?;
        let mut opened = self.child(engine, &["recover", "--checkpoint-depth-mib", depth], &[])?;
        opened["updates"] = crashed["updates"].clone();
        Ok(opened)
    }

    /// Runs the binary of an engine; `@one-core` among the further arguments binds it to one processor.
    fn child(&mut self, engine: &str, command: &[&str], more: &[&str]) -> Result<Value> {
        self.used.insert(engine.to_string(), Instant::now());
        let binary = self.args.binaries.join(engine);
        let one_core = more.contains(&"@one-core");
        let mut child = if one_core {
            let mut child = Command::new("taskset");
            child.args(["-c", "0"]).arg(&binary);
            child
        } else {
            Command::new(&binary)
        };
        child.args(command).args(more.iter().filter(|one| **one != "@one-core"));
        child.arg("--engine").arg(engine).arg("--dir").arg(&self.args.dir);
        child.arg("--size-mib").arg(self.size_mib().to_string());
        let output = child.stdin(Stdio::null()).output().with_context(|| binary.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        // A crash ends in a signal, after its line.
        let value = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let killed = command.first() == Some(&"crash");
        match value {
            Some(value) if output.status.success() || killed => Ok(value),
            _ if output.status.signal() == Some(9) => bail!("killed, probably for its memory"),
            _ => bail!("{} {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    /// Removes the stores of other engines until one more store fits: first those that few rows need, and of these
    /// the least recently used.
    fn make_room(&mut self, engine: &str) -> Result<()> {
        let need = (self.size_mib() << 20) * 2 + SPARE;
        while free(&self.args.dir)? < need {
            let mut others: Vec<&str> = ALL.iter().filter(|name| **name != engine).copied().collect();
            others.retain(|name| self.args.dir.join(name).exists());
            others.sort_by_key(|name| (OFTEN.contains(name), self.used.get(*name).copied()));
            let Some(oldest) = others.first() else {
                if free(&self.args.dir)? < need - SPARE {
                    bail!("{} has no room for a store of {} MiB", self.args.dir.display(), self.size_mib());
                }
                return Ok(());
            };
            remove_lists(&self.args.dir, oldest)?;
            fs::remove_dir_all(self.args.dir.join(oldest)).context(oldest.to_string())?;
        }
        Ok(())
    }
}

fn free(directory: &Path) -> Result<u64> {
    let volume = rustix::fs::statvfs(directory).with_context(|| directory.display().to_string())?;
    Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let still = self.stood_still * 100.0;
        write!(f, "others used {:.2} cores, the machine stood still for {still:.1} %", self.other_cores)
    }
}
