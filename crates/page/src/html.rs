//! Pieces of HTML.

use serde_json::Value;

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($args:tt)*) => { { use std::fmt::Write as _; let _ = write!($out, $($args)*); } };
}
pub(crate) use put;

pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// Prose: options of the command line and percentages are not broken at the end of a line.
pub fn prose(text: &str) -> String {
    let words: Vec<String> = text
        .split(' ')
        .map(|word| match word.starts_with("--") {
            true => format!("<span class=\"whole\">{}</span>", escape(word)),
            false => escape(word),
        })
        .collect();
    words.join(" ").replace(" %", "\u{a0}%")
}

/// JSON that may stand in a script element.
pub fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028")
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    Text(String),
    /// Head of a row, with the class of a colour before it.
    Head(String, Option<String>),
    /// Head of a row that is a part of the one above.
    Part(String),
    /// Escaped already.
    Html(String),
    /// A number as it is written, and as it is in the result at a path of it.
    Number {
        text: String,
        value: Option<f64>,
        path: String,
    },
    /// No number.
    None,
}

impl Cell {
    pub fn head(text: impl Into<String>) -> Cell {
        Cell::Head(text.into(), None)
    }
    pub fn number(text: String, value: Option<f64>, path: impl Into<String>) -> Cell {
        Cell::Number { text, value, path: path.into() }
    }
    fn is_number(&self) -> bool {
        matches!(self, Cell::Number { .. } | Cell::None)
    }
    fn write(&self, out: &mut String) {
        match self {
            Cell::Text(text) => put!(out, "<td>{}</td>", escape(text)),
            Cell::Html(html) => put!(out, "<td>{html}</td>"),
            Cell::Head(text, None) => put!(out, "<th scope=\"row\">{}</th>", escape(text)),
            Cell::Head(text, Some(colour)) => put!(
                out,
                "<th scope=\"row\"><span class=\"key\" style=\"background:var(--{colour})\"></span>{}</th>",
                escape(text)
            ),
            Cell::Part(text) => {
                put!(out, "<th scope=\"row\" class=\"part\">{}</th>", escape(text))
            }
            Cell::Number { text, value, path } => {
                let zero = if *value == Some(0.0) { " z" } else { "" };
                put!(out, "<td class=\"n{zero}\"");
                if let Some(value) = value {
                    put!(out, " data-value=\"{value}\"");
                }
                if !path.is_empty() {
                    put!(out, " data-path=\"{}\"", escape(path));
                }
                put!(out, ">{text}</td>");
            }
            Cell::None => out.push_str("<td class=\"n z\">\u{2013}</td>"),
        }
    }
}

/// Columns of a table that paper takes at the usual size.
const WIDE: usize = 9;

/// A table; a column of numbers is aligned on the right.
pub fn table(caption: &str, head: &[String], rows: &[Vec<Cell>]) -> String {
    let wide = if head.len() > WIDE { " class=\"wide\"" } else { "" };
    let mut out = format!("<div class=\"scroll\"><table{wide}>");
    if !caption.is_empty() {
        put!(out, "<caption>{}</caption>", escape(caption));
    }
    if head.iter().any(|h| !h.is_empty()) {
        out += "<thead><tr>";
        for (i, title) in head.iter().enumerate() {
            let numbers = rows.iter().any(|row| row.get(i).is_some_and(Cell::is_number));
            let class = if numbers { " class=\"n\"" } else { "" };
            put!(out, "<th scope=\"col\"{class}>{}</th>", escape(title));
        }
        out += "</tr></thead>";
    }
    out += "<tbody>";
    for row in rows {
        out += "<tr>";
        row.iter().for_each(|cell| cell.write(&mut out));
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    out
}

pub fn details(summary: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>{content}</details>\n", escape(summary))
}

/// A picture's place: what draws it, and with what.
pub fn figure(id: &str, chart: &str, args: &Value, title: &str, note: &str) -> String {
    let mut out = format!(
        "<figure id=\"{id}\" data-chart=\"{chart}\" data-args=\"{}\"><div class=\"head\"><h3>{}</h3></div>",
        escape(&args.to_string()),
        escape(title)
    );
    if !note.is_empty() {
        put!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out += "<ul class=\"legend\"></ul><div class=\"plot\"></div></figure>\n";
    out
}

pub fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|i| format!("<li>{}</li>", escape(i))).collect();
    format!("<ul class=\"plain\">{items}</ul>\n")
}

pub fn section(id: &str, title: &str, content: &str) -> String {
    format!("<section id=\"{id}\"><h2>{}</h2>\n{content}</section>\n", escape(title))
}

pub fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    out
}
