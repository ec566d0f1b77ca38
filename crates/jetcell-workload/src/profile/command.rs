//! A profile as the command line that describes it, what is the default left out.

use toml::{Table, Value};

use super::{Options, Profile};

impl Profile {
    /// The options of `jetcell test performance` that describe this run again, seed included, quoted for a shell.
    pub fn to_command_line(&self) -> String {
        let base = Options { dirs: self.dirs.clone(), duration: Some(self.duration), ..Options::default() };
        let defaults = base.resolve().map(|profile| flat(&profile)).unwrap_or_default();
        let mut words = vec!["jetcell test performance".to_string()];
        for (key, value) in flat(self) {
            let always = ["dirs", "duration", "seed"].contains(&key.as_str());
            if always || defaults.get(&key) != Some(&value) {
                add(&key, value, &mut words);
            }
        }
        words.join(" ")
    }
}

/// The keys of the configuration file without their sections.
fn flat(profile: &Profile) -> Table {
    let mut flat = Table::new();
    for (key, value) in Table::try_from(profile.to_options()).unwrap_or_default() {
        match value {
            Value::Table(section) if key != "mix" => flat.extend(section),
            value => drop(flat.insert(key, value)),
        }
    }
    flat
}

fn add(key: &str, value: Value, words: &mut Vec<String>) {
    match (key, value) {
        (_, Value::Array(items)) => {
            let singular = key.strip_suffix('s').unwrap_or(key);
            items.into_iter().for_each(|item| add(singular, item, words));
        }
        ("mix", Value::Table(mix)) => {
            let share = |kind| mix.get(kind).map(Value::to_string).unwrap_or_default();
            let shares = ["insert", "delete", "replace", "read"].map(share).join("/");
            words.push(format!("--mix {shares}"));
        }
        // A flag takes its value only behind an equals sign.
        (_, Value::Boolean(flag)) => words.push(format!("--{}={flag}", key.replace('_', "-"))),
        (_, Value::String(text)) => words.push(format!("--{} {}", key.replace('_', "-"), quoted(&text))),
        (_, value) => words.push(format!("--{} {value}", key.replace('_', "-"))),
    }
}

/// One word for a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,%=@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;
    use crate::profile::toml::complete;

    /// What a shell makes of the line, for the quotes that are used here.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut inside, mut chars) = (Vec::new(), String::new(), false, line.chars());
        while let Some(c) = chars.next() {
            match c {
                '\'' => inside = !inside,
                '\\' if !inside => word.extend(chars.next()),
                ' ' if !inside => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words
    }

    fn parsed(profile: &Profile) -> Profile {
        let line = profile.to_command_line();
        let command = Options::augment_args(clap::Command::new("performance"));
        let matches =
            command.try_get_matches_from(words(&line).into_iter().skip(2)).expect("its own options");
        Options::from_arg_matches(&matches).unwrap().resolve().unwrap()
    }

    #[test]
    fn the_command_line_describes_the_same_run() {
        let all = Options { force: None, open: None, seed: Some(7), ..complete() }.resolve().unwrap();
        assert_eq!(parsed(&all), all);
        let plain =
            Options { dirs: vec!["d".into()], seed: Some(9), ..Options::default() }.resolve().unwrap();
        assert_eq!(parsed(&plain), plain);
        assert_eq!(plain.to_command_line(), "jetcell test performance --dir d --duration 1m --seed 9");
        let odd = Options {
            dirs: vec!["/my disk/it's".into(), "b".into()],
            open: Some(true),
            description: Some("a \"b\" $(c)".into()),
            target_iops: Some(270.0),
            ..Options::default()
        };
        let odd = odd.resolve().unwrap();
        assert_eq!(parsed(&odd), odd);
    }
}
