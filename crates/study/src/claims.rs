//! The list of what was published, one statement a claim: which study decides it, or why none does,
//! and what came out.

use crate::compare::{Comparison, Judgement};
use crate::error::Unknown;
use crate::plan::{Plan, Scale};
use crate::preset;
use crate::spec::{Published, Scalar, Study};
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use wordline_profile::{ConfigError, Document};

const FILE: &str = "studies/claims.toml";
static TEXT: &str = include_str!("../../../studies/claims.toml");

/// A publication whose claims are in the list.
#[derive(Clone, Debug, Deserialize)]
pub struct Paper {
    /// Short name, as claims have it.
    pub id: String,
    /// Title as published.
    pub title: String,
}

/// What sort of statement a claim is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A setting of a device, a testbed or an experiment; no run gives it.
    Parameter,
    /// A number of its own.
    Value,
    /// A change against another number, as a factor or in percent.
    Ratio,
    /// Which of several numbers is larger.
    Ordering,
    /// A bound that a number stays below or above.
    Threshold,
}

/// A statement of a paper.
#[derive(Clone, Debug, Deserialize)]
pub struct Claim {
    /// Short name, unique in the list.
    pub id: String,
    /// The paper's id.
    pub paper: String,
    /// Section, figure or table.
    pub place: String,
    /// The statement in words.
    pub what: String,
    /// Decides how it is judged.
    pub kind: Kind,
    /// A number, or the words that stand for one.
    #[serde(default)]
    pub value: Option<Scalar>,
    /// The number stays below this.
    #[serde(default)]
    pub below: Option<f64>,
    /// The number stays above this.
    #[serde(default)]
    pub above: Option<f64>,
    /// Unit of all of its numbers; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// Share of the number by which ours may differ.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// The same as a number of its unit.
    #[serde(default)]
    pub points: Option<f64>,
    /// A constant of a profile was set from it.
    #[serde(default)]
    pub set_from: bool,
    /// The profile or study that has it as a setting.
    #[serde(default)]
    pub held_by: Option<String>,
    /// How its line there begins.
    #[serde(default)]
    pub line: Option<String>,
    /// Why nothing here can tell.
    #[serde(default)]
    pub why_not: Option<String>,
}

impl Claim {
    /// The number that a statement of a study is held against, if there is one.
    pub fn number(&self) -> Option<f64> {
        let value = self.value.as_ref().and_then(Scalar::number);
        value.or(self.below).or(self.above)
    }

    /// By how much ours may differ.
    pub fn allowed(&self) -> f64 {
        let number = self.number().unwrap_or_default().abs();
        self.points.unwrap_or_else(|| self.tolerance.unwrap_or_default() * number)
    }

    /// The number that says that there is no effect, where there is one.
    fn neutral(&self) -> Option<f64> {
        match (self.kind, self.unit.as_str()) {
            (Kind::Ratio, "%") => Some(0.0),
            (Kind::Ratio, _) => Some(1.0),
            _ => None,
        }
    }

    /// Judges one number of ours by the claim's: it is met, or at least its direction is, or neither.
    pub fn judge(&self, ours: f64) -> Judgement {
        let (Some(number), allowed) = (self.number(), self.allowed()) else {
            return Judgement::Wrong;
        };
        let met = match (&self.value, self.below, self.above) {
            (Some(_), ..) => (ours - number).abs() <= allowed,
            (_, Some(below), _) => ours < below + allowed,
            (.., above) => ours > above.unwrap_or_default() - allowed,
        };
        let direction = match self.neutral() {
            Some(none) => (ours - none) * (number - none) > 0.0,
            None => (0.5..=2.0).contains(&(ours / number)),
        };
        match (met, direction) {
            (true, _) => Judgement::Met,
            (_, true) => Judgement::Direction,
            _ => Judgement::Wrong,
        }
    }

    /// What was published, with its unit.
    pub fn published(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        match (&self.value, self.below, self.above) {
            (Some(value), ..) => format!("{value}{unit}"),
            (_, Some(below), _) => format!("below {below}{unit}"),
            (.., Some(above)) => format!("above {above}{unit}"),
            _ => "its order".into(),
        }
    }

