//! Tables in Markdown documents, made from the results they quote. A block begins with a comment that says
//! what the table is of, in TOML, and ends with another one; what lies between is ours to write:
//!
//! ```text
//! <!-- table
//! study = "ull/latency-by-depth"
//! rows = ["drive", "pattern"]
//! at = { depth = ["1", "32"] }
//! columns = [
//!     { metric = "mean", at = { depth = "1" }, head = "alone" },
//!     { metric = "mean", at = { depth = "32" }, head = "32 in flight" },
//! ]
//! -->
//! | drive | pattern | alone | 32 in flight |
//! <!-- end of table -->
//! ```

use crate::compare::REACHES;
use crate::plan::Scale;
use crate::table::with_half;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- table\n";
const CLOSE: &str = "\n-->\n";
const END: &str = "<!-- end of table -->";

/// Why a document's tables cannot be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum DocumentError {
    #[error("line {line}: {why}")]
    Block { line: usize, why: BlockError },
    #[error("line {line}: {study} has no results in {path}: {remedy}", path = .path.display())]
    NoResults { line: usize, study: String, path: PathBuf, remedy: String },
    #[error("line {line}: the results in {path} are means over {there} seeds and not over {asked}: {remedy}", path = .path.display())]
    OfSeeds { line: usize, path: PathBuf, there: usize, asked: u32, remedy: String },
    #[error(
        "line {line}: the results in {path} are of another study of this name, of {study} before it was changed, or of an \
         older program: {remedy}", path = .path.display()
    )]
    OfAnother { line: usize, study: String, path: PathBuf, remedy: String },
}

/// Documents ask for means over unlike numbers of seeds, of which a folder keeps one.
#[derive(Debug, thiserror::Error)]
#[error("{study} is quoted with repeat = {one} and with repeat = {other}: use one number for both")]
pub struct Repeats {
    study: String,
    one: u32,
    other: u32,
}

impl Quoted {
    /// Whether both can be had from one folder.
    pub fn goes_with(&self, other: &Quoted) -> Result<(), Repeats> {
        let same = (&self.study, self.scale) == (&other.study, other.scale);
        match (self.repeat, other.repeat) {
            (Some(one), Some(other)) if same && one != other => {
                Err(Repeats { study: self.study.clone(), one, other })
            }
            _ => Ok(()),
        }
    }
}

/// What is wrong with a block.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum BlockError {
    #[error("a block begins with '<!-- table' alone on a line that ends with LF")]
    Begin,
    #[error("a '-->' line is missing")]
    Close,
    #[error("'{END}' is missing")]
    End,
    #[error("'{END}' is missing before the next table")]
    EndBeforeNext,
    #[error("{}", .0.message())]
    Spec(#[from] toml::de::Error),
    #[error("repeat: {0}")]
    Repeat(#[from] wordline_page::NoInterval),
    #[error("'published' has no rows, at or columns: leave them out")]
    PublishedAndPoints,
    #[error("the results have no {0}")]
    Results(&'static str),
    #[error("no {what} '{name}': there are {}", .known.join(", "))]
    Unknown { what: String, name: String, known: Vec<String> },
    #[error("no point has these values")]
    NoPoint,
    #[error("more than one point for {metric} at {label}: add to 'at'")]
    Points { metric: String, label: String },
}

/// What a block asks for.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Block {
    study: String,
    #[serde(default)]
    scale: Scale,
    /// Means over so many seeds.
    repeat: Option<u32>,
    /// What was published beside ours, in place of points.
    #[serde(default)]
    published: bool,
    /// A row for each combination of values of these axes.
    #[serde(default)]
    rows: Vec<String>,
    /// Only points with these values.
    #[serde(default)]
    at: BTreeMap<String, OneOrMore>,
    #[serde(default)]
    columns: Vec<Column>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Column {
    metric: String,
    /// What its closed form says, in place of what came out.
    #[serde(default)]
    form: bool,
    /// The metric and its unit, if nothing is given.
    head: Option<String>,
    #[serde(default)]
    at: BTreeMap<String, OneOrMore>,
    /// Digits behind the point; four digits in all, if nothing is given.
    digits: Option<usize>,
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> impl Iterator<Item = &str> {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        }
        .iter()
        .map(String::as_str)
    }

    fn has(&self, value: &str) -> bool {
        self.all().any(|one| one == value)
    }
}

/// A study that a document quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quoted {
    /// The study's name.
    pub study: String,
    /// The scale of the results quoted.
    pub scale: Scale,
    /// Means over so many seeds are quoted.
    pub repeat: Option<u32>,
}

