//! Tests of `jetcell power` and `jetcell compare --drives` with a power plug that a thread simulates.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;

/// A simulated Tasmota plug on this machine. It stops when this is dropped.
struct SimulatedPlug {
    server: Arc<tiny_http::Server>,
    serving: Option<thread::JoinHandle<()>>,
}

impl SimulatedPlug {
    fn new(watts: f64) -> SimulatedPlug {
        SimulatedPlug::answering(move |_| format!("{{\"StatusSNS\":{{\"ENERGY\":{{\"Power\":{watts}}}}}}}"))
    }

    /// Creates a plug whose answer depends on the number of earlier requests.
    fn answering(answer: impl Fn(u32) -> String + Send + 'static) -> SimulatedPlug {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let own = server.clone();
        let serving = thread::spawn(move || {
            let mut asked = 0;
            while let Ok(Some(request)) = own.recv_timeout(Duration::from_secs(60)) {
                let _ = request.respond(tiny_http::Response::from_string(answer(asked)));
                asked += 1;
            }
        });
        SimulatedPlug { server, serving: Some(serving) }
    }

    fn meter(&self) -> String {
        format!("tasmota={}", self.server.server_addr().to_ip().unwrap())
    }
}

impl Drop for SimulatedPlug {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

#[track_caller]
fn run(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    let output = cell.program(words).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn drives_are_compared_by_mail_load_price_and_energy() {
    let cell = CellDirectory::with_limits();
    for (name, watts) in [("green", 40.0), ("black", 50.0)] {
        let plug = SimulatedPlug::new(watts);
        let (log, run_dir, dir) = (format!("{name}.csv"), format!("{name}-run"), format!("{name}-db"));
        let record =
            ["power", "record", "--meter", &plug.meter(), "--scope", "server", "--interval", "100ms"];
        let test = [env!("CARGO_BIN_EXE_jetcell"), "test", "performance", "--config", "wide.toml", "--quiet"];
        // A meter that is silent for a tenth of the time gives no result. A thread that has to wait on a busy machine
        // can cause that.
        let load = ["--dir", &dir, "--output", &run_dir, "--size", "32MiB", "--duration", "8s"];
        cell.make_dir(&dir);
        if name == "green" {
            run(&cell, 0, &[&record[..], &["--output", &log, "--"], &test, &load].concat());
        } else {
            let meter = ["--power-meter", &plug.meter(), "--power-scope", "server", "--price-per-kwh", "0.2"];
            run(&cell, 0, &[&test[1..], &load, &meter].concat());
        }
    }
    let measured: Value =
        serde_json::from_str(&fs::read_to_string(cell.path("black-run/result.json")).unwrap()).unwrap();
    let energy = &measured["energy"];
    assert_eq!(
        (energy["watts"].as_f64().map(f64::round), energy["scope"].as_str()),
        (Some(50.0), Some("server"))
    );
    assert!(energy["joules_per_transactional_io"].as_f64().unwrap() > 0.0, "{energy}");
    assert!(
        fs::read_to_string(cell.path("black-run/report.html"))
            .unwrap()
            .contains("Energy per transactional I/O")
    );
    let compared = run(&cell, 0, &["compare", "green-run", "black-run", "--format", "json"]);
    assert!(compared.contains("Energy per I/O, server"), "{compared}");
    let shown = run(
        &cell,
        0,
        &["power", "energy", "green.csv", "--run", "green-run", "--price-per-kwh", "0.2", "--json"],
    );
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let number = |pointer: &str| shown.pointer(pointer).and_then(Value::as_f64).unwrap();
    assert_eq!((number("/energy/watts").round(), number("/energy/kwh_per_year").round()), (40.0, 350.0));
    assert!((0.9..20.0).contains(&number("/seconds")), "{shown}");
    let per_io = number("/joules_per_io") * number("/transactional_iops");
    assert!((per_io - 40.0).abs() < 0.5, "{shown}");
    let text =
        run(&cell, 0, &["power", "energy", "green.csv", "--currency", "EUR", "--price-per-kwh", "0.2"]);
    assert!(text.contains("70.08 EUR") && text.contains("not to a single drive"), "{text}");

    let entry = |name: &str, price: u32| {
        format!("[[drive]]\nname = \"{name}\"\nrun = \"{name}-run\"\nprice = {price}\n")
    };
    // The other run has measured its power during the test.
    let of_log = "power = { log = \"green.csv\" }\n";
    cell.write(
        "drives.toml",
        format!("currency = \"USD\"\n{}{of_log}{}", entry("green", 139), entry("black", 249)),
    );
    let text = run(&cell, 0, &["compare", "--drives", "drives.toml"]);
    for said in [
        "black costs 79.1 % more than green",
        "black draws 25.0 % more than green",
        "Mail load, transactional I/O",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let json: Value =
        serde_json::from_str(&run(&cell, 0, &["compare", "--drives", "drives.toml", "--format", "json"]))
            .unwrap();
    assert!(
        json["drives"][1]["mean_advantage"].is_f64() && json["drives"][1]["joules_per_io"].is_f64(),
        "{json}"
    );
    run(&cell, 0, &["compare", "--drives", "drives.toml", "--format", "html", "--output", "drives.html"]);
    assert!(fs::read_to_string(cell.path("drives.html")).unwrap().contains("<svg"));
    // The log must cover the run.
    let rows = fs::read_to_string(cell.path("green.csv")).unwrap();
    cell.write("green.csv", rows.lines().take(6).collect::<Vec<_>>().join("\n"));
    let refused = cell.program_refused(&["compare", "--drives", "drives.toml"]);
    assert!(refused.starts_with("green.csv: ") && refused.contains("the log does not cover"), "{refused}");
}

#[test]
fn plug_energy_is_measured_and_manual_energy_is_accepted() {
    let cell = CellDirectory::new();
    // The plug reports 4 W. Its counter advances by 0.5 Wh, which is 30 watt-minutes, with each request.
    let plug = SimulatedPlug::answering(|asked| {
        format!("{{\"power\":4,\"is_valid\":true,\"total\":{}}}", asked * 30)
    });
    let meter = plug.meter().replace("tasmota", "shelly1");
    let record = [
        "power",
        "record",
        "--meter",
        &meter,
        "--scope",
        "drive",
        "--interval",
        "100ms",
        "--output",
        "p.csv",
    ];
    run(&cell, 0, &[&record[..], &["--", "sleep", "0.5"]].concat());
    let log = fs::read_to_string(cell.path("p.csv")).unwrap();
    assert!(log.starts_with("unix_ms,watts,joules,scope\n"), "{log}");
    let number = |text: &str, pointer: &str| {
        let shown: Value = serde_json::from_str(text).unwrap();
        shown.pointer(pointer).and_then(Value::as_f64).unwrap()
    };
    let counter = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap();
    let counted: Vec<f64> = log.lines().skip(1).map(counter).collect();
    assert!(counted.len() >= 3 && counted.windows(2).all(|pair| pair[1] - pair[0] == 1800.0), "{log}");
    // The counter has too few steps for a result, so the power is integrated.
    let rows: String = (0..60).map(|at| format!("{},4,{},drive\n", at * 1000, at / 10 * 1800)).collect();
    cell.write("few.csv", format!("unix_ms,watts,joules,scope\n{rows}"));
    let few = run(&cell, 0, &["power", "energy", "few.csv", "--json"]);
    assert!(few.contains("integrated") && number(&few, "/energy/watts") == 4.0, "{few}");
    let rows: String = (0..200).map(|at| format!("{},4,{},drive\n", at * 1000, 1800 * at)).collect();
    cell.write("long.csv", format!("unix_ms,watts,joules,scope\n{rows}"));
    let many = run(&cell, 0, &["power", "energy", "long.csv", "--json"]);
    assert!(many.contains("meter counter") && number(&many, "/energy/watts") == 1800.0, "{many}");
    // Values that a user reads from a display and types in.
    let typed = ["power", "energy", "--kwh", "1.10", "--hours", "27.5", "--scope", "server"];
    let more = ["--price-per-kwh", "0.185", "--currency", "USD", "--output", "out"];
    let text = run(&cell, 0, &[&typed[..], &more].concat());
    let read = |name: &str| fs::read_to_string(cell.path("out").join(name)).unwrap();
    for form in [&text, &read("report.html"), &read("report.md")] {
        for said in
            ["40.0 W", "350.4", "64.82 USD", "entered: kWh", "the whole server", "not to a single drive"]
        {
            assert!(form.replace('\u{a0}', " ").contains(said), "{said}: {form}");
        }
    }
    assert_eq!(number(&read("result.json"), "/energy/watts").round(), 40.0);
    for words in [
        &["power", "energy"][..],
        &["power", "energy", "--kwh", "1", "--hours", "2"],
        &["power", "energy", "--kwh", "0", "--hours", "2", "--scope", "drive"],
        &["power", "energy", "p.csv", "--kwh", "1", "--hours", "2", "--scope", "drive"],
        &["power", "energy", "p.csv", "--output", "out"],
    ] {
        cell.program_refused(words);
    }
}

#[test]
fn ipmitool_queries_a_board_controller() {
    let cell = CellDirectory::new();
    let program = |text: &str| {
        use std::os::unix::fs::PermissionsExt;
        cell.make_dir("bin");
        let path = cell.write("bin/ipmitool", format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let path = format!("{}:{}", cell.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let record = |output: &str| {
        let words = [
            "power",
            "record",
            "--meter",
            "ipmi",
            "--output",
            output,
            "--interval",
            "100ms",
            "--",
            "sleep",
            "0.3",
        ];
        cell.program(&words).env("PATH", &path).output().unwrap()
    };
    program(
        "test \"$*\" = 'dcmi power reading' || exit 1\necho '    Instantaneous power reading:     212 Watts'",
    );
    let output = record("p.csv");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_to_string(cell.path("p.csv")).unwrap();
    let mut rows = log.lines().skip(1);
    assert!(log.lines().count() >= 3 && rows.all(|row| row.ends_with(",212.000000,server")), "{log}");
    for (text, said) in [
        ("echo '    Instantaneous power reading:     0 Watts'", "the controller does not measure power"),
        ("echo 'Could not open device' >&2; exit 1", "ipmitool failed: Could not open device"),
    ] {
        program(text);
        let output = record("none.csv");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(said) && !cell.path("none.csv").exists(), "{stderr}");
    }
}

#[test]
fn a_recording_survives_a_busy_meter_and_ends_with_its_program() {
    use std::os::unix::fs::PermissionsExt;
    let cell = CellDirectory::new();
    cell.make_dir("bin");
    let program = cell.write(
        "bin/ipmitool",
        "#!/bin/sh\ntest -e busy && { echo busy >&2; exit 1; }\n\
         echo '    Instantaneous power reading:     212 Watts'\n",
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", cell.path("bin").display());
    let words = ["power", "record", "--meter", "ipmi", "--output", "p.csv", "--interval", "100ms"];
    let mut recording = cell.program(&words).env("PATH", path).stderr(Stdio::piped()).spawn().unwrap();
    let rows = || fs::read_to_string(cell.path("p.csv")).unwrap_or_default().lines().count();
    let wait_until = |is_reached: &mut dyn FnMut() -> bool| {
        (0..200).any(|_| {
            thread::sleep(Duration::from_millis(100));
            is_reached()
        })
    };
    assert!(wait_until(&mut || rows() >= 3));
    cell.write("busy", "");
    thread::sleep(Duration::from_millis(500));
    let before = rows();
    fs::remove_file(cell.path("busy")).unwrap();
    assert!(wait_until(&mut || rows() > before + 1));
    fs::remove_file(program).unwrap();
    let has_ended = wait_until(&mut || recording.try_wait().unwrap().is_some());
    let _ = recording.kill();
    assert!(has_ended);
    let output = recording.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(2), 2), "{stderr}");
    assert!(lines[0].contains("ipmitool failed: busy; retrying"), "{stderr}");
    assert!(lines[1].ends_with("; install the package ipmitool"), "{stderr}");
}

/// Writes a program `ipmitool` that removes itself after four readings. Returns the search path for it.
fn failing_ipmitool(cell: &CellDirectory) -> String {
    use std::os::unix::fs::PermissionsExt;
    cell.make_dir("bin");
    let _ = fs::remove_file(cell.path("calls"));
    let program = cell.write(
        "bin/ipmitool",
        "#!/bin/sh\necho >> calls\ntest $(wc -l < calls) -ge 4 && rm \"$0\"\n\
         echo '    Instantaneous power reading:     212 Watts'\n",
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", cell.path("bin").display())
}

#[test]
fn a_meter_that_fails_permanently_is_reported_at_once() {
    let cell = CellDirectory::new();
    let path = failing_ipmitool(&cell);
    let words = ["power", "record", "--meter", "ipmi", "--output", "p.csv", "--interval", "100ms", "--"];
    let command = ["sh", "-c", "sleep 2; echo the command exits >&2"];
    let output = cell.program(&[&words[..], &command].concat()).env("PATH", path).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(2), 2), "{stderr}");
    assert!(
        lines[0].ends_with("; install the package ipmitool; waiting for the command to exit"),
        "{stderr}"
    );
    assert_eq!(lines[1], "the command exits");
}

#[test]
fn the_readings_before_a_failure_of_the_meter_are_kept() {
    let cell = CellDirectory::with_limits();
    let path = failing_ipmitool(&cell);
    let words = ["--config", "wide.toml", "--dir", "d", "--duration", "2s", "--output", "out"];
    let mut command = cell.command(&[&words[..], &["--quiet", "--power-meter", "ipmi"]].concat());
    let output = command.env("PATH", path).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("the result does not contain energy values: meter ipmi: "), "{stderr}");
    assert!(fs::read_to_string(cell.path("out/power.csv")).unwrap().lines().count() >= 4, "{stderr}");
}

/// Runs the list in the documentation, and compares the result with values that were recomputed from the source.
#[test]
fn a_published_comparison_is_reproduced_exactly_with_errors() {
    let cell = CellDirectory::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = root.join("docs/examples/green-and-black.toml");
    let compare =
        |format: &str| run(&cell, 0, &["compare", "--drives", list.to_str().unwrap(), "--format", format]);
    let published = root.join("crates/jetcell-lab/src/drives/drive-comparison.json");
    let published: Value = serde_json::from_str(&fs::read_to_string(published).unwrap()).unwrap();
    let found: Value = serde_json::from_str(&compare("json")).unwrap();
    let close = |pointer: &str, wanted: &str| {
        let number = |all: &Value, pointer: &str| {
            all.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}"))
        };
        let wanted = number(&published, wanted);
        let text = wanted.to_string();
        let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let computed = format!("{:.digits$}", number(&found, pointer));
        assert_eq!(computed.parse(), Ok(wanted), "{pointer}");
    };
    for (at, name) in [(0, "green"), (1, "black")] {
        for (own, wanted) in [
            ("watts", "watts"),
            ("kwh_per_day", "kwh_per_day"),
            ("kwh_per_year", "kwh_per_year"),
            ("cost_per_year", "usd_per_year"),
        ] {
            close(&format!("/drives/{at}/energy/{own}"), &format!("/power/recomputed/{name}/{wanted}"));
        }
        close(&format!("/drives/{at}/joules_per_io"), &format!("/derived/joules_per_io/{name}"));
    }
    close("/drives/1/premium/more_percent", "/claims/1/correct_premium_pct");
    close("/drives/1/power/more_percent", "/power/recomputed/black_extra_pct");
    close("/drives/1/power/first_is_less_percent", "/power/recomputed/green_saving_pct");
    close("/claims/0/computed", "/claims/0/correct_more_pct");
    close("/claims/0/printed", "/claims/0/correct_lower_pct");
    close("/claims/1/computed", "/claims/1/correct_premium_pct");
    let findings: Vec<&str> =
        found["claims"].as_array().unwrap().iter().map(|claim| claim["finding"].as_str().unwrap()).collect();
    assert_eq!(findings, ["other_base", "other_base", "contains_an_error", "differs"]);
    assert_eq!(found["claims"][3]["measured_scope"], "server");
    assert_eq!(found["drives"][1]["rows_in_mean"], 7);
    for format in ["markdown", "html", "csv"] {
        let form = compare(format);
        for said in [
            "+26.6",
            "+36.2",
            "+44",
            "+79.1",
            "+24",
            "+25.5",
            "-18.8",
            "-18.",
            "wrong base",
            "the whole server",
        ] {
            // Programs read the exact value, for example 36.240 instead of +36.2.
            let exact = said.trim_start_matches('+');
            assert!(form.contains(if format == "csv" { exact } else { said }), "{format}: {said}: {form}");
        }
    }
    let text = compare("text").split_whitespace().collect::<Vec<_>>().join(" ");
    for said in
        ["\"1.10 KW at 27.5 hours\", which is power", "\"15.180\" without a unit", "431 kWh and 79.74 USD"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn drive_tests_are_summarised_by_group() {
    let cell = CellDirectory::new();
    cell.make_dir("a");
    let test = ["disk", "test", "a", "a", "--size", "16MiB", "--duration", "0.02", "--output", "both"];
    let output = cell.program(&test).output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("O_DIRECT") {
        return skip(TestRequirement::Kernel, "this file system has no direct I/O");
    }
    let stored: Value =
        serde_json::from_str(&fs::read_to_string(cell.path("both/result.json")).unwrap()).unwrap();
    let names = [0, 1].map(|at| stored["targets"][at]["name"].as_str().unwrap().to_string());
    let list: String = names
        .iter()
        .map(|name| format!("[[drive]]\nname = \"{name}\"\ndisk_test = \"both\"\ntarget = \"{name}\"\n"))
        .collect();
    cell.write("drives.toml", &list);
    let text = run(&cell, 0, &["compare", "--drives", "drives.toml"]);
    for said in [
        "Random reads, all sizes",
        "4 KiB writes, all depths",
        "Mixed loads",
        "Transfer, read",
        "Noise could explain",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    cell.write("drives.toml", list.replacen(&format!("target = \"{}\"\n", names[0]), "", 1));
    let refused = cell.program_refused(&["compare", "--drives", "drives.toml"]);
    assert!(refused.contains("specify a target"), "{refused}");
}

#[test]
fn a_meter_without_a_figure_is_refused_before_the_command_starts() {
    let cell = CellDirectory::new();
    cell.write("old.csv", "kept");
    let (relay, plug) = (SimulatedPlug::new(0.0), SimulatedPlug::new(12.5));
    let record = |meter: &str, options: &[&str]| {
        let words = [&["power", "record", "--meter", meter], options, &["--", "touch", "started"]].concat();
        cell.program_refused(&words)
    };
    let server = ["--scope", "server", "--output", "p.csv"];
    for (meter, options, said) in [
        (relay.meter(), &server[..], "0 W"),
        ("tasmota=127.0.0.1:9".into(), &server, "tasmota http://127.0.0.1:9"),
        (plug.meter(), &["--output", "p.csv"], "specify the scope"),
        (plug.meter(), &["--scope", "server", "--output", "old.csv"], "old.csv"),
        (
            plug.meter(),
            &["--scope", "server", "--output", "p.csv", "--interval", "1h"],
            "between 100ms and 10s",
        ),
        ("rapl".into(), &["--scope", "drive", "--output", "p.csv"], "rapl measures processor and memory"),
        ("volt".into(), &server, "is not a valid meter"),
    ] {
        let refused = record(&meter, options);
        assert!(refused.contains(said), "{meter}: {refused}");
    }
    let test = ["test", "performance", "--dir", "db", "--power-meter"];
    let refused = |words: &[&str]| cell.program_refused(&[&test[..], words].concat());
    assert!(refused(&[&relay.meter(), "--power-scope", "server"]).contains("0 W"));
    assert!(refused(&[&plug.meter()]).contains("specify the scope"));
    assert!(cell.refused(&["--dir", "db", "--power-scope", "server"]).contains("requires --power-meter"));
    assert!(cell.program_refused(&["power", "energy", "old.csv"]).contains("does not have a column unix_ms"));
    assert!(cell.program_refused(&["compare", "--drives", "old.csv"]).starts_with("old.csv, line 1: "));
    // The exit status is that of the recording.
    let words =
        ["power", "record", "--meter", &plug.meter(), "--scope", "drive", "--output", "p.csv", "--", "false"];
    run(&cell, 1, &words);
    assert!(fs::read_to_string(cell.path("p.csv")).unwrap().lines().count() >= 3);
}
