//! The page of a study: its figure beside what was published, its numbers, its claims, its text.

use crate::html::{Cell, details, escape, figure, list, put, section, table};
use crate::markdown;
use crate::shell::Shell;
use serde_json::{Value, json};

/// What a study says of itself, and what came out.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name as on the command line: `rail/fig5`.
    pub name: String,
    /// The page's heading.
    pub title: String,
    /// One sentence on what the figure shows.
    pub shows: String,
    /// The publication and its figure or table.
    pub source: String,
    /// Above the numbers: the scale, how many points, what is missing.
    pub state: Vec<String>,
    /// Figures of the chart, as `charts.study` of the script draws them: `title`, `x`, `y`, `curves`, `panels` with
    /// `series` and `marks`, and how they are drawn.
    pub figures: Vec<Value>,
    /// What was published and is in no figure, and why.
    pub not_drawn: Vec<String>,
    /// Heads of the table.
    pub head: Vec<String>,
    /// The first so many columns name a point.
    pub axes: usize,
    /// By point.
    pub rows: Vec<Row>,
    /// Statements: what, where, they, we, difference, verdict.
    pub statements: Vec<[String; 6]>,
    /// Points without a result, and why.
    pub failed: Vec<String>,
    /// Warnings of points.
    pub warnings: Vec<String>,
    /// Of the folder's README, as Markdown.
    pub text: String,
    /// The study as written.
    pub toml: String,
}

/// A point's values, and its numbers, each as it is and as the table has it.
pub type Row = (Vec<String>, Vec<Option<(f64, String)>>);

/// The page.
pub fn study(study: &Study) -> String {
    let mut body = String::new();
    put!(body, "<p class=\"answer\">{}</p>\n", escape(&study.shows));
    for line in &study.state {
        put!(body, "<p class=\"note\">{}</p>\n", escape(line));
    }
    if !study.failed.is_empty() {
        let each = study.failed.iter().map(|f| format!("<p><b>No result.</b> {}</p>", escape(f)));
        put!(body, "<div class=\"warnings\">{}</div>\n", each.collect::<String>());
    }
    if !study.warnings.is_empty() {
        let each = study.warnings.iter().map(|w| format!("<p><b>Warning.</b> {}</p>", escape(w)));
        put!(body, "<div class=\"warnings\">{}</div>\n", each.collect::<String>());
    }
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let mut add = |id: &'static str, title: &'static str, content: String| {
        if !content.is_empty() {
            body += &section(id, title, &content);
            sections.push((id, title));
        }
    };
    let drawn = |f: &Value| {
        let panels = f["panels"].as_array().into_iter().flatten();
        panels.flat_map(|p| p["series"].as_array().into_iter().flatten()).next().is_some()
    };
    let figures: Vec<String> = study
        .figures
        .iter()
        .enumerate()
        .filter(|(_, f)| drawn(f))
        .map(|(i, f)| {
            let title = f["title"].as_str().unwrap_or("");
            figure(&format!("panel-{i}"), "study", &json!({ "figure": i }), title, "")
        })
        .collect();
    let missing = "<p>Nothing is to be drawn: no point has a result here.</p>";
    match (study.figures.is_empty(), figures.is_empty()) {
        (true, _) => {}
        (false, true) => add("figure", "Figure", missing.into()),
        (false, false) => {
            let mut all = figures.concat();
            if !study.not_drawn.is_empty() {
                all += "<p class=\"note\">Published, not drawn:</p>\n";
                all += &list(&study.not_drawn);
            }
            add("figure", "Figure", all);
        }
    }
    add("statements", "What was published, and what came out", statements(study));
    let rows = study.rows.iter().map(|(values, numbers)| {
        let mut row: Vec<Cell> = values.iter().map(|v| Cell::Text(v.clone())).collect();
        row.extend(numbers.iter().map(|x| match x {
            Some((x, text)) => Cell::number(text.clone(), Some(*x), ""),
            None => Cell::None,
        }));
        row
    });
    add("numbers", "Numbers", table("", &study.head, &rows.collect::<Vec<_>>()));
    let text = markdown::html(&study.text);
    if !text.is_empty() {
        add("text", "About these studies", text);
    }
    let toml = format!("<pre><code>{}</code></pre>", escape(&study.toml));
    add("file", "The study", details(&format!("{}.toml", study.name), &toml));
    let data = json!({ "results": [], "figures": study.figures });
    let shell = Shell {
        title: &study.title,
        sub: &escape(&study.source),
        body: &body,
        sections: &sections,
        data: (!figures.is_empty()).then_some(&data),
    };
    shell.html()
}

const VERDICTS: &str = "Met: within the tolerance chosen for the statement, or an order that holds at every point. Direction: \
    a change to the published side of none, a size within a factor of two, or an order at more than half of the points. \
    Wrong: none of these. Without a tolerance, a bound or an order holds or does not, and a number has its difference alone.";

fn statements(study: &Study) -> String {
    if study.statements.is_empty() {
        return String::new();
    }
    let rows = study.statements.iter().map(|[what, place, they, we, difference, verdict]| {
        // Behind it may stand what an interval reaches into.
        let class = match verdict.split(" (").next().unwrap_or_default() {
            "met" | "holds" => "better",
            "wrong" | "does not" => "worse",
            _ => "",
        };
        vec![
            Cell::Text(what.clone()),
            Cell::Text(place.clone()),
            Cell::Text(they.clone()),
            Cell::Text(we.clone()),
            Cell::Text(difference.clone()),
            Cell::Html(format!("<span class=\"{class}\">{}</span>", escape(verdict))),
        ]
    });
    let head = ["what", "where", "published", "here", "difference", "verdict"].map(String::from);
    format!("{}<p class=\"note\">{}</p>\n", table("", &head, &rows.collect::<Vec<_>>()), VERDICTS)
}

/// A page that leads to others.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The page's file.
    pub file: String,
    /// The study's title.
    pub title: String,
    /// The publication and its figure or table.
    pub source: String,
    /// Points with a result, and all.
    pub points: (usize, usize),
    /// Statements by verdict, as in `3 met, 1 wrong`.
    pub verdicts: String,
}

/// The first page of a site of studies, in groups with a title each.
pub fn index(groups: &[(String, Vec<Entry>)]) -> String {
    let mut body = String::new();
    for (title, entries) in groups {
        let rows = entries.iter().map(|e| {
            let link = format!("<a href=\"{}\">{}</a>", escape(&e.file), escape(&e.title));
            let points = format!("{} of {}", e.points.0, e.points.1);
            vec![
                Cell::Html(link),
                Cell::Text(e.source.clone()),
                Cell::number(points, Some(e.points.0 as f64), ""),
                Cell::Text(e.verdicts.clone()),
            ]
        });
        let head = ["study", "source", "points with a result", "statements"].map(String::from);
        body += &section(title, title, &table("", &head, &rows.collect::<Vec<_>>()));
    }
    let sub = "Published figures, run again on wordline: what was published beside what comes out.";
    Shell { title: "Studies", sub, body: &body, sections: &[], data: None }.html()
}