impl Quoted {
    /// Where `wordline study run` leaves its numbers.
    fn path(&self, out: &Path) -> PathBuf {
        // A study from a file has the name of the file.
        let name = match self.study.ends_with(".toml") {
            true => Path::new(&self.study).file_stem().unwrap_or_default().to_string_lossy(),
            false => self.study.as_str().into(),
        };
        let repeated = if self.repeat.is_some() { crate::REPEATED } else { "" };
        out.join(format!("{}{repeated}.json", self.scale.stem(&name)))
    }
}

/// What a document quotes, in its order, each once; of one scale, if one is given.
pub fn quoted(text: &str, scale: Option<Scale>) -> Result<Vec<Quoted>, DocumentError> {
    let mut all = Vec::new();
    each_block(text, scale, |_, block| {
        let quoted = block.quoted();
        if !all.contains(&quoted) {
            all.push(quoted);
        }
        Ok(String::new())
    })?;
    Ok(all)
}

/// The document with its tables, or those of one scale, made anew from the results in `out`. `digest`: that of the
/// study of a name.
pub fn fill(
    text: &str,
    scale: Option<Scale>,
    out: &Path,
    digest: &dyn Fn(&str) -> String,
) -> Result<String, DocumentError> {
    each_block(text, scale, |line, block| block.table(line, out, &digest(&block.study)))
}

/// The text with what lies between each block's comments replaced; blocks of another scale stay.
fn each_block(
    text: &str,
    scale: Option<Scale>,
    mut of: impl FnMut(usize, &Block) -> Result<String, DocumentError>,
) -> Result<String, DocumentError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    for (number, line) in text.lines().enumerate() {
        let begins = line.trim_start().strip_prefix("<!--").is_some_and(|l| l.trim() == "table");
        if begins && (line != BEGIN.trim_end() || text.contains("\r\n")) {
            return Err(DocumentError::Block { line: number + 1, why: BlockError::Begin });
        }
    }
    while let Some(at) = rest.find(BEGIN) {
        let line = text[..text.len() - rest.len() + at].matches('\n').count() + 1;
        let bad = |why: BlockError| DocumentError::Block { line, why };
        let spec = &rest[at + BEGIN.len()..];
        let close = spec.find(CLOSE).ok_or_else(|| bad(BlockError::Close))?;
        let body = &spec[close + CLOSE.len()..];
        let end = body.find(END).ok_or_else(|| bad(BlockError::End))?;
        if body[..end].contains(BEGIN) {
            return Err(bad(BlockError::EndBeforeNext));
        }
        let block: Block = toml::from_str(&spec[..close]).map_err(|e| bad(e.into()))?;
        block.repeat.map_or(Ok(1), wordline_page::repeat_times).map_err(|e| bad(e.into()))?;
        out += &rest[..at + BEGIN.len() + close + CLOSE.len()];
        match scale {
            Some(scale) if scale != block.scale => out += &body[..end],
            _ => out += &of(line, &block)?,
        }
        out += END;
        rest = &body[end + END.len()..];
    }
    Ok(out + rest)
}

impl Block {
    fn quoted(&self) -> Quoted {
        Quoted { study: self.study.clone(), scale: self.scale, repeat: self.repeat }
    }

    fn table(&self, line: usize, out: &Path, digest: &str) -> Result<String, DocumentError> {
        let path = self.quoted().path(out);
        let quick = if self.scale == Scale::Quick { " --scale quick" } else { "" };
        let repeat = self.repeat.map_or(String::new(), |n| format!(" --repeat {n}"));
        let results: Option<Value> =
            std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let study = self.study.clone();
        let makes =
            format!("wordline study run {study}{quick}{repeat} --out {} makes", out.display());
        let results = match results {
            None => {
                let remedy = format!("{makes} them, and so does --run");
                return Err(DocumentError::NoResults { line, study, path, remedy });
            }
            Some(results) if results["digest"] != digest => {
                let remedy = format!("{makes} those of {study}, and so does --run");
                return Err(DocumentError::OfAnother { line, study, path, remedy });
            }
            Some(results) => results,
        };
        let there = results["seeds"].as_array().map_or(1, Vec::len);
        if let Some(asked) = self.repeat.filter(|&n| n as usize != there) {
            let remedy = format!("{makes} these, and so does --run");
            return Err(DocumentError::OfSeeds { line, path, there, asked, remedy });
        }
        let points = !self.rows.is_empty() || !self.at.is_empty() || !self.columns.is_empty();
        let rows = match self.published {
            true if points => Err(BlockError::PublishedAndPoints),
            true => Ok(self.claims(&results)),
            false => self.points(&results),
        };
        let mut rows = rows.map_err(|why| DocumentError::Block { line, why })?.into_iter();
        let head = rows.next().unwrap_or_default();
        let cell = |text: String| text.replace('|', "\\|");
        let row = |cells: Vec<String>| {
            format!("| {} |\n", cells.into_iter().map(cell).collect::<Vec<_>>().join(" | "))
        };
        // Numbers stand flush right: the columns behind the axes, or the difference.
        let right = |i: usize| match self.published {
            true => i == 4,
            false => i >= self.rows.len(),
        };
        let rules = (0..head.len()).map(|i| if right(i) { "---:|" } else { "---|" });
        let rule = format!("|{}\n", rules.collect::<String>());
        Ok(row(head) + &rule + &rows.map(row).collect::<String>())
    }

