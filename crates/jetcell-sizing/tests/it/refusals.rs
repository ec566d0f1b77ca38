//! Tests that invalid configurations give a clear one-line error.

use jetcell_sizing::{Config, DiskCatalogue, EXAMPLE, SizingError, size};

/// Returns the line that the command prints for an error.
fn line<T>(result: Result<T, SizingError>) -> String {
    let error = result.map(|_| ()).unwrap_err();
    jetcell_input::with_advice(&error, error.advice())
}

fn refused(from: &str, to: &str) -> String {
    let text = EXAMPLE.replacen(from, to, 1);
    assert_ne!(text, EXAMPLE, "{from} is not in the example");
    let result =
        Config::read("site.toml", &text).and_then(|config| size(&config, &DiskCatalogue::built_in()));
    let mistake = line(result);
    assert!(!mistake.contains('\n'), "{mistake}");
    mistake
}

#[test]
fn the_error_of_an_unknown_key_names_the_line_and_the_most_similar_key() {
    let line = EXAMPLE.lines().position(|line| line.starts_with("quota")).unwrap() + 1;
    let text = refused("quota =", "quotta =");
    assert_eq!(
        text,
        format!("site.toml, line {line}: unknown key 'quotta'; the nearest known key is 'quota'")
    );
    assert!(refused("[servers]", "[sevrers]").contains("the nearest known key is 'servers'"));
    assert!(
        refused("maintenance_mb_s", "maintenance_mbs").contains("nearest known key is 'maintenance_mb_s'")
    );
    assert!(refused("\"raid10\" },", "\"raid1\" },").contains("raid10"));
    assert!(refused("exchange-2013\"", "exchange-2031\"").contains("did you mean \"exchange-2013\""));
    assert!(refused("\"7.2k 8TB\"", "\"7.2k 9TB\"").contains("unknown disk \"7.2k 9TB\""));
}

#[test]
fn the_error_names_the_invalid_value() {
    for (from, to, why) in [
        ("count = 6000", "count = 0", "mailboxes.count = 0 must be between 1"),
        ("count = 6000", "count = -5", "invalid value: integer `-5`"),
        ("count = 6000", "count = 18446744073709551615", ""),
        ("count = 6000", "", "missing key 'mailboxes.count'"),
        ("messages_per_day = 150", "messages_per_day = -1", "mailboxes.messages_per_day = -1 must be"),
        ("messages_per_day = 150", "messages_per_day = nan", "mailboxes.messages_per_day = NaN must be"),
        ("quota = \"5GiB\"", "quota = 5", "'5' has no unit"),
        ("quota = \"5GiB\"", "quota = \"-5GiB\"", "'-5GiB' is negative"),
        ("quota = \"5GiB\"", "quota = \"900000TiB\"", "raise databases.largest or lower mailboxes.quota"),
        ("free = \"20%\"", "free = \"100%\"", "databases.free = 100% must be less than 100%"),
        ("copies = 2", "copies = 4", "servers.copies = 4 on 3 servers"),
        ("lost = 1", "lost = 3", "at least one server must remain"),
        ("latency = \"20ms\"", "latency = \"5ms\"", "does not respond within 5ms"),
        ("latency = \"20ms\"", "latency = \"0ms\"", "latency must be more than 0"),
        ("data_disks = 7", "data_disks = 0", "RAID 5: data_disks = 0 must be between 2 and 255"),
        ("write_ratio = 1.5", "write_ratio = 0.0", "write_ratio = 0 must be between 0.01"),
        ("disks = [\"7.2k 8TB\", \"10k 1.2TB\"]", "disks = []", "must contain the name of at least one disk"),
        ("headroom = \"20%\"", "headroom = \"9999%\"", "servers.headroom"),
        ("pue = 1.6", "pue = -1", "cost.pue = -1 must be"),
        ("maintenance_mb_s = 2.28", "maintenance_mb_s = inf", "maintenance_mb_s = inf is out of range"),
        ("messages_per_day = 150", "messages_per_day = 1e5\niops = 1e4", "more than ten million disks"),
    ] {
        let text = match why {
            "more than ten million disks" => {
                let text = EXAMPLE.replacen(from, to, 1).replacen("count = 6000", "count = 1000000000", 1);
                let text = text.replacen("largest = \"500GiB\"", "count = 1000", 1);
                let result = Config::read("site.toml", &text)
                    .and_then(|config| size(&config, &DiskCatalogue::built_in()));
                line(result)
            }
            _ => refused(from, to),
        };
        assert!(text.contains(why), "{to}: {text}");
    }
}

#[test]
fn garbage_input_is_refused() {
    for text in
        ["", "\0\0\0", "[", "platform = 1", "mailboxes = 3", &"[".repeat(100_000), &"a=1\n".repeat(10_000)]
    {
        let mistake = line(Config::read("site.toml", text));
        assert!(!mistake.contains('\n') && mistake.starts_with("site.toml"), "{mistake}");
    }
}
