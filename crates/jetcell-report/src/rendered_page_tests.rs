//! Tests pages in a browser: nothing is clipped on a phone or on paper, no word in a cell is broken, and charts show
//! their values by keyboard and by mouse. If there is no browser, these tests print a message and pass.

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{TestRequirement, skip};

use jetcell_workload::result::RunResult;
use serde_json::{Value, json};

use crate::comparison;
use crate::documented_rule_tests::everything;
use crate::example::{repetitions, samples};
use crate::{RunComparison, StoredRun};

/// Script that examines the page inside a frame and sends its findings to the enclosing page.
const PROBE_SCRIPT: &str = include_str!("rendered.js");

/// Width of a phone screen in CSS pixels.
const PHONE_WIDTH: u32 = 390;
/// Width of a printed A4 page between Chromium's margins, in CSS pixels. US Letter is wider.
const PAPER_WIDTH: u32 = 717;
const SCREEN_WIDTH: u32 = 1400;

/// Maximum run time of the browser in seconds.
const BROWSER_TIMEOUT_SECONDS: &str = "120";

fn browser() -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&directories).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        skip(TestRequirement::Tools, "chromium is not installed");
    }
    found
}

/// Opens each page in a frame of the given width and returns the messages sent by the pages.
fn render_pages(browser: &Path, pages: &[(&str, u32, String)]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = String::from(
        "<body><pre id=looks></pre><script>onmessage = (event) => {\n\
         const text = JSON.stringify(event.data).replace(/[<>&\\u0080-\\uffff]/g, (c) => \
         '\\\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));\n\
         looks.textContent += 'LO' + 'OK ' + text + '\\n'; };</script>",
    );
    for (number, (name, width, page)) in pages.iter().enumerate() {
        let title = format!("<title>{name}</title>");
        let (start, end) = (page.find("<title>").unwrap(), page.find("</title>").unwrap());
        let page = page.replace(&page[start..end + 8], &title);
        let page = page.replace("</body>", &format!("<script>{PROBE_SCRIPT}</script></body>"));
        std::fs::write(dir.path().join(format!("{number}.html")), page).unwrap();
        outside +=
            &format!("<iframe src='{number}.html' style='border:0;width:{width}px;height:900px'></iframe>");
    }
    let outer = dir.path().join("outer.html");
    std::fs::write(&outer, outside).unwrap();
    let output = Command::new("timeout")
        .arg(BROWSER_TIMEOUT_SECONDS)
        .arg(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1600,1000",
            "--dump-dom",
        ])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("file://{}", outer.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Vec<Value> = text
        .lines()
        .filter_map(|line| line.split_once("LOOK ").map(|(_, look)| serde_json::from_str(look).unwrap()))
        .collect();
    assert_eq!(found.len(), pages.len(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    found
}

/// Returns a page with its print styles enabled.
fn printed(page: &str) -> String {
    assert!(page.contains("@media print {"));
    page.replace("@media print {", "@media all {")
}

/// Returns a run with every table and chart, and with large figures, long names, and intervals.
fn full() -> RunResult {
    let mut result = everything();
    result.analysis.repetitions = Some(repetitions());
    result.achieved_transactional_iops = 1_234_567.8;
    for latency in result.latency.values_mut() {
        (latency.count, latency.mean, latency.max) = (12_345_678_901, 1_234_567.0, 3_600_000_000);
        (latency.p50, latency.p99, latency.p99_99) = (1_000_000, 10_000_000, 100_000_000);
    }
    let mut instance = result.instances[0].clone();
    instance.database_reads_per_second = 1_234_567.8;
    instance.database =
        "/srv/storage/mailboxes/databases/volume-17/a-database-with-a-long-name-0001.edb".into();
    result.instances = vec![instance; 3];
    let file = &mut result.verification.as_mut().unwrap().files[0];
    file.path = result.instances[0].database.clone();
    file.findings = vec![format!("page 7: the checksum is {}", "0123456789abcdef".repeat(4))];
    result.evidence.machine.storage[0].directory = file.path.clone();
    result.log = vec!["2026-01-02 03:04:05 -- Creating databases, which takes some time".into(); 3];
    result
}

fn compared() -> String {
    let numbered_run = |number: usize| {
        let name =
            format!("/srv/results/of/many/runs/on/one/file-system/Performance_2026-01-02_03-04-{number:02}");
        (name, StoredRun { result: full(), samples: samples(5) })
    };
    comparison::html(&RunComparison::new(&(0..6).map(numbered_run).collect::<Vec<_>>(), 0))
}

#[test]
fn text_is_never_clipped_on_phone_paper_or_screen() {
    let Some(browser) = browser() else { return };
    let (report, comparison) = (crate::html(&full(), &samples(30)), compared());
    let pages = [
        ("report on a telephone", PHONE_WIDTH, report.clone()),
        ("report on paper", PAPER_WIDTH, printed(&report)),
        ("report on a screen", SCREEN_WIDTH, report),
        ("comparison on a telephone", PHONE_WIDTH, comparison.clone()),
        ("comparison on paper", PAPER_WIDTH, printed(&comparison)),
    ];
    for look in render_pages(&browser, &pages) {
        assert_eq!(look["found"], json!([]), "{}: {:#}", look["name"], look["found"]);
        let (_, width, _) = pages.iter().find(|(name, ..)| look["name"] == *name).unwrap();
        assert_eq!(look["width"], *width, "{}", look["name"]);
    }
}

#[test]
fn keyboard_and_pointer_show_chart_values() {
    let Some(browser) = browser() else { return };
    let result = crate::example::result();
    let page = crate::html(&result, &samples(3));
    let look = render_pages(&browser, &[("keys", SCREEN_WIDTH, page)]).remove(0);
    let shown = &look["shown"];
    let seen = |name: &str| (shown[name][0].as_str().unwrap(), shown[name][1].as_str().unwrap());
    assert_eq!((&shown["focus"], &shown["visible"]), (&true.into(), &true.into()));
    assert_eq!((&shown["taken"], &shown["left"]), (&json!([true, true, true, true]), &false.into()));
    let (first, second, last) = (seen("Home"), seen("ArrowRight"), seen("End"));
    assert!(first.0.starts_with("1 seconds: ") && second.0.starts_with("2 seconds: "), "{shown:#}");
    assert!(last.0.starts_with("3 seconds: ") && seen("ArrowLeft") == second, "{shown:#}");
    assert!(first.0.contains(" 50") && first.1 == "visible", "{shown:#}");
    assert_eq!((seen("Escape"), seen("gone")), (("", "hidden"), ("", "hidden")));
    assert_eq!((seen("pointer 0"), seen("pointer 1")), (first, last));
}
