//! Imports the `JetstressConfig.xml` of Microsoft's Jetstress. The result contains options and a note on every
//! element.
//!
//! No element is ignored silently: each is either honoured or ignored with a reason. An element that requests another
//! kind of test is a mistake. Elements whose meaning was never published are ignored. An element that only confirms
//! what every run does anyway (such as `VerifyChecksum` true) counts as honoured.

mod conclusion;
mod duration;
mod elements;
mod reader;
mod sections;

use roxmltree::{Document, Node, ParsingOptions};

use self::reader::{JetstressReader, display_text};
use super::TestKind;
use super::configuration_error::ConfigurationError;
use super::options::Options;

/// Maximum number of XML nodes. A Jetstress configuration has about a hundred elements, plus six for each additional
/// database.
const MAX_NODES: u32 = 50_000;

/// Maximum length of a tag in bytes. Tags in a Jetstress configuration are about a hundred bytes long. The parser
/// compares all attributes of a tag with each other, so long tags must be rejected.
const MAX_TAG: usize = 4096;

/// Options and notes from an imported Jetstress configuration.
#[derive(Debug)]
pub(super) struct JetstressImport {
    pub(super) options: Options,
    /// Lines for the terminal, one for each element.
    pub(super) notes: Vec<String>,
}

/// Returns true if the text is XML. A TOML file never starts with this character.
pub(super) fn is_xml(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// Reads a configuration for a test. `given` contains the command-line options, which take precedence.
pub(super) fn parse(
    text: &str,
    test: TestKind,
    given: &Options,
) -> Result<JetstressImport, Vec<ConfigurationError>> {
    let tag_length = |after: &str| after.find('>').unwrap_or(after.len());
    if text.split('<').any(|after| tag_length(after) > MAX_TAG) {
        return Err(vec![
            ConfigurationError::new(
                "line 1: the file is not a JetstressConfig.xml: a tag is longer than 4096 bytes",
            )
            .advise("correct this line"),
        ]);
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let line = error.pos().row;
        let what = format!("line {line}: the file is not a JetstressConfig.xml: {error}");
        vec![ConfigurationError::new(what).advise("correct this line")]
    })?;
    let root = document.root_element();
    let sections = ["TestDesignInfo", "ExchangeProfile", "JetSystemParams"];
    let has_section = |name: &&str| root.children().any(|node| node.has_tag_name(*name));
    if root.tag_name().name() != "configuration" || !sections.iter().any(has_section) {
        let name = root.tag_name().name();
        return Err(vec![
            ConfigurationError::new(format!(
                "line 1: expected the root element of a JetstressConfig.xml, found <{name}>"
            ))
            .advise("correct this line"),
        ]);
    }
    let mut reader = JetstressReader::new(&document, test, given);
    for node in root.children().filter(Node::is_element) {
        match node.tag_name().name() {
            "TestDesignInfo" | "ExchangeProfile" | "JetSystemParams" => {
                node.children().filter(Node::is_element).for_each(|node| element(&mut reader, node));
            }
            "JetstressVersionGenerated" => reader.version = display_text(node),
            "EseVersionGenerated" => {}
            _ => reader.unknown += 1,
        }
    }
    reader.finish()
}

fn element(reader: &mut JetstressReader<'_>, node: Node<'_, '_>) {
    match node.tag_name().name() {
        "Thresholds" => reader.threshold_set(node),
        "OperationMix" => reader.operation_mix(node),
        "EseInstances" => reader.instances(node),
        name => {
            if !reader.seen.insert(name.to_string()) {
                return reader.mistake(node, format!("{name} is specified twice"));
            }
            let text = display_text(node);
            if !text.is_empty()
                && let Some(fate) = elements::apply_element(reader, node, name, &text)
            {
                reader.note(format!("{name} {text}"), fate);
            }
        }
    }
}

fn is_windows_path(path: &str) -> bool {
    path.contains('\\') || path.as_bytes().get(1) == Some(&b':')
}

#[cfg(test)]
mod tests;
