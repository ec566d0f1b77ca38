//! Renders the document as HTML and Markdown. The vendor's text is escaped in both formats, so it cannot inject
//! markup.

use maud::{Markup, html as markup};

use crate::esrp::document::{DocumentBlock, EsrpDocument};
use crate::{markdown as md, page};

/// One paragraph of the vendor's text.
enum VendorParagraph {
    Text(String),
    Items(Vec<String>),
}

/// Splits the vendor's text into paragraphs, which are separated by empty lines. Lines that begin with `- ` are list
/// items.
fn paragraphs(text: &str) -> Vec<VendorParagraph> {
    let mut all: Vec<VendorParagraph> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("- "), all.last_mut()) {
            _ if line.is_empty() => {}
            (Some(item), Some(VendorParagraph::Items(items))) if open => items.push(item.into()),
            (Some(item), _) => all.push(VendorParagraph::Items(vec![item.into()])),
            (None, Some(VendorParagraph::Text(text))) if open => *text += &format!(" {line}"),
            (None, Some(VendorParagraph::Items(items))) if open => {
                items.iter_mut().last().into_iter().for_each(|item| *item += &format!(" {line}"));
            }
            (None, _) => all.push(VendorParagraph::Text(line.into())),
        }
        open = !line.is_empty();
    }
    all
}

fn anchor(number: &str) -> String {
    format!("s-{}", number.replace('.', "-"))
}

/// Renders a self-contained page for screen and print.
pub(crate) fn html(document: &EsrpDocument) -> String {
    page::page(
        &document.title,
        &markup! {
            h1 { (document.title) }
            @for line in &document.byline { p class="reason" { (line) } }
            (contents(document))
            @for block in &document.blocks { (self::block(block)) }
        },
    )
}

fn contents(document: &EsrpDocument) -> Markup {
    markup! {
        nav class="contents" aria-label="Contents" {
            ul { @for block in &document.blocks {
                @match block {
                    DocumentBlock::Section(number, title) => li { a href=(format!("#{}", anchor(number))) { (number) " " (title) } },
                    DocumentBlock::Subsection(number, title) => li class="part" { a href=(format!("#{}", anchor(number))) { (number) " " (title) } },
                    _ => {},
                }
            } }
        }
    }
}

fn block(block: &DocumentBlock) -> Markup {
    markup! {
        @match block {
            DocumentBlock::Section(number, title) => {
                h2 id=(anchor(number)) class=[number.starts_with(char::is_alphabetic).then_some("appendix")] { (number) " " (title) }
            }
            DocumentBlock::Subsection(number, title) => h3 id=(anchor(number)) { (number) " " (title) },
            DocumentBlock::GeneratedText(text) => p { (text) },
            DocumentBlock::VendorText(text) => @for paragraph in paragraphs(text) {
                @match paragraph {
                    VendorParagraph::Text(text) => p { (text) },
                    VendorParagraph::Items(items) => ul { @for item in items { li { (item) } } },
                }
            },
            DocumentBlock::Table(table) => (page::captioned_table(table)),
            DocumentBlock::Charts(charts) => div class="charts" { @for chart in charts { (chart.figure()) } },
        }
    }
}

/// Renders GitHub-flavored Markdown without charts.
pub(crate) fn markdown(document: &EsrpDocument) -> String {
    let mut out = format!("# {}\n\n", md::escaped(&document.title));
    for line in &document.byline {
        out += &format!("{}\n\n", line_of_text(line));
    }
    for block in &document.blocks {
        match block {
            DocumentBlock::Section(number, title) => {
                out += &format!("## {number} {}\n\n", md::escaped(title));
            }
            DocumentBlock::Subsection(number, title) => {
                out += &format!("### {number} {}\n\n", md::escaped(title));
            }
            DocumentBlock::GeneratedText(text) => out += &format!("{}\n\n", line_of_text(text)),
            DocumentBlock::VendorText(text) => {
                paragraphs(text).iter().for_each(|paragraph| out += &prose(paragraph));
            }
            DocumentBlock::Table(table) => out += &md::table_below(4, table),
            DocumentBlock::Charts(_) => {}
        }
    }
    out
}

fn prose(paragraph: &VendorParagraph) -> String {
    match paragraph {
        VendorParagraph::Text(text) => format!("{}\n\n", line_of_text(text)),
        VendorParagraph::Items(items) => {
            let items: String = items.iter().map(|item| format!("- {}\n", line_of_text(item))).collect();
            items + "\n"
        }
    }
}

/// Escapes text at the start of a line, where more characters have a special meaning.
fn line_of_text(text: &str) -> String {
    let text = md::escaped(text);
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match text.chars().next() {
        Some('#' | '>' | '-' | '+' | '=' | '~') => format!("\\{text}"),
        Some('0'..='9') if number.starts_with(['.', ')']) => {
            format!("{}\\{number}", &text[..text.len() - number.len()])
        }
        _ => text,
    }
}
