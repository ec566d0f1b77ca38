//! Errors of the command line parser.

use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use jetcell_input::OptionValueError;
use jetcell_input::quantity::QuantityError;

use crate::outcome::{Advise, CommandError};

/// Returns the error for a command line that cannot be parsed: the problem, and the remedy.
pub fn command_line_error(error: &clap::Error) -> CommandError {
    let text = |kind| error.get(kind).map(ToString::to_string).filter(|text| !text.is_empty());
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let details = [
        text(ContextKind::ValidValue).map(|values| format!("possible values: {values}")),
        text(ContextKind::ValidSubcommand).map(|names| format!("subcommands: {names}")),
        suggestions(error.get(ContextKind::SuggestedSubcommand), "subcommand"),
        suggestions(error.get(ContextKind::SuggestedArg), "argument"),
        suggestions(error.get(ContextKind::SuggestedValue), "value"),
        text(ContextKind::Suggested),
        Some("see --help".to_string()),
    ];
    let advice = details.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let subcommand = text(ContextKind::InvalidSubcommand);
    let problem = match (error.kind(), error.get(ContextKind::InvalidValue).map(ToString::to_string)) {
        (ErrorKind::InvalidValue, value) if value.as_deref().unwrap_or_default().is_empty() => {
            format!("a value is required for '{argument}' but none was supplied")
        }
        (ErrorKind::ValueValidation, Some(value)) => {
            let context = format!("invalid value '{value}' for '{argument}'");
            return match error.source() {
                Some(source) => value_error(source).context(context),
                None => CommandError::new(context).advise("see --help"),
            };
        }
        (ErrorKind::InvalidValue, Some(value)) => format!("invalid value '{value}' for '{argument}'"),
        (ErrorKind::TooManyValues, Some(value)) => {
            format!("unexpected value '{value}' for '{argument}' found")
        }
        (ErrorKind::UnknownArgument, _) => format!("unexpected argument '{argument}' found"),
        (ErrorKind::MissingRequiredArgument, _) => {
            format!("the following required arguments were not provided: {argument}")
        }
        (ErrorKind::InvalidSubcommand, _) => {
            format!("unrecognized subcommand '{}'", subcommand.unwrap_or_default())
        }
        (ErrorKind::MissingSubcommand, _) => {
            format!("'{}' requires a subcommand but one was not provided", subcommand.unwrap_or_default())
        }
        (ErrorKind::ArgumentConflict, _) => match error.get(ContextKind::PriorArg) {
            Some(ContextValue::String(other)) if *other == argument => {
                format!("the argument '{argument}' cannot be used multiple times")
            }
            Some(ContextValue::String(other)) => {
                format!("the argument '{argument}' cannot be used with '{other}'")
            }
            others => {
                let others = others.map_or("other arguments".into(), ToString::to_string);
                format!("the argument '{argument}' cannot be used with: {others}")
            }
        },
        (kind, _) if argument.is_empty() => kind.to_string(),
        (kind, _) => format!("{argument}: {kind}"),
    };
    CommandError::new(problem).advise(advice)
}

/// Returns the names that are similar to an unknown `kind` of name.
fn suggestions(names: Option<&ContextValue>, kind: &str) -> Option<String> {
    let names = match names? {
        ContextValue::String(name) => std::slice::from_ref(name),
        ContextValue::Strings(names) => names,
        _ => return None,
    };
    let quoted = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1 => Some(format!("a similar {kind} exists: {quoted}")),
        _ => Some(format!("similar {kind}s exist: {quoted}")),
    }
}

/// Returns the error of a value parser. This program's errors have advice; those of clap do not.
fn value_error(error: &(dyn Error + 'static)) -> CommandError {
    macro_rules! return_known_error {
        ($($(#[$attribute:meta])* $kind:ty),* $(,)?) => {
            $($(#[$attribute])*
            if let Some(found) = error.downcast_ref::<$kind>() {
                let problem = CommandError::new(found.to_string());
                return match Advise::advice(found) {
                    Some(advice) => problem.advise(advice),
                    None => problem,
                };
            })*
        };
    }
    return_known_error!(
        OptionValueError,
        QuantityError,
        ese_engine::Error,
        jetcell_export::UnknownFormat,
        jetcell_power::MeterKindError,
        jetcell_power::UnknownScope,
        jetcell_workload::ParseError,
        #[cfg(feature = "arrays")]
        jetcell_array::UnknownLevel,
        #[cfg(feature = "lab")]
        jetcell_lab::filesystems::UnknownFilesystemKind,
        #[cfg(any(feature = "arrays", feature = "sizing"))]
        jetcell_raid_models::Error,
    );
    CommandError::new(error.to_string()).advise("see --help")
}
