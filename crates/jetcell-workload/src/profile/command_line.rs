//! Converts a profile to the command line that repeats the run. Options with their default value are omitted.

use super::Profile;
use super::option_value::OptionKind;
use super::options::Options;

/// Options that are always included in the command line, because readers expect them.
const ALWAYS: [&str; 3] = ["dir", "duration", "seed"];

impl Profile {
    /// Returns the `jetcell test` command that repeats this run, including the seed. It is quoted for a POSIX shell.
    pub fn to_command_line(&self) -> String {
        let base = Options { dirs: self.dirs.clone(), duration: Some(self.duration), ..Options::default() };
        let defaults = base.resolve_for(self.test).map(|profile| profile.to_options()).unwrap_or_default();
        let given = self.to_options();
        let mut words = vec![format!("jetcell test {}", self.test.name())];
        for option in Options::table().filter(|option| self.test.has_option(option)) {
            let values = option.get(&given);
            if !ALWAYS.contains(&option.name) && option.get(&defaults) == values {
                continue;
            }
            for value in values {
                words.push(match option.kind {
                    // A flag accepts a value only after an equals sign.
                    OptionKind::Flag => format!("--{}={value}", option.name),
                    OptionKind::Value | OptionKind::Path => {
                        format!("--{} {}", option.name, shell_word(&value))
                    }
                });
            }
        }
        words.join(" ")
    }
}

/// Quotes a word for a POSIX shell, if that is necessary.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,%=@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::profile::toml::complete;

    /// Splits a command line into words as a shell would. Supports only the quotes that are used here.
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
        let mut options = Options::default();
        let mut words = words(&profile.to_command_line()).into_iter().skip(3);
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_string(), value.to_string()),
                None => (word, words.next().unwrap()),
            };
            let mut of_test = Options::table().filter(|option| profile.test.has_option(option));
            let option = of_test.find(|option| name == format!("--{}", option.name)).unwrap();
            option.set(&mut options, OsStr::new(&value)).unwrap();
        }
        options.resolve().unwrap()
    }

    #[test]
    fn the_command_line_describes_the_same_run() {
        let all =
            Options { force: None, open: None, seed: Some(7), size: None, target_iops: None, ..complete() };
        let all = all.resolve().unwrap();
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
