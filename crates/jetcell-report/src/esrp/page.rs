//! Renders the document as HTML and Markdown. The vendor's text is escaped in both formats, so it cannot inject
//! markup.

use maud::{Markup, html as markup};

use crate::esrp::document::{Block, Document};
use crate::{markdown as md, page};

/// One paragraph of the vendor's text.
enum Paragraph {
    Text(String),
    Items(Vec<String>),
}

/// Splits the vendor's text into paragraphs, which are separated by empty lines. Lines that begin with `- ` are list
/// items.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("- "), all.last_mut()) {
            _ if line.is_empty() => {}
            (Some(item), Some(Paragraph::Items(items))) if open => items.push(item.into()),
            (Some(item), _) => all.push(Paragraph::Items(vec![item.into()])),
            (None, Some(Paragraph::Text(text))) if open => *text += &format!(" {line}"),
            (None, Some(Paragraph::Items(items))) if open => {
                items.iter_mut().last().into_iter().for_each(|item| *item += &format!(" {line}"));
            }
            (None, _) => all.push(Paragraph::Text(line.into())),
        }
        open = !line.is_empty();
    }
    all
}

fn anchor(number: &str) -> String {
    format!("s-{}", number.replace('.', "-"))
}

/// Renders a self-contained page for screen and print.
pub(crate) fn html(document: &Document) -> String {
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

fn contents(document: &Document) -> Markup {
    markup! {
        nav class="contents" aria-label="Contents" {
            ul { @for block in &document.blocks {
                @match block {
                    Block::Section(number, title) => li { a href=(format!("#{}", anchor(number))) { (number) " " (title) } },
                    Block::Part(number, title) => li class="part" { a href=(format!("#{}", anchor(number))) { (number) " " (title) } },
                    _ => {},
                }
            } }
        }
    }
}

fn block(block: &Block) -> Markup {
    markup! {
        @match block {
            Block::Section(number, title) => {
                h2 id=(anchor(number)) class=[number.starts_with(char::is_alphabetic).then_some("appendix")] { (number) " " (title) }
            }
            Block::Part(number, title) => h3 id=(anchor(number)) { (number) " " (title) },
            Block::Sentence(text) => p { (text) },
            Block::Prose(text) => @for paragraph in paragraphs(text) {
                @match paragraph {
                    Paragraph::Text(text) => p { (text) },
                    Paragraph::Items(items) => ul { @for item in items { li { (item) } } },
                }
            },
            Block::Table(table) => (page::captioned(table)),
            Block::Charts(charts) => div class="charts" { @for chart in charts { (chart.figure()) } },
        }
    }
}

/// Renders GitHub-flavored Markdown without charts.
pub(crate) fn markdown(document: &Document) -> String {
    let mut out = format!("# {}\n\n", md::escaped(&document.title));
    for line in &document.byline {
        out += &format!("{}\n\n", line_of_text(line));
    }
    for block in &document.blocks {
        match block {
            Block::Section(number, title) => out += &format!("## {number} {}\n\n", md::escaped(title)),
            Block::Part(number, title) => out += &format!("### {number} {}\n\n", md::escaped(title)),
            Block::Sentence(text) => out += &format!("{}\n\n", line_of_text(text)),
            Block::Prose(text) => paragraphs(text).iter().for_each(|paragraph| out += &prose(paragraph)),
            Block::Table(table) => out += &md::table_below(4, table),
            Block::Charts(_) => {}
        }
    }
    out
}

fn prose(paragraph: &Paragraph) -> String {
    match paragraph {
        Paragraph::Text(text) => format!("{}\n\n", line_of_text(text)),
        Paragraph::Items(items) => {
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
