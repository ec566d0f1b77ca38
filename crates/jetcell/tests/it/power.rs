//! `jetcell power` and `jetcell compare --drives`, with a plug that is a thread.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::cell::Cell;

/// A Tasmota plug on this machine; it ends when this is dropped.
struct Plug {
    server: Arc<tiny_http::Server>,
    serving: Option<thread::JoinHandle<()>>,
}

impl Plug {
    fn new(watts: f64) -> Plug {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let own = server.clone();
        let serving = thread::spawn(move || {
            let answer = format!("{{\"StatusSNS\":{{\"ENERGY\":{{\"Power\":{watts}}}}}}}");
            while let Ok(Some(request)) = own.recv_timeout(Duration::from_secs(60)) {
                let _ = request.respond(tiny_http::Response::from_string(answer.clone()));
            }
        });
        Plug { server, serving: Some(serving) }
    }

    fn meter(&self) -> String {
        format!("tasmota={}", self.server.server_addr().to_ip().unwrap())
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

#[track_caller]
fn run(cell: &Cell, code: i32, words: &[&str]) -> String {
    let output = cell.program(words).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn drives_are_compared_by_mail_load_price_and_energy() {
    let cell = Cell::with_limits();
    for (name, watts) in [("green", 40.0), ("black", 50.0)] {
        let plug = Plug::new(watts);
        let (log, run_dir, dir) = (format!("{name}.csv"), format!("{name}-run"), format!("{name}-db"));
        let record =
            ["power", "record", "--meter", &plug.meter(), "--scope", "server", "--interval", "100ms"];
        let test = [env!("CARGO_BIN_EXE_jetcell"), "test", "performance", "--config", "wide.toml", "--quiet"];
        // A meter that says nothing for a tenth of the time, as a thread that must wait on a busy machine, gives no figure.
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
    assert!(text.contains("70.08 EUR") && text.contains("nothing about a drive alone"), "{text}");

    let entry = |name: &str, price: u32| {
        format!("[[drive]]\nname = \"{name}\"\nrun = \"{name}-run\"\nprice = {price}\n")
    };
    // The other run has measured its power itself.
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
    assert!(refused.starts_with("green.csv: ") && refused.contains("are not in the log"), "{refused}");
}

#[test]
fn tests_of_drives_are_summed_up_by_group() {
    let cell = Cell::new();
    cell.make_dir("a");
    let test = ["disk", "test", "a", "a", "--size", "16MiB", "--seconds", "0.02", "--output", "both"];
    let output = cell.program(&test).output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("O_DIRECT") {
        return eprintln!("skipped: this file system has no direct I/O");
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
    assert!(refused.contains("name a target"), "{refused}");
}

#[test]
fn a_meter_without_a_figure_is_refused_before_the_command_starts() {
    let cell = Cell::new();
    cell.write("old.csv", "kept");
    let (relay, plug) = (Plug::new(0.0), Plug::new(12.5));
    let record = |meter: &str, options: &[&str]| {
        let words = [&["power", "record", "--meter", meter], options, &["--", "touch", "started"]].concat();
        cell.program_refused(&words)
    };
    let server = ["--scope", "server", "--output", "p.csv"];
    for (meter, options, said) in [
        (relay.meter(), &server[..], "0 W"),
        ("tasmota=127.0.0.1:9".into(), &server, "tasmota http://127.0.0.1:9"),
        (plug.meter(), &["--output", "p.csv"], "give its scope"),
        (plug.meter(), &["--scope", "server", "--output", "old.csv"], "old.csv"),
        (plug.meter(), &["--scope", "server", "--output", "p.csv", "--interval", "1h"], "100ms to 10s"),
        ("rapl".into(), &["--scope", "drive", "--output", "p.csv"], "rapl measures processor and memory"),
        ("volt".into(), &server, "is no meter"),
    ] {
        let refused = record(&meter, options);
        assert!(refused.contains(said), "{meter}: {refused}");
    }
    let test = ["test", "performance", "--dir", "db", "--power-meter"];
    let refused = |words: &[&str]| cell.program_refused(&[&test[..], words].concat());
    assert!(refused(&[&relay.meter(), "--power-scope", "server"]).contains("0 W"));
    assert!(refused(&[&plug.meter()]).contains("give its scope"));
    assert!(cell.refused(&["--dir", "db", "--power-scope", "server"]).contains("needs --power-meter"));
    assert!(cell.program_refused(&["power", "energy", "old.csv"]).contains("no column unix_ms"));
    assert!(cell.program_refused(&["compare", "--drives", "old.csv"]).starts_with("old.csv: "));
    // The status of the command is that of the recording.
    let words =
        ["power", "record", "--meter", &plug.meter(), "--scope", "drive", "--output", "p.csv", "--", "false"];
    run(&cell, 1, &words);
    assert!(fs::read_to_string(cell.path("p.csv")).unwrap().lines().count() >= 3);
}
