//! State of an import: the options, notes and mistakes so far.

use std::collections::BTreeSet;
use std::str::FromStr;

use roxmltree::{Document, Node};

use crate::profile::TestKind;
use crate::profile::configuration_error::ConfigurationError;
use crate::profile::options::{Options, ThresholdOptions};

/// Returns the text of an element, converted to a single line.
pub(super) fn display_text(node: Node<'_, '_>) -> String {
    ConfigurationError::new(node.text().unwrap_or("").trim()).to_string()
}

/// How a Jetstress configuration element affects the test.
pub(super) enum ElementEffect {
    /// The element has this effect.
    Honoured(String),
    /// The element has no effect, for this reason.
    Ignored(String),
}

pub(super) struct ElementNote {
    pub(super) element: String,
    pub(super) fate: ElementEffect,
}

/// Settings that together determine the database sizes and the target I/O rate.
#[derive(Default)]
pub(super) struct JetstressSizing {
    pub(super) by_capacity: bool,
    pub(super) capacity_percent: Option<u8>,
    pub(super) mailboxes: Option<u64>,
    pub(super) quota_mib: Option<u64>,
    pub(super) iops_per_mailbox: Option<f64>,
}

/// A set of limits. Jetstress has one strict set and one lenient set.
#[derive(Default)]
pub(super) struct ThresholdSet {
    pub(super) name: String,
    pub(super) for_stress: bool,
    pub(super) limits: ThresholdOptions,
}

pub(super) struct JetstressReader<'a> {
    document: &'a Document<'a>,
    /// The test that the command runs.
    pub(super) test: TestKind,
    pub(super) given: &'a Options,
    pub(super) options: Options,
    pub(super) notes: Vec<ElementNote>,
    pub(super) mistakes: Vec<ConfigurationError>,
    pub(super) seen: BTreeSet<String>,
    /// Number of unknown elements.
    pub(super) unknown: usize,
    pub(super) version: String,
    pub(super) stress: bool,
    pub(super) sizing: JetstressSizing,
    pub(super) thresholds: Vec<ThresholdSet>,
    pub(super) database_paths: Vec<String>,
    pub(super) log_paths: Vec<String>,
    pub(super) instances_line: u32,
}

impl<'a> JetstressReader<'a> {
    pub(super) fn new(document: &'a Document<'a>, test: TestKind, given: &'a Options) -> JetstressReader<'a> {
        JetstressReader {
            document,
            test,
            given,
            options: Options::default(),
            notes: Vec::new(),
            mistakes: Vec::new(),
            seen: BTreeSet::new(),
            unknown: 0,
            version: String::new(),
            stress: test == TestKind::Stress,
            sizing: JetstressSizing::default(),
            thresholds: Vec::new(),
            database_paths: Vec::new(),
            log_paths: Vec::new(),
            instances_line: 1,
        }
    }

    pub(super) fn line(&self, node: Node<'_, '_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    pub(super) fn mistake(&mut self, node: Node<'_, '_>, what: impl AsRef<str>) {
        let line = self.line(node);
        let mistake = ConfigurationError::new(format!("line {line}: {}", what.as_ref()));
        self.mistakes.push(mistake.advise("correct this line"));
    }

    /// Records a mistake with advice.
    pub(super) fn advised_mistake(&mut self, node: Node<'_, '_>, what: &str, advice: &'static str) {
        let line = self.line(node);
        self.mistakes.push(ConfigurationError::new(format!("line {line}: {what}")).advise(advice));
    }

    pub(super) fn note(&mut self, element: impl Into<String>, effect: ElementEffect) {
        self.notes.push(ElementNote { element: element.into(), fate: effect });
    }

    /// Parses the text of an element as a number, or records a mistake.
    pub(super) fn number<T: FromStr>(&mut self, node: Node<'_, '_>, text: &str) -> Option<T> {
        self.attribute_number(node, node.tag_name().name(), text)
    }

    /// Parses the text of an attribute as a number, or records a mistake.
    pub(super) fn attribute_number<T: FromStr>(
        &mut self,
        node: Node<'_, '_>,
        name: &str,
        text: &str,
    ) -> Option<T> {
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.mistake(node, format!("{name} '{}' is not a number in its valid range", text.trim()));
        }
        parsed
    }

    /// Parses the text of an element as `true` or `false`, or records a mistake.
    pub(super) fn switch(&mut self, node: Node<'_, '_>, text: &str) -> Option<bool> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => {
                let name = node.tag_name().name();
                self.mistake(node, format!("{name} '{}' is neither true nor false", text.trim()));
                None
            }
        }
    }
}
