//! Command line options of a run, generated from the option table of `jetcell-workload`.

use std::marker::PhantomData;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use jetcell_workload::Options;
use jetcell_workload::profile::{OptionInfo, OptionKind};

use super::kind::StorageTestCommand;

/// Options for the workload of a storage test.
#[derive(Clone, Debug)]
pub struct WorkloadOptions<T> {
    /// Options as given by the user.
    pub options: Options,
    test: PhantomData<T>,
}

fn options_of<T: StorageTestCommand>() -> impl Iterator<Item = &'static OptionInfo> {
    Options::table().filter(|option| T::KIND.has_option(option))
}

fn argument(option: &'static OptionInfo) -> Arg {
    let argument = Arg::new(option.name)
        .long(option.name)
        .value_name(option.value_name)
        .help_heading(option.heading)
        .help(format!("{} [default: {}]", option.help, option.default()))
        .action(if option.is_list { ArgAction::Append } else { ArgAction::Set });
    let check = |text: &str| {
        option.set(&mut Options::default(), text.as_ref())?;
        Ok::<_, jetcell_workload::ParseError>(text.to_string())
    };
    let argument = if option.name == "description" { argument.visible_alias("title") } else { argument };
    match option.kind {
        // Clap would treat a negative size as an option. The size parser returns a better error.
        OptionKind::Value => argument.allow_hyphen_values(true).value_parser(check),
        OptionKind::Flag => {
            argument.value_parser(check).num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        OptionKind::Path => argument.value_parser(ValueParser::os_string()),
    }
}

impl<T: StorageTestCommand> Args for WorkloadOptions<T> {
    fn augment_args(command: Command) -> Command {
        command.args(options_of::<T>().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        WorkloadOptions::<T>::augment_args(command)
    }
}

impl<T: StorageTestCommand> FromArgMatches for WorkloadOptions<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<WorkloadOptions<T>, Error> {
        let mut options = WorkloadOptions { options: Options::default(), test: PhantomData };
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for option in options_of::<T>() {
            for text in matches.get_raw(option.name).into_iter().flatten() {
                option
                    .set(&mut self.options, text)
                    .map_err(|error| Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::test::backup::BackupTest;
    use crate::commands::test::performance::PerformanceTest;
    use crate::commands::test::recovery::RecoveryTest;
    use crate::commands::test::replication::ReplicationTest;
    use crate::commands::test::stress::StressTest;

    fn parsed(words: &[&str]) -> Result<Options, Error> {
        let command = WorkloadOptions::<PerformanceTest>::augment_args(Command::new("performance"));
        let matches = command.try_get_matches_from([&["performance"], words].concat())?;
        Ok(WorkloadOptions::<PerformanceTest>::from_arg_matches(&matches)?.options)
    }

    #[test]
    fn values_flags_lists_and_negative_numbers_are_read() {
        let options =
            parsed(&["--dir", "a", "--dir", "b", "--open", "--scan=false", "--size", "80%", "--rate", "-1"]);
        let options = options.unwrap();
        assert_eq!((options.dirs.len(), options.open, options.scan), (2, Some(true), Some(false)));
        assert_eq!((options.size, options.rate), (Some("80%".parse().unwrap()), Some(-1.0)));
        assert_eq!((options.force, options.threads), (None, None));
    }

    #[test]
    fn an_invalid_value_names_the_option() {
        let text = parsed(&["--threads", "four"]).unwrap_err().to_string();
        assert!(text.starts_with("error: invalid value 'four' for '--threads <N>': "), "{text}");
        let text = parsed(&["--open=maybe"]).unwrap_err().to_string();
        assert!(text.starts_with("error: invalid value 'maybe' for '--open[=<BOOL>]': "), "{text}");
    }

    #[test]
    fn each_test_has_only_relevant_options_without_duplicates() {
        fn names<T: StorageTestCommand>() -> Vec<String> {
            let command = WorkloadOptions::<T>::augment_args(Command::new("test"));
            command.clone().debug_assert();
            command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
        }
        let (performance, recovery) = (names::<PerformanceTest>(), names::<RecoveryTest>());
        assert!(names::<StressTest>().iter().all(|name| performance.contains(name)));
        for (name, of_performance, of_recovery) in [
            ("duration", true, false),
            ("logs", false, true),
            ("target-iops", true, false),
            ("dir", true, true),
        ] {
            let is_listed = |names: &[String]| names.iter().any(|known| known == name);
            assert_eq!(
                (is_listed(&performance), is_listed(&recovery)),
                (of_performance, of_recovery),
                "{name}"
            );
        }
        let (backup, replication) = (names::<BackupTest>(), names::<ReplicationTest>());
        assert!(backup.contains(&"under-load".to_string()) && !performance.contains(&"to".to_string()));
        let every = |option: &OptionInfo| {
            [&performance, &recovery, &backup, &replication]
                .iter()
                .any(|names| names.iter().any(|name| name == option.name))
        };
        assert!(Options::table().all(every));
    }
}