    /// By how much ours may differ, in percent or in its unit; empty if nothing is stated.
    pub fn tolerance_text(&self) -> String {
        match (self.points, self.tolerance) {
            (Some(points), _) => format!("{points} {}", self.unit).trim_end().into(),
            (_, Some(share)) => format!("{} %", (share * 1e3).round() / 10.0),
            _ => String::new(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct File {
    paper: Vec<Paper>,
    claim: Vec<Claim>,
}

/// The list, with its file for the places of errors.
#[derive(Clone, Debug)]
pub struct Claims {
    /// All papers.
    pub papers: Vec<Paper>,
    /// All claims, in the order of the file.
    pub claims: Vec<Claim>,
    document: Document,
}

impl Claims {
    /// The list that comes with the program.
    pub fn own() -> Result<&'static Claims, ConfigError> {
        static OWN: OnceLock<Result<Claims, ConfigError>> = OnceLock::new();
        OWN.get_or_init(|| Claims::parse(FILE, TEXT)).as_ref().map_err(Clone::clone)
    }

    /// `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Claims, ConfigError> {
        let document = Document::parse(file, text)?;
        let File { paper, claim } = document.read(&["paper", "claim"])?;
        let list = Claims { papers: paper, claims: claim, document };
        list.check()?;
        Ok(list)
    }

    /// The claim with this id.
    pub fn find(&self, id: &str) -> Result<&Claim, Unknown> {
        let names = || self.claims.iter().map(|c| c.id.as_str());
        let found = self.claims.iter().find(|c| c.id == id);
        found.ok_or_else(|| {
            Unknown::new("claim", id, names()).of_many("those of studies/claims.toml")
        })
    }

    /// The paper with this id.
    pub fn paper(&self, id: &str) -> Result<&Paper, Unknown> {
        let names = || self.papers.iter().map(|p| p.id.as_str());
        self.papers.iter().find(|p| p.id == id).ok_or_else(|| Unknown::new("paper", id, names()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let mut ids = BTreeSet::new();
        for (i, claim) in self.claims.iter().enumerate() {
            let at = format!("claim.{i}");
            let fail = |key: &str, message: String| {
                Err(self.document.error(&format!("{at}.{key}"), message))
            };
            if !ids.insert(&claim.id) {
                return fail("id", format!("the claim '{}' is there twice", claim.id));
            }
            if let Err(unknown) = self.paper(&claim.paper) {
                return fail("paper", unknown.to_string());
            }
            let sides = [claim.value.is_some(), claim.below.is_some(), claim.above.is_some()];
            if sides.iter().filter(|&&given| given).count() > 1 {
                return fail("value", "give one of value, below and above".into());
            }
            if claim.held_by.is_some() != claim.line.is_some() {
                return fail("held_by", "held_by and line go together".into());
            }
            if claim.held_by.is_some() && claim.why_not.is_some() {
                return fail("why_not", "a claim that a file has as a setting needs none".into());
            }
            if let (Some(name), Some(line)) = (&claim.held_by, &claim.line) {
                let text = match preset::presets().iter().find(|p| p.name == name) {
                    Some(study) => study.text,
                    None => match wordline_profile::show(name) {
                        Ok(text) => text,
                        Err(error) => return fail("held_by", error.to_string()),
                    },
                };
                if !text.lines().any(|l| l.trim_start().starts_with(line.as_str())) {
                    return fail("line", format!("no line of {name} begins with {line}"));
                }
            }
        }
        Ok(())
    }

    /// What of the list is wrong beside the studies: a claim that nothing decides needs a reason, and
    /// one that a study decides none.
    pub fn check_covered(&self, studies: &[Study]) -> Result<(), ConfigError> {
        let published = studies.iter().flat_map(|s| &s.spec.published);
        let decided: BTreeSet<&str> = published.filter_map(|p| p.claim.as_deref()).collect();
        for (i, claim) in self.claims.iter().enumerate() {
            let fail = |key: &str, message: &str| {
                Err(self.document.error(&format!("claim.{i}.{key}"), message))
            };
            match (decided.contains(claim.id.as_str()), &claim.why_not) {
                (true, Some(_)) => return fail("why_not", "a study has a statement of this claim"),
                (false, None) if claim.held_by.is_none() => {
                    let message = "no study has a statement of this claim: give why_not";
                    return fail("id", message);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What became of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every number of ours is within the tolerance.
    Met,
    /// At least its direction is right.
    Direction,
    /// Not even its direction is right.
    Wrong,
    /// No results are there.
    NotRun,
    /// A profile or a study has it as a setting.
    Set,
    /// No study gives such a number.
    NotCovered,
}

impl Verdict {
    /// All, in the order of tables.
    pub const ALL: [Verdict; 6] = [
        Verdict::Met,
        Verdict::Direction,
        Verdict::Wrong,
        Verdict::NotRun,
        Verdict::Set,
        Verdict::NotCovered,
    ];

    /// As tables have it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Direction => "direction",
            Verdict::Wrong => "wrong",
            Verdict::NotRun => "not run",
            Verdict::Set => "set",
            Verdict::NotCovered => "not covered",
        }
    }
}

/// One claim with all that is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct Decided {
    /// Short name of the claim.
    pub id: String,
    /// The paper's id.
    pub paper: String,
    /// Section, figure or table.
    pub place: String,
    /// The statement in words.
    pub what: String,
    /// Decides how it was judged.
    pub kind: Kind,
    /// The published number with its unit, or the order.
    pub published: String,
    /// By how much ours may differ.
    pub tolerance: String,
    /// Study, metric and points, one entry a statement; or the file that has it; or why nothing does.
    pub by: Vec<String>,
    /// Our numbers, one entry a statement.
    pub ours: Vec<String>,
    /// The worst of its statements.
    pub verdict: Verdict,
    /// A constant of a profile was set from it.
    pub set_from: bool,
}

/// All statements about a claim together: the worst counts.
fn verdict(judged: &[Judgement]) -> Verdict {
    match judged.iter().max() {
        Some(Judgement::Met) => Verdict::Met,
        Some(Judgement::Direction) => Verdict::Direction,
        Some(Judgement::Wrong) => Verdict::Wrong,
        Some(Judgement::NotRun) | None => Verdict::NotRun,
    }
}

/// The points a statement is about.
fn points(study: &Study, statement: &Published) -> String {
    let mut text = format!("{}: {}", study.name, statement.metric);
    let choice = |(axis, choice): (&String, &crate::spec::Choice)| {
        let all: Vec<&str> = choice.0.iter().map(|v| v.0.as_str()).collect();
        format!("{axis} {}", all.join("/"))
    };
    let at: Vec<String> = statement.at.iter().map(choice).collect();
    if !at.is_empty() {
        text += &format!(" at {}", at.join(", "));
    }
    if let Some(to) = &statement.to {
        let to: Vec<String> = to.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        text += &format!(" to {}", to.join(", "));
    }
    if let Some(axis) = &statement.along {
        text += &format!(" along {axis}");
    }
    text
}

/// The claims of a paper, or of all, as far as results of this program are there.
pub fn decide(
    list: &Claims,
    paper: Option<&str>,
    out: &Path,
    scale: Scale,
    build: &str,
) -> Result<Vec<Decided>, ConfigError> {
    list.check_covered(&studies()?)?;
    let mut found: Vec<(String, String, Comparison)> = Vec::new();
    for study in &studies_of(list, paper)? {
        let plan = plan(study, scale)?;
        let store = Store::look(out, &study.name, build);
        let table = crate::tabulate(study, &plan, &store, &[])?;
        for (statement, comparison) in study.spec.published.iter().zip(table.comparisons) {
            if let Some(id) = &statement.claim {
                found.push((id.clone(), points(study, statement), comparison));
            }
        }
    }
    let chosen = list.claims.iter().filter(|c| paper.is_none_or(|paper| c.paper == paper));
    Ok(chosen
        .map(|claim| {
            let of: Vec<_> = found.iter().filter(|(id, ..)| *id == claim.id).collect();
            let judged: Vec<Judgement> = of.iter().filter_map(|(.., c)| c.judgement).collect();
            let (by, verdict) = match (&claim.held_by, &claim.why_not) {
                _ if !of.is_empty() => {
                    (of.iter().map(|(_, by, _)| by.clone()).collect(), verdict(&judged))
                }
                (Some(file), _) => {
                    let line = claim.line.as_deref().unwrap_or_default();
                    (vec![format!("{file}: {line}")], Verdict::Set)
                }
                (_, why) => (why.iter().cloned().collect(), Verdict::NotCovered),
            };
            Decided {
                id: claim.id.clone(),
                paper: claim.paper.clone(),
                place: claim.place.clone(),
                what: claim.what.clone(),
                kind: claim.kind,
                published: claim.published(),
                tolerance: claim.tolerance_text(),
                by,
                ours: of.iter().map(|(.., c)| c.ours.clone()).collect(),
                verdict,
                set_from: claim.set_from || verdict == Verdict::Set,
            }
        })
        .collect())
}

/// The studies that decide a claim of a paper, or of any.
pub fn studies_of(list: &Claims, paper: Option<&str>) -> Result<Vec<Study>, ConfigError> {
    let wanted = |p: &Published| {
        let claim = p.claim.as_ref().and_then(|id| list.find(id).ok());
        claim.is_some_and(|claim| paper.is_none_or(|paper| claim.paper == paper))
    };
    let mut all = studies()?;
    all.retain(|study| study.spec.published.iter().any(wanted));
    Ok(all)
}

/// All studies that come with the program.
pub fn studies() -> Result<Vec<Study>, ConfigError> {
    let parse = |p: &preset::Preset| Study::parse(p.name, &format!("{}.toml", p.name), p.text);
    preset::presets().iter().map(parse).collect()
}

/// The plan of a study that comes with the program: it reads no file.
pub fn plan(study: &Study, scale: Scale) -> Result<Plan, ConfigError> {
    let no_file = |_: &str| Err(std::io::Error::other("a study that comes along reads no file"));
    Plan::new(study, scale, &Default::default(), &no_file)
}

/// How many claims have each verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The paper's id, or `all`.
    pub paper: String,
    /// Claims of the paper.
    pub all: usize,
    /// Claims that are met.
    pub met: usize,
    /// Claims whose direction is right.
    pub direction: usize,
    /// Claims that are wrong.
    pub wrong: usize,
    /// Claims without results.
    pub not_run: usize,
    /// Claims that a profile or study has as a setting.
    pub set: usize,
    /// Claims that no study gives a number for.
    pub not_covered: usize,
    /// Claims that runs decide and that a constant of ours was set from.
    pub decided_and_set_from: usize,
}

impl Count {
    fn of(paper: &str, decided: &[&Decided]) -> Count {
        let count = |v: Verdict| decided.iter().filter(|d| d.verdict == v).count();
        let runs = |d: &&&Decided| !matches!(d.verdict, Verdict::Set | Verdict::NotCovered);
        Count {
            paper: paper.into(),
            all: decided.len(),
            met: count(Verdict::Met),
            direction: count(Verdict::Direction),
            wrong: count(Verdict::Wrong),
            not_run: count(Verdict::NotRun),
            set: count(Verdict::Set),
            not_covered: count(Verdict::NotCovered),
            decided_and_set_from: decided.iter().filter(runs).filter(|d| d.set_from).count(),
        }
    }
    fn cells(&self) -> [usize; 8] {
        let Count { all, met, direction, wrong, not_run, set, not_covered, .. } = *self;
        [all, met, direction, wrong, not_run, set, not_covered, self.decided_and_set_from]
    }
}

/// By paper, and of all where there are several.
pub fn counts(list: &Claims, decided: &[Decided]) -> Vec<Count> {
    let of = |paper: &Paper| {
        let claims: Vec<&Decided> = decided.iter().filter(|d| d.paper == paper.id).collect();
        (!claims.is_empty()).then(|| Count::of(&paper.id, &claims))
    };
    let mut counts: Vec<Count> = list.papers.iter().filter_map(of).collect();
    if counts.len() > 1 {
        counts.push(Count::of("all", &decided.iter().collect::<Vec<_>>()));
    }
    counts
}

/// The counts as a table in Markdown.
pub fn counts_markdown(counts: &[Count]) -> String {
    let mut out = String::from(
        "| paper | claims | met | direction | wrong | not run | set | not covered | decided, and a constant set from it |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for count in counts {
        let cells = count.cells().map(|n| n.to_string()).join(" | ");
        out += &format!("| {} | {cells} |\n", count.paper);
    }
    out
}

/// One line of Markdown's table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The claims with their verdicts, as a page of Markdown.
pub fn markdown(list: &Claims, decided: &[Decided], scale: Scale) -> String {
    let mut out = format!("{} scale\n\n", scale.name());
    out += &counts_markdown(&counts(list, decided));
    for paper in &list.papers {
        let mut claims = decided.iter().filter(|d| d.paper == paper.id).peekable();
        if claims.peek().is_none() {
            continue;
        }
        out += &format!("\n## {}: {}\n\n", paper.id, paper.title);
        out += "| claim | place | what | published | tolerance | decided by | here | verdict | set from it |\n";
        out += "|---|---|---|---|---|---|---|---|---|\n";
        for d in claims {
            let set = if d.set_from { "yes" } else { "" };
            let (by, ours) = (d.by.join("; "), d.ours.join("; "));
            let cells = [
                &d.id,
                &d.place,
                &d.what,
                &d.published,
                &d.tolerance,
                &by,
                &ours,
                d.verdict.word(),
                set,
            ];
            out += &format!("| {} |\n", cells.map(escaped).join(" | "));
        }
    }
    out
}

/// The claims with their verdicts, a line each.
pub fn csv(decided: &[Decided]) -> String {
    let quoted = |s: &str| match s.contains([',', '"', '\n']) {
        true => format!("\"{}\"", s.replace('"', "\"\"")),
        false => s.to_string(),
    };
    let mut out = String::from(
        "paper,claim,place,what,kind,published,tolerance,decided by,here,verdict,set from it\n",
    );
    for d in decided {
        let kind = serde_json::to_value(d.kind).unwrap_or_default();
        let cells = [
            d.paper.as_str(),
            &d.id,
            &d.place,
            &d.what,
            kind.as_str().unwrap_or_default(),
            &d.published,
            &d.tolerance,
            &d.by.join("; "),
            &d.ours.join("; "),
            d.verdict.word(),
            if d.set_from { "yes" } else { "no" },
        ];
        out += &(cells.map(quoted).join(",") + "\n");
    }
    out
}

/// The claims with their verdicts and counts.
pub fn json(list: &Claims, decided: &[Decided], scale: Scale) -> String {
    let all = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scale": scale.name(),
        "counts": counts(list, decided),
        "claims": decided,
    });
    serde_json::to_string_pretty(&all).expect("plain values have a JSON form") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
[[paper]]
id = "p"
title = "A paper"
[[claim]]
id = "a"
paper = "p"
place = "1"
what = "a latency"
kind = "value"
value = 10
unit = "us"
tolerance = 0.05
[[claim]]
id = "b"
paper = "p"
place = "2"
what = "a gain"
kind = "ratio"
value = 20
unit = "%"
points = 2
[[claim]]
id = "c"
paper = "p"
place = "3"
what = "a bound"
kind = "threshold"
below = 900
unit = "us"
[[claim]]
id = "d"
paper = "p"
place = "4"
what = "a page"
kind = "parameter"
value = 16
unit = "KB"
held_by = "media/bics"
line = "page_bytes = 16384"
[[claim]]
id = "e"
paper = "p"
place = "5"
what = "times as slow"
kind = "ratio"
value = 5
unit = "x"
tolerance = 0.1
why_not = "none"
"#;

    #[test]
    fn a_number_is_met_within_its_tolerance_and_else_has_a_direction() {
        let list = Claims::parse("c.toml", LIST).unwrap();
        use Judgement::*;
        for (id, ours, wanted) in [
            ("a", 10.4, Met),
            ("a", 9.5, Met),
            ("a", 10.6, Direction),
            ("a", 20.1, Wrong),
            ("a", 4.9, Wrong),
            ("b", 18.0, Met),
            ("b", 3.0, Direction),
            ("b", -1.0, Wrong),
            ("c", 899.0, Met),
            ("c", 1100.0, Direction),
            ("c", 1900.0, Wrong),
            ("e", 5.4, Met),
            ("e", 1.1, Direction),
            ("e", 0.9, Wrong),
        ] {
            assert_eq!(list.find(id).unwrap().judge(ours), wanted, "{id} {ours}");
        }
    }

    #[test]
    fn the_worst_statement_of_a_claim_counts() {
        use Judgement::*;
        for (judged, wanted) in [
            (&[Met, Met][..], Verdict::Met),
            (&[Met, Direction], Verdict::Direction),
            (&[Direction, Wrong, Met], Verdict::Wrong),
            (&[Wrong, NotRun], Verdict::NotRun),
        ] {
            assert_eq!(verdict(judged), wanted, "{judged:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_list_has_a_place() {
        for (from, to, message) in [
            ("id = \"b\"", "id = \"a\"", "c.toml:15:6: the claim 'a' is there twice"),
            ("paper = \"p\"\nplace = \"2\"", "paper = \"q\"\nplace = \"2\"", "unknown paper 'q'"),
            ("kind = \"threshold\"", "kind = \"treshold\"", "unknown value 'treshold'"),
            ("\"media/bics\"", "\"media/bisc\"", "c.toml:39:11:"),
            ("16384\"", "16385\"", "no line of media/bics begins with page_bytes = 16385"),
            ("below = 900", "below = 900\nvalue = 3", "give one of value, below and above"),
            ("line = ", "#line = ", "held_by and line go together"),
            ("tolerance = 0.05", "tolerence = 0.05", "did you mean 'tolerance'?"),
        ] {
            let text = LIST.replacen(from, to, 1);
            assert_ne!(text, LIST, "{from}");
            let error = Claims::parse("c.toml", &text).unwrap_err().to_string();
            assert!(error.contains(message), "{from}: {error}");
        }
        let list = Claims::parse("c.toml", LIST).unwrap();
        let error = list.check_covered(&[]).unwrap_err().to_string();
        assert!(error.starts_with("c.toml:6:6: no study has a statement"), "{error}");
        let near = list.find("aa").unwrap_err().to_string();
        assert!(near.contains("unknown claim 'aa'"), "{near}");
    }

    #[test]
    fn every_claim_of_the_list_is_decided_or_says_why_not() {
        let list = Claims::own().unwrap_or_else(|e| panic!("{e}"));
        let studies = studies().unwrap_or_else(|e| panic!("{e}"));
        list.check_covered(&studies).unwrap_or_else(|e| panic!("{e}"));
        let empty = tempfile::tempdir().unwrap();
        let decided = decide(list, None, empty.path(), Scale::Whole, "none").unwrap();
        assert_eq!(decided.len(), list.claims.len());
        let counts = counts(list, &decided);
        for count in &counts {
            let [all, verdicts @ .., _] = count.cells();
            assert_eq!(all, verdicts.iter().sum::<usize>(), "{}", count.paper);
        }
        let papers = counts.len() - 1;
        assert_eq!(papers, list.papers.len());
        assert_eq!(counts[papers].all, counts[..papers].iter().map(|c| c.all).sum::<usize>());
        assert_eq!(
            counts[papers].not_run + counts[papers].set + counts[papers].not_covered,
            decided.len()
        );
        // A claim that a run could decide says more than its kind why it does not.
        for claim in &list.claims {
            assert!(claim.why_not.as_ref().is_none_or(|why| why.len() > 15), "{}", claim.id);
        }
    }
}
