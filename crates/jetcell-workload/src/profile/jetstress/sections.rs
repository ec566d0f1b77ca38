//! Elements with nested content: the mix, the thresholds and the instances.

use roxmltree::Node;

use super::reader::ElementEffect::{Honoured, Ignored};
use super::reader::{JetstressReader, ThresholdSet, display_text};
use crate::profile::Mix;
use crate::profile::options::ThresholdOptions;

impl JetstressReader<'_> {
    pub(super) fn operation_mix(&mut self, node: Node<'_, '_>) {
        if !self.seen.insert("OperationMix".into()) {
            return self.mistake(node, "OperationMix is specified twice");
        }
        let mut share = |name: &str| match node.attribute(name) {
            Some(text) => self.attribute_number::<u8>(node, name, text),
            None => {
                self.mistake(node, format!("OperationMix is missing {name}"));
                None
            }
        };
        let shares = (share("InsertOps"), share("DeleteOps"), share("ReplaceOps"), share("LazyCommits"));
        let (Some(insert), Some(delete), Some(replace), Some(lazy)) = shares else { return };
        let changes = u32::from(insert) + u32::from(delete) + u32::from(replace);
        if changes > 100 {
            let what = format!("OperationMix: the shares add up to {changes} percent");
            return self.advised_mistake(node, &what, "the maximum is 100");
        }
        let read = 100 - changes as u8;
        self.options.mix = Some(Mix { insert, delete, replace, read });
        self.options.lazy_percent = Some(lazy);
        let what = format!(
            "mix = {insert}/{delete}/{replace}/{read}, lazy_percent = {lazy}; tuning does not change it"
        );
        self.note("OperationMix", Honoured(what));
    }

    pub(super) fn threshold_set(&mut self, node: Node<'_, '_>) {
        let name = node.attribute("Name").unwrap_or("without a name").to_string();
        let for_stress = node
            .attribute("TestRunTypes")
            .is_some_and(|types| types.split([',', ' ']).any(|kind| kind == "Stress"));
        let mut set = ThresholdSet { name, for_stress, limits: ThresholdOptions::default() };
        for child in node.children().filter(Node::is_element) {
            let (name, text) = (child.tag_name().name(), display_text(child));
            let limit = match name {
                "AverageDatabaseReadLatency" => &mut set.limits.average_database_read_ms,
                "MaximumDatabaseReadLatency" => &mut set.limits.maximum_database_read_ms,
                "AverageLogWriteLatency" => &mut set.limits.average_log_write_ms,
                "MaximumLogWriteLatency" => &mut set.limits.maximum_log_write_ms,
                _ => {
                    self.unknown += 1;
                    continue;
                }
            };
            *limit = self.number(child, &text);
        }
        self.thresholds.push(set);
    }

    pub(super) fn instances(&mut self, node: Node<'_, '_>) {
        if !self.seen.insert("EseInstances".into()) {
            return self.mistake(node, "EseInstances is specified twice");
        }
        self.instances_line = self.line(node);
        let mut biased = false;
        for instance in node.children().filter(|child| child.has_tag_name("EseInstance")) {
            biased |= instance.attribute("IopsBias").is_some_and(|bias| bias.trim().parse() != Ok(1.0));
            let text_of =
                |name: &str| instance.descendants().find(|inner| inner.has_tag_name(name)).map(display_text);
            let paths: Vec<String> = instance
                .descendants()
                .filter(|inner| inner.has_tag_name("Path"))
                .map(display_text)
                .filter(|path| !path.is_empty())
                .collect();
            let log = text_of("LogPath").filter(|path| !path.is_empty());
            for path in paths {
                self.log_paths.push(log.clone().unwrap_or_else(|| path.clone()));
                self.database_paths.push(path);
            }
        }
        if biased {
            self.note("IopsBias", Ignored("the load is distributed evenly across the databases".into()));
        }
    }
}
