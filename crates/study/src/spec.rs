//! A study file: what to run, over which axes, what to read from the results, and what was
//! published.

use crate::claims::Claims;
use crate::error::Unknown;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use wordline_cache::digest;
use wordline_profile::{ConfigError, Document};
use wordline_sim::Precondition;

/// A value of an axis or a variable: as written, and as a number if it is one.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct Scalar(pub String);

impl Scalar {
    pub fn number(&self) -> Option<f64> {
        self.0.parse().ok().filter(|x: &f64| x.is_finite())
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a switch")
    }
    fn visit_str<E: de::Error>(self, s: &str) -> Result<Scalar, E> {
        Ok(Scalar(s.into()))
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Scalar, E> {
        Ok(Scalar(n.to_string()))
    }
    fn visit_f64<E: de::Error>(self, x: f64) -> Result<Scalar, E> {
        Ok(Scalar(x.to_string()))
    }
    fn visit_bool<E: de::Error>(self, b: bool) -> Result<Scalar, E> {
        Ok(Scalar(b.to_string()))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Scalar, D::Error> {
        d.deserialize_any(ScalarVisitor)
    }
}

/// One value, or an array of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice(pub Vec<Scalar>);

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Choice, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Choice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or an array of values")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Choice, E> {
                ScalarVisitor.visit_str(s).map(|s| Choice(vec![s]))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Choice, E> {
                ScalarVisitor.visit_i64(n).map(|s| Choice(vec![s]))
            }
            fn visit_f64<E: de::Error>(self, x: f64) -> Result<Choice, E> {
                ScalarVisitor.visit_f64(x).map(|s| Choice(vec![s]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Choice, A::Error> {
                let mut all = Vec::new();
                while let Some(value) = seq.next_element()? {
                    all.push(value);
                }
                Ok(Choice(all))
            }
        }
        d.deserialize_any(Either)
    }
}

pub type Values = BTreeMap<String, Scalar>;
/// Values of some axes.
pub type At = BTreeMap<String, Choice>;

#[derive(Clone, Debug, Deserialize)]
pub struct Head {
    pub title: String,
    /// What the figure shows, in a sentence or two.
    pub shows: String,
    /// Paper, section and figure.
    #[serde(default)]
    pub source: String,
}

/// A value that may be `none`, which is a name here and not the absence of one.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

fn default_stack() -> String {
    "linux-libaio".into()
}
fn default_seed() -> u64 {
    1
}
fn default_true() -> bool {
    true
}
fn default_scale() -> f64 {
    1.0
}

/// What all points have in common.
#[derive(Clone, Debug, Deserialize)]
pub struct Base {
    /// Unless a topology has them.
    #[serde(default)]
    pub device: Option<String>,
    /// Drives, hosts and what joins them: a file, or the text of one.
    #[serde(default)]
    pub topology: Option<String>,
    /// So many of them as an array of this level; `none` is the drive alone.
    #[serde(default, deserialize_with = "given")]
    pub array: Option<String>,
    #[serde(default)]
    pub drives: Option<Scalar>,
    #[serde(default)]
    pub ftl: Option<String>,
    #[serde(default = "default_stack")]
    pub stack: String,
    #[serde(default, deserialize_with = "given")]
    pub testbed: Option<String>,
    #[serde(default)]
    pub fs: Option<String>,
    #[serde(default)]
    pub precondition: Precondition,
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Overrides, as of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Check that every read returns the newest write; 2 bytes a sector.
    #[serde(default = "default_true")]
    pub integrity: bool,
    /// A program as workload; jobs then run beside it.
    #[serde(default)]
    pub app: Option<String>,
    /// Programs beside it or beside jobs, with their options.
    #[serde(default)]
    pub with: Vec<String>,
    /// The text of a fio job file; may be left out where there is a program.
    #[serde(default)]
    pub job: String,
}

/// What a value of an axis, or the quick scale, changes.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Change {
    /// The value's name on the axis; the quick scale has none.
    #[serde(default, deserialize_with = "given")]
    pub name: Option<Scalar>,
    pub device: Option<String>,
    pub topology: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub array: Option<String>,
    pub drives: Option<Scalar>,
    pub ftl: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub stack: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub testbed: Option<String>,
    pub app: Option<String>,
    pub with: Option<Vec<String>>,
    pub fs: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub precondition: Option<Precondition>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub set: Vec<String>,
    #[serde(default)]
    pub vars: Values,
}

impl Change {
    /// Whether it says what the drives are by a topology. None: it does not say what they are.
    pub fn lists_drives(&self) -> Option<bool> {
        let one = self.device.is_some() || self.array.is_some() || self.drives.is_some();
        (one || self.topology.is_some()).then_some(self.topology.is_some())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Axis {
    pub name: String,
    /// How charts and tables call it.
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub values: Vec<Scalar>,
    #[serde(default)]
    pub value: Vec<Change>,
    /// The values of the quick scale; all of them if absent.
    #[serde(default)]
    pub quick: Option<Vec<Scalar>>,
    /// The word of `--vary` that its values are of.
    #[serde(skip)]
    pub varied: Option<String>,
}

impl Axis {
    pub fn all(&self) -> impl Iterator<Item = &Scalar> {
        self.values.iter().chain(self.value.iter().filter_map(|v| v.name.as_ref()))
    }
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Metric {
    pub name: String,
    /// How charts and pages call it.
    #[serde(default)]
    pub label: Option<String>,
    /// Dotted, into the JSON+ result.
    #[serde(default)]
    pub path: Option<String>,
    /// An expression in metrics before it, variables and numeric axes.
    #[serde(default)]
    pub formula: Option<String>,
    #[serde(default)]
    pub unit: String,
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// The number of a point where `path` names an element that its array lacks: a function never
    /// called, say.
    #[serde(default)]
    pub absent: Option<f64>,
    /// Divided by the same metric at the point with these values instead.
    #[serde(default)]
    pub relative_to: Option<Values>,
    /// The mean of the metric over the points with each of these values instead.
    #[serde(default)]
    pub mean_of: Option<At>,
}

impl Metric {
    /// In words.
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| words(&self.name))
    }
}

/// A name in words: short ones that the field has are written out.
pub fn words(name: &str) -> String {
    // p99_9 is a percentile; p99_4 is one of something else.
    if let Some((whole, part)) = name.split_once('_')
        && whole.strip_prefix('p').is_some_and(|n| n.parse::<u32>().is_ok())
        && part.bytes().all(|digit| digit == b'9')
    {
        return format!("{whole}.{part}");
    }
    let word = |word: &str| match word {
        "wa" => "write amplification".to_owned(),
        "bw" => "bandwidth".into(),
        "gc" => "GC".into(),
        "kib" => "KiB".into(),
        "mib" => "MiB".into(),
        "iops" => "IOPS".into(),
        "kiops" => "kIOPS".into(),
        "cpu" => "CPU".into(),
        "io" => "I/O".into(),
        "ios" => "I/Os".into(),
        _ => word.into(),
    };
    name.split('_').map(word).collect::<Vec<_>>().join(" ")
}

/// What a closed form says a metric should be.
#[derive(Clone, Debug, Deserialize)]
pub struct Form {
    pub metric: String,
    pub formula: String,
    #[serde(default)]
    pub at: At,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    Rises,
    Falls,
    /// Stays within `slack`.
    Level,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Published {
    /// A claim of the list, which has its words and its number.
    #[serde(default)]
    pub claim: Option<String>,
    #[serde(default)]
    pub what: String,
    #[serde(default)]
    pub place: String,
    pub metric: String,
    /// The points meant; all of an axis that is not named.
    #[serde(default)]
    pub at: At,
    /// A ratio: what the metric is divided by, at the point with these values instead.
    #[serde(default)]
    pub to: Option<Values>,
    #[serde(default)]
    pub value: Option<f64>,
    #[serde(default)]
    pub below: Option<f64>,
    #[serde(default)]
    pub above: Option<f64>,
    /// The axis of an ordering.
    #[serde(default)]
    pub along: Option<String>,
    /// The axis' values in the order meant; its own by default.
    #[serde(default)]
    pub order: Option<Vec<Scalar>>,
    #[serde(default)]
    pub trend: Option<Trend>,
    /// Share by which neighbours may miss the trend.
    #[serde(default)]
    pub slack: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    #[default]
    Lines,
    /// The metrics are parts of a whole, on top of each other.
    Stack,
    /// The metrics follow each other to the right.
    Sequence,
    /// Share of I/Os slower than a latency, from histogram bins.
    Slower,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Chart {
    #[serde(default)]
    pub kind: ChartKind,
    /// The axis drawn to the right.
    #[serde(default)]
    pub x: Option<String>,
    /// Metrics, a panel each.
    #[serde(default)]
    pub y: Vec<String>,
    /// Axes that make panels; if absent, those that leave at most eight curves in each.
    #[serde(default)]
    pub panels: Option<Vec<String>>,
    /// Panels share a scale only where these axes have the same values.
    #[serde(default)]
    pub own_y: Vec<String>,
    /// Where the metrics of a `sequence` stand.
    #[serde(default)]
    pub places: Vec<f64>,
    #[serde(default)]
    pub x_label: Option<String>,
    #[serde(default)]
    pub y_label: Option<String>,
    /// Path of the bins, for `slower`.
    #[serde(default)]
    pub bins: Option<String>,
    #[serde(default)]
    pub log_x: bool,
    #[serde(default)]
    pub log_y: bool,
}

/// A study's file.
#[derive(Clone, Debug, Deserialize)]
pub struct Spec {
    /// `[study]`: title and reference.
    pub study: Head,
    /// `[base]`: machine and job that points change.
    pub base: Base,
    /// `[vars]`: texts that stand for others.
    #[serde(default)]
    pub vars: Values,
    /// `[quick]`: what a quick run changes.
    #[serde(default)]
    pub quick: Option<Change>,
    /// `[[axis]]`: what is varied.
    pub axis: Vec<Axis>,
    /// `[[metric]]`: what is read from results.
    pub metric: Vec<Metric>,
    /// `[[form]]`: closed forms beside metrics.
    #[serde(default)]
    pub form: Vec<Form>,
    /// `[[published]]`: what the paper says.
    #[serde(default)]
    pub published: Vec<Published>,
    /// `[chart]`: what is drawn.
    #[serde(default)]
    pub chart: Option<Chart>,
}

const LISTS: [&str; 5] = ["axis", "axis.value", "metric", "form", "published"];

/// A study as parsed, with its file for the places of errors found later.
#[derive(Clone, Debug)]
pub struct Study {
    /// `rail/read-latency-vs-write-rate`, or the path without `.toml`.
    pub name: String,
    /// The file's content.
    pub spec: Spec,
    /// The file's text with its places.
    pub document: Document,
    text: String,
    /// Of the text, and of what it says was published.
    pub digest: String,
    /// So many seeds are each point's, in place of one.
    pub repeat: Option<u32>,
}

impl Study {
    /// `file` is for messages.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Study, ConfigError> {
        let document = Document::parse(file, text)?;
        let spec: Spec = document.read(&LISTS)?;
        let (name, text) = (name.into(), text.to_owned());
        let mut study = Study { name, spec, document, text, digest: String::new(), repeat: None };
        study.take_claims()?;
        study.check()?;
        study.digest = digest(&format!("{}{:?}", study.text, study.spec.published));
        Ok(study)
    }

    /// Gives statements the words and the number of the claims they name.
    fn take_claims(&mut self) -> Result<(), ConfigError> {
        for (i, statement) in self.spec.published.iter_mut().enumerate() {
            let at = format!("published.{i}");
            let Some(id) = &statement.claim else {
                let missing = match (statement.what.is_empty(), statement.place.is_empty()) {
                    (true, _) => "what",
                    (_, true) => "place",
                    _ => continue,
                };
                let message =
                    format!("the key '{missing}' of [[published]] is missing, or 'claim'");
                return Err(self.document.error(&at, message));
            };
            let list = Claims::own()?;
            let claim = list
                .find(id)
                .map_err(|e| self.document.error(&format!("{at}.claim"), e.to_string()))?;
            if !statement.place.is_empty() {
                let message = "a claim has a place of its own: leave this out";
                return Err(self.document.error(&format!("{at}.place"), message));
            }
            if statement.what.is_empty() {
                statement.what.clone_from(&claim.what);
            }
            statement.place = format!("{}: {}", claim.paper, claim.place);
            let own = [statement.value, statement.below, statement.above];
            let has_own = statement.along.is_some() || own.iter().any(Option::is_some);
            match claim.number() {
                Some(_) if statement.along.is_none() && has_own => {
                    let message = format!("the claim {id} has the number: leave this one out");
                    return Err(self.document.error(&at, message));
                }
                Some(_) if statement.along.is_none() => {
                    statement.value = claim.value.as_ref().and_then(Scalar::number);
                    (statement.below, statement.above) = (claim.below, claim.above);
                }
                None if statement.value.is_some() => {
                    let message =
                        format!("the claim {id} has no number: give below, above or a trend");
                    return Err(self.document.error(&format!("{at}.value"), message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The axis of this name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.spec.axis.iter().find(|a| a.name == name)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let spec = &self.spec;
        let fail = |path: String, message: String| Err(self.document.error(&path, message));
        let changes = spec.axis.iter().flat_map(|a| &a.value).chain(&spec.quick);
        let of_axis = changes.into_iter().any(|change| change.app.is_some());
        if spec.base.job.trim().is_empty() && spec.base.app.is_none() && !of_axis {
            return fail("base".into(), "the key 'job' of [base] is missing, or 'app'".into());
        }
        let has_drives = |change: &Change| change.device.is_some() || change.topology.is_some();
        let each_has = |axis: &Axis| !axis.value.is_empty() && axis.value.iter().all(has_drives);
        let in_base = spec.base.device.is_some() || spec.base.topology.is_some();
        if !in_base && !spec.axis.iter().any(each_has) {
            let message = "the key 'device' of [base] is missing, or 'topology'";
            return fail("base".into(), message.into());
        }
        if let Some(at) = self.with_both() {
            return fail(format!("{at}.topology"), "give either device or topology".into());
        }
        if spec.axis.is_empty() {
            return fail("axis".into(), "a study needs an [[axis]] with a value".into());
        }
        for (i, axis) in spec.axis.iter().enumerate() {
            let at = format!("axis.{i}");
            let twice = spec.axis[..i].iter().any(|a| a.name == axis.name);
            if twice || spec.vars.contains_key(&axis.name) {
                let message = format!("'{}' is the name of another axis or variable", axis.name);
                return fail(format!("{at}.name"), message);
            }
            if axis.values.is_empty() == axis.value.is_empty() {
                return fail(at, "give either values = [...] or tables [[axis.value]]".into());
            }
            if let Some(k) = axis.value.iter().position(|v| v.name.is_none()) {
                let message = "the key 'name' of [[axis.value]] is missing";
                return fail(format!("{at}.value.{k}"), message.into());
            }
            let all: Vec<&Scalar> = axis.all().collect();
            if let Some(k) = (1..all.len()).find(|&k| all[..k].contains(&all[k])) {
                return fail(at, format!("the value {} is there twice", all[k]));
            }
            if axis.quick.as_ref().is_some_and(Vec::is_empty) {
                return fail(format!("{at}.quick"), "the quick scale needs a value".into());
            }
            for (k, value) in axis.quick.iter().flatten().enumerate() {
                self.check_value(&format!("{at}.quick.{k}"), axis, value)?;
            }
        }
        if spec.quick.as_ref().is_some_and(|q| q.name.is_some()) {
            return fail("quick.name".into(), "the quick scale has no name".into());
        }
        for (i, metric) in spec.metric.iter().enumerate() {
            let at = format!("metric.{i}");
            if spec.metric[..i].iter().any(|m| m.name == metric.name) {
                return fail(format!("{at}.name"), format!("'{}' is there twice", metric.name));
            }
            // Tables and formulas know both by this name.
            if self.axis(&metric.name).is_some() {
                let message = format!("'{}' is the name of an axis", metric.name);
                return fail(format!("{at}.name"), message);
            }
            if metric.scale == 0.0 {
                return fail(format!("{at}.scale"), "scale must not be 0".into());
            }
            match (&metric.path, &metric.formula) {
                (Some(_), None) => {}
                (None, Some(text)) => {
                    let known: Vec<_> = spec.metric[..i].iter().map(|m| m.name.as_str()).collect();
                    self.check_formula(&format!("{at}.formula"), text, &known)?;
                }
                _ => return fail(at, "give either a path or a formula".into()),
            }
            if let Some(values) = &metric.relative_to {
                self.check_values(&format!("{at}.relative_to"), values)?;
            }
            if let Some(values) = &metric.mean_of {
                self.check_at(&format!("{at}.mean_of"), values)?;
            }
            if metric.absent.is_some() && metric.path.is_none() {
                return fail(format!("{at}.absent"), "only a path can lead nowhere".into());
            }
        }
        let metrics: Vec<&str> = spec.metric.iter().map(|m| m.name.as_str()).collect();
        for (i, form) in spec.form.iter().enumerate() {
            self.check_metric(&format!("form.{i}.metric"), &form.metric)?;
            if spec.form[..i].iter().any(|f| (&f.metric, &f.at) == (&form.metric, &form.at)) {
                let message = format!("'{}' has a form there already", form.metric);
                return fail(format!("form.{i}.metric"), message);
            }
            self.check_at(&format!("form.{i}.at"), &form.at)?;
            self.check_formula(&format!("form.{i}.formula"), &form.formula, &metrics)?;
        }
        for (i, claim) in spec.published.iter().enumerate() {
            self.check_published(&format!("published.{i}"), claim)?;
        }
        self.check_chart()
    }

    /// Variables of the quick scale and of single values that `[vars]` does not have and nothing uses.
    pub(crate) fn check_used(&self) -> Result<(), ConfigError> {
        let Spec { vars, quick, axis, metric, form, .. } = &self.spec;
        let mut laid: Vec<(String, &Change)> = quick.iter().map(|q| ("quick".into(), q)).collect();
        for (i, axis) in axis.iter().enumerate() {
            laid.extend((0..).zip(&axis.value).map(|(k, v)| (format!("axis.{i}.value.{k}"), v)));
        }
        let formulas = metric.iter().filter_map(|m| m.formula.as_ref());
        let formulas: Vec<&String> = formulas.chain(form.iter().map(|f| &f.formula)).collect();
        for (place, name) in laid.iter().flat_map(|(at, c)| c.vars.keys().map(move |n| (at, n))) {
            let in_text = self.text.contains(&format!("${{{name}}}"));
            let is_name = |f: &&String| !crate::expr::names(f, [&**name].into_iter()).is_empty();
            if vars.contains_key(name) || in_text || formulas.iter().any(is_name) {
                continue;
            }
            let near = wordline_base::nearest(name, vars.keys().map(String::as_str));
            let meant = near.map_or(String::new(), |near| format!(", did you mean '{near}'?"));
            let message = format!("nothing in this study has ${{{name}}}{meant}");
            return Err(self.document.error(&format!("{place}.vars.{name}"), message));
        }
        Ok(())
    }

    /// The table that gives a device and a topology.
    fn with_both(&self) -> Option<String> {
        let Spec { base, quick, axis, .. } = &self.spec;
        let both = |change: &Change| change.device.is_some() && change.topology.is_some();
        if base.device.is_some() && base.topology.is_some() {
            return Some("base".into());
        }
        if quick.as_ref().is_some_and(both) {
            return Some("quick".into());
        }
        let of_axis = |(i, axis): (usize, &Axis)| {
            Some(format!("axis.{i}.value.{}", axis.value.iter().position(both)?))
        };
        axis.iter().enumerate().find_map(of_axis)
    }

    fn check_published(&self, at: &str, claim: &Published) -> Result<(), ConfigError> {
        self.check_metric(&format!("{at}.metric"), &claim.metric)?;
        self.check_at(&format!("{at}.at"), &claim.at)?;
        if let Some(values) = &claim.to {
            self.check_values(&format!("{at}.to"), values)?;
        }
        let limits = [claim.value, claim.below, claim.above].iter().flatten().count();
        if claim.slack != 0.0 && (claim.slack < 0.0 || claim.along.is_none()) {
            let message = match claim.slack < 0.0 {
                true => "slack must be 0 or more",
                false => "only a trend has slack: leave it out",
            };
            return Err(self.document.error(&format!("{at}.slack"), message));
        }
        let message = match &claim.along {
            Some(name) => {
                let Some(axis) = self.axis(name) else {
                    return Err(self.unknown_axis(&format!("{at}.along"), name));
                };
                let order: Vec<&Scalar> = claim.order.iter().flatten().collect();
                for (k, value) in order.iter().enumerate() {
                    self.check_value(&format!("{at}.order.{k}"), axis, value)?;
                    if order[..k].contains(value) {
                        let message = format!("the value {value} is there twice");
                        return Err(self.document.error(&format!("{at}.order.{k}"), message));
                    }
                }
                if order.len() == 1 {
                    let message = "one value alone has no order";
                    return Err(self.document.error(&format!("{at}.order"), message));
                }
                match (claim.trend, limits) {
                    (Some(_), 0) => return Ok(()),
                    (None, _) => "an ordering needs trend = rises, falls or level",
                    _ => "an ordering has no value, below or above",
                }
            }
            None if claim.trend.is_some() || claim.order.is_some() => {
                "an ordering needs the axis it goes along"
            }
            None if limits != 1 => "give one of value, below, above, or along with a trend",
            None => return Ok(()),
        };
        Err(self.document.error(at, message))
    }

    fn check_chart(&self) -> Result<(), ConfigError> {
        let Some(chart) = &self.spec.chart else { return Ok(()) };
        if let Some(name) = &chart.x
            && self.axis(name).is_none()
        {
            return Err(self.unknown_axis("chart.x", name));
        }
        for (i, name) in chart.y.iter().enumerate() {
            self.check_metric(&format!("chart.y.{i}"), name)?;
        }
        for (i, name) in chart.panels.iter().flatten().enumerate() {
            let at = format!("chart.panels.{i}");
            if self.axis(name).is_none() {
                return Err(self.unknown_axis(&at, name));
            }
            if chart.x.as_ref() == Some(name) {
                return Err(self
                    .document
                    .error(&at, format!("'{name}' is the axis to the right: leave one out")));
            }
        }
        for (i, name) in chart.own_y.iter().enumerate() {
            if self.axis(name).is_none() {
                return Err(self.unknown_axis(&format!("chart.own_y.{i}"), name));
            }
            if !chart.panels.as_ref().is_some_and(|panels| panels.contains(name)) {
                let message =
                    format!("only panels have scales: panels must have the axis '{name}'");
                return Err(self.document.error(&format!("chart.own_y.{i}"), message));
            }
        }
        let (lines, stack) = (chart.kind == ChartKind::Lines, chart.kind == ChartKind::Stack);
        let (sequence, slower) =
            (chart.kind == ChartKind::Sequence, chart.kind == ChartKind::Slower);
        let missing = match chart.kind {
            ChartKind::Lines | ChartKind::Stack if chart.x.is_none() || chart.y.is_empty() => {
                "x and y"
            }
            ChartKind::Sequence if chart.y.is_empty() || chart.places.len() != chart.y.len() => {
                "y, and as many places"
            }
            ChartKind::Slower if chart.bins.is_none() => "bins",
            _ => "",
        };
        if !missing.is_empty() {
            return Err(self.document.error("chart", format!("this chart needs {missing}")));
        }
        let idle = [
            ("x", chart.x.is_some() && !lines && !stack),
            ("y", !chart.y.is_empty() && slower),
            ("bins", chart.bins.is_some() && !slower),
            ("places", !chart.places.is_empty() && !sequence),
            ("x_label", chart.x_label.is_some() && !sequence),
            ("y_label", chart.y_label.is_some() && !sequence && !stack),
            ("log_x", chart.log_x && (stack || slower)),
            ("log_y", chart.log_y && (stack || slower)),
        ];
        if let Some((key, _)) = idle.iter().find(|(_, given)| *given) {
            return Err(self
                .document
                .error(&format!("chart.{key}"), "this kind of chart has no such key"));
        }
        if stack
            && let Some(axis) = self.spec.axis.iter().find(|a| {
                Some(&a.name) != chart.x.as_ref()
                    && chart.panels.as_ref().is_some_and(|p| !p.contains(&a.name))
            })
        {
            let message =
                format!("a stack has no curves: panels must have the axis '{}'", axis.name);
            return Err(self.document.error("chart.panels", message));
        }
        let units: Vec<&str> = chart
            .y
            .iter()
            .filter_map(|y| self.spec.metric.iter().find(|m| m.name == *y))
            .map(|m| m.unit.as_str())
            .collect();
        if (stack || sequence) && units.windows(2).any(|w| w[0] != w[1]) {
            return Err(self
                .document
                .error("chart.y", "these metrics need one unit: they share an axis"));
        }
        Ok(())
    }

    fn check_metric(&self, at: &str, name: &str) -> Result<(), ConfigError> {
        let names = || self.spec.metric.iter().map(|m| m.name.as_str());
        if names().any(|n| n == name) {
            return Ok(());
        }
        Err(self.document.error(at, Unknown::new("metric", name, names()).to_string()))
    }

    fn unknown_axis(&self, at: &str, name: &str) -> ConfigError {
        self.document.error(
            at,
            Unknown::new("axis", name, self.spec.axis.iter().map(|a| &*a.name)).to_string(),
        )
    }

    fn check_value(&self, at: &str, axis: &Axis, value: &Scalar) -> Result<(), ConfigError> {
        if axis.all().any(|v| v == value) {
            return Ok(());
        }
        let what = format!("value of axis {}", axis.name);
        Err(self
            .document
            .error(at, Unknown::new(&what, &value.0, axis.all().map(|v| v.0.as_str())).to_string()))
    }

    fn check_values(&self, at: &str, values: &Values) -> Result<(), ConfigError> {
        for (name, value) in values {
            let at = format!("{at}.{name}");
            let axis = self.axis(name).ok_or_else(|| self.unknown_axis(&at, name))?;
            self.check_value(&at, axis, value)?;
        }
        Ok(())
    }

    fn check_at(&self, at: &str, choices: &At) -> Result<(), ConfigError> {
        for (name, choice) in choices {
            let at = format!("{at}.{name}");
            let axis = self.axis(name).ok_or_else(|| self.unknown_axis(&at, name))?;
            choice.0.iter().try_for_each(|value| self.check_value(&at, axis, value))?;
        }
        Ok(())
    }

    fn check_formula(&self, at: &str, text: &str, metrics: &[&str]) -> Result<(), ConfigError> {
        let spec = &self.spec;
        let mut known: Vec<&str> = metrics.to_vec();
        known.extend(spec.vars.keys().map(String::as_str));
        known.extend(spec.axis.iter().map(|a| a.name.as_str()));
        for named in spec.axis.iter().flat_map(|a| &a.value) {
            known.extend(named.vars.keys().map(String::as_str));
        }
        crate::expr::check(text, &known).map_err(|e| self.document.error(at, e.to_string()))
    }
}