    /// What was published, ours, and what the one is to the other.
    fn claims(&self, results: &Value) -> Vec<Vec<String>> {
        let head = ["published", "place", "they", "here", "difference", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for c in results["published"].as_array().into_iter().flatten() {
            let text = |key: &str| c[key].as_str().unwrap_or_default().to_owned();
            // A difference that rounds to zero is shown without a sign.
            let percent = |d: f64| match (d * 1e3).round() {
                0.0 => "0.0 %".to_owned(),
                _ => format!("{:+.1} %", d * 100.0),
            };
            let difference = c["difference"].as_f64().map(percent);
            let reaches = c["reaches"].as_array().map(|all| {
                let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
                format!(" ({REACHES} {})", all.join(", "))
            });
            let verdict =
                if c["judgement"].is_null() { text("verdict") } else { text("judgement") };
            rows.push(vec![
                text("what"),
                text("place"),
                text("published"),
                text("ours"),
                difference.unwrap_or_default(),
                verdict.replace('-', " ") + &reaches.unwrap_or_default(),
            ]);
        }
        rows
    }

    fn points(&self, results: &Value) -> Result<Vec<Vec<String>>, BlockError> {
        let points = results["points"].as_array().ok_or(BlockError::Results("points"))?;
        let first = points.first().ok_or(BlockError::Results("points"))?;
        let axes = first["at"].as_object().ok_or(BlockError::Results("axes"))?;
        let choices = self.columns.iter().map(|c| &c.at).chain([&self.at]);
        let named = choices.flat_map(|at| at.keys()).chain(&self.rows);
        if let Some(axis) = named.into_iter().find(|a| !axes.contains_key(*a)) {
            let known = axes.keys().cloned().collect();
            return Err(BlockError::Unknown { what: "axis".into(), name: axis.clone(), known });
        }
        let choices = self.columns.iter().map(|c| &c.at).chain([&self.at]);
        for (axis, values) in choices.flatten() {
            let mut known: Vec<&str> = Vec::new();
            for value in points.iter().filter_map(|p| p["at"][axis].as_str()) {
                if !known.contains(&value) {
                    known.push(value);
                }
            }
            if let Some(none) = values.all().find(|v| !known.contains(v)) {
                let known = known.into_iter().map(str::to_owned).collect();
                return Err(BlockError::Unknown {
                    what: axis.clone(),
                    name: none.to_string(),
                    known,
                });
            }
        }
        let units = &results["units"];
        if let Some(c) = self.columns.iter().find(|c| units[&c.metric].is_null()) {
            let known = units.as_object().into_iter().flat_map(|u| u.keys()).cloned().collect();
            let (what, name) = ("metric".into(), c.metric.clone());
            return Err(BlockError::Unknown { what, name, known });
        }
        let forms = &first["closed_forms"];
        if let Some(c) = self.columns.iter().find(|c| c.form && forms.get(&c.metric).is_none()) {
            let known = forms.as_object().into_iter().flat_map(|f| f.keys()).cloned().collect();
            let (what, name) = ("closed form of".into(), c.metric.clone());
            return Err(BlockError::Unknown { what, name, known });
        }
        let fits = |point: &Value, at: &BTreeMap<String, OneOrMore>| {
            at.iter()
                .all(|(axis, values)| point["at"][axis].as_str().is_some_and(|v| values.has(v)))
        };
        let of = |point: &Value| -> Vec<String> {
            let value = |axis: &String| point["at"][axis].as_str().unwrap_or_default().to_owned();
            self.rows.iter().map(value).collect()
        };
        let mut head = self.rows.clone();
        head.extend(self.columns.iter().map(|c| match (&c.head, units[&c.metric].as_str()) {
            (Some(head), _) => head.clone(),
            (None, Some(unit)) if !unit.is_empty() => format!("{}, {unit}", c.metric),
            (None, _) => c.metric.clone(),
        }));
        let mut rows = vec![head];
        let mut seen: Vec<Vec<String>> = Vec::new();
        for point in points.iter().filter(|p| fits(p, &self.at)) {
            let label = of(point);
            if seen.contains(&label) {
                continue;
            }
            let mut cells = label.clone();
            // What is as in the row above stands there.
            if let Some(above) = seen.last() {
                let same = above.iter().zip(&label).take_while(|(a, b)| a == b).count();
                cells[..same].iter_mut().for_each(String::clear);
            }
            for column in &self.columns {
                let mut of_cell = points
                    .iter()
                    .filter(|p| of(p) == label && fits(p, &self.at) && fits(p, &column.at));
                let cell = of_cell.next();
                if cell.is_some() && of_cell.next().is_some() {
                    let (metric, label) = (column.metric.clone(), label.join(", "));
                    return Err(BlockError::Points { metric, label });
                }
                let kind = if column.form { "closed_forms" } else { "metrics" };
                let x = cell.and_then(|p| p[kind][&column.metric].as_f64());
                let half = cell.filter(|_| !column.form);
                let half = half.and_then(|p| p["half_width_95"][&column.metric].as_f64());
                cells.push(match (x, column.digits, half) {
                    (None, ..) => String::new(),
                    (Some(x), Some(digits), Some(half)) => {
                        format!("{x:.digits$} \u{b1} {half:.digits$}")
                    }
                    (Some(x), Some(digits), None) => format!("{x:.digits$}"),
                    (Some(x), None, half) => with_half(x, half),
                });
            }
            seen.push(label);
            rows.push(cells);
        }
        if seen.is_empty() {
            return Err(BlockError::NoPoint);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"{
        "digest": "of s/t",
        "units": {"mean": "us", "iops": ""},
        "points": [
            {"at": {"drive": "a", "depth": "1"}, "metrics": {"mean": 12.3456, "iops": 80},
                "closed_forms": {"iops": 81}},
            {"at": {"drive": "a", "depth": "32"}, "metrics": {"mean": 152.4, "iops": 208.3},
                "closed_forms": {"iops": 210}},
            {"at": {"drive": "b", "depth": "1"}, "metrics": {"mean": null, "iops": 9}},
            {"at": {"drive": "b", "depth": "32"}, "metrics": {"mean": 160, "iops": 7}}],
        "published": [{"what": "x: latency", "place": "p: IV", "published": "9 us", "ours": "10 us",
            "difference": 0.1111, "verdict": "compared", "claim": "c", "judgement": "not-run"}]}"#;

    fn out() -> tempfile::TempDir {
        let out = tempfile::tempdir().unwrap();
        std::fs::create_dir(out.path().join("s")).unwrap();
        std::fs::write(out.path().join("s/t.json"), RESULTS).unwrap();
        out
    }

    fn digest(study: &str) -> String {
        format!("of {study}")
    }

    fn document(spec: &str, body: &str) -> String {
        format!(
            "text\n\n<!-- table\nstudy = \"s/t\"\n{spec}\n-->\n{body}<!-- end of table -->\nmore\n"
        )
    }

    #[test]
    fn a_table_is_what_the_results_say_and_is_made_anew_each_time() {
        let out = out();
        let spec = "rows = [\"drive\", \"depth\"]\n\
                    columns = [{ metric = \"mean\", digits = 1 }, { metric = \"iops\", head = \"rate\" }]";
        let table = "| drive | depth | mean, us | rate |\n|---|---|---:|---:|\n\
                     | a | 1 | 12.3 | 80 |\n|  | 32 | 152.4 | 208.3 |\n| b | 1 |  | 9 |\n\
                     |  | 32 | 160.0 | 7 |\n";
        let filled = fill(&document(spec, "stale\n"), None, out.path(), &digest).unwrap();
        assert_eq!(filled, document(spec, table));
        assert_eq!(fill(&filled, None, out.path(), &digest).unwrap(), filled);
        let spec = "rows = [\"drive\"]\ncolumns = [{ metric = \"mean\", at = { depth = \"32\" } }]";
        let table = "| drive | mean, us |\n|---|---:|\n| a | 152.4 |\n| b | 160 |\n";
        assert_eq!(
            fill(&document(spec, ""), None, out.path(), &digest).unwrap(),
            document(spec, table)
        );
        let spec = "rows = [\"depth\"]\nat = { drive = \"a\" }\n\
                    columns = [{ metric = \"iops\", form = true, head = \"form\" }]";
        let table = "| depth | form |\n|---|---:|\n| 1 | 81 |\n| 32 | 210 |\n";
        assert_eq!(
            fill(&document(spec, ""), None, out.path(), &digest).unwrap(),
            document(spec, table)
        );
        let table = "| published | place | they | here | difference |  |\n|---|---|---|---|---:|---|\n\
                     | x: latency | p: IV | 9 us | 10 us | +11.1 % | not run |\n";
        let filled = fill(&document("published = true", ""), None, out.path(), &digest).unwrap();
        assert_eq!(filled, document("published = true", table));
        let stale = document("published = true", "stale\n");
        assert_eq!(fill(&stale, Some(Scale::Quick), out.path(), &digest).unwrap(), stale);
    }

    #[test]
    fn means_have_half_of_their_intervals() {
        const MEANS: &str = r#"{
            "digest": "of s/t", "seeds": [1, 2, 3],
            "units": {"mean": "us"},
            "points": [
                {"at": {"drive": "a"}, "metrics": {"mean": 12.3456}, "closed_forms": {"mean": 12},
                    "half_width_95": {"mean": 0.4321}},
                {"at": {"drive": "b"}, "metrics": {"mean": null}, "closed_forms": {"mean": 12},
                    "half_width_95": {"mean": null}}],
            "published": [{"what": "x", "place": "p", "published": "9 us", "ours": "12.35 \u00b1 0.43 us",
                "difference": 0.37, "verdict": "compared", "claim": "c", "judgement": "met",
                "reaches": ["direction"]}]}"#;
        let out = tempfile::tempdir().unwrap();
        std::fs::create_dir(out.path().join("s")).unwrap();
        std::fs::write(out.path().join("s/t.quick.repeated.json"), MEANS).unwrap();
        let filled = |spec: &str, times: u32| {
            let spec = format!("scale = \"quick\"\nrepeat = {times}\n{spec}");
            fill(&document(&spec, ""), None, out.path(), &digest).map_err(|e| e.to_string())
        };
        let points = "rows = [\"drive\"]\ncolumns = [{ metric = \"mean\" }, \
                      { metric = \"mean\", digits = 1, head = \"short\" }, \
                      { metric = \"mean\", form = true, head = \"form\" }]";
        let text = filled(points, 3).unwrap();
        assert!(
            text.contains("\n| a | 12.35 \u{b1} 0.43 | 12.3 \u{b1} 0.4 | 12 |\n| b |  |  | 12 |\n"),
            "{text}"
        );
        let text = filled("published = true", 3).unwrap();
        assert!(
            text.contains("| 12.35 \u{b1} 0.43 us | +37.0 % | met (interval reaches direction) |"),
            "{text}"
        );
        let error = filled(points, 5).unwrap_err();
        assert!(error.starts_with("line 3: the results in ") && error.contains("over 3 seeds"));
        assert!(error.contains("run s/t --scale quick --repeat 5 --out "), "{error}");
    }

    #[test]
    fn what_cannot_be_made_is_named_with_its_line() {
        let out = out();
        for (text, why) in [
            (
                document("rows = [\"drive\"]\ncolumns = [{ metric = \"mean\" }]", ""),
                "more than one point",
            ),
            (document("rows = [\"size\"]", ""), "no axis 'size': there are drive, depth"),
            (
                document("columns = [{ metric = \"p99\" }]", ""),
                "no metric 'p99': there are mean, iops",
            ),
            (
                document("columns = [{ metric = \"mean\", form = true }]", ""),
                "no closed form of 'mean': there are iops",
            ),
            (document("at = { drive = \"c\" }", ""), "no drive 'c': there are a, b"),
            (
                document("columns = [{ metric = \"mean\", at = { depth = \"2\" } }]", ""),
                "no depth '2': there are 1, 32",
            ),
            (document("published = true\nrows = [\"drive\"]", ""), "leave them out"),
            (document("", "").replace("<!-- table", "<!--table"), "alone on a line"),
            (document("", "").replace('\n', "\r\n"), "ends with LF"),
            (document("colums = []", ""), "unknown field `colums`"),
            (document("scale = \"quick\"", ""), "--scale quick --out"),
            (document("", "").replace("<!-- end of table -->", ""), "is missing"),
        ] {
            let error = fill(&text, None, out.path(), &digest).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(why), "{error}");
        }
        let changed = |_: &str| "of s/t, changed".to_string();
        let error = fill(&document("", ""), None, out.path(), &changed).unwrap_err().to_string();
        assert!(error.contains("or of an older program: wordline study run s/t"), "{error}");
    }
}
