//! Axes that a study does not have and somebody wants to see: another seed, drive or setting. What a result should not
//! depend on is varied, and the study's statements are held over all of it.

use crate::error::VaryError;
use crate::spec::{Axis, Change, Scalar, Study};
use wordline_sim::Precondition;

impl Study {
    /// An axis more for each `KEY=VALUE[,VALUE]`, behind the study's own; what it sets is laid over theirs. A variable
    /// or an axis of plain values that the study has takes these values instead of its own.
    pub fn vary(&mut self, words: &[String]) -> Result<(), VaryError> {
        for word in words {
            let (key, values) = split(word)?;
            let twice = |(a, v): (usize, &String)| values[..a].contains(v);
            if let Some((_, value)) = values.iter().enumerate().find(|v| twice(*v)) {
                return Err(VaryError::Twice { word: word.clone(), value: value.clone() });
            }
            if self.spec.axis.iter().any(|a| a.name == key && a.varied.is_some()) {
                return Err(VaryError::Key { word: word.clone(), key: key.into() });
            }
            let scalars: Vec<Scalar> = values.iter().cloned().map(Scalar).collect();
            if let Some(axis) = self.spec.axis.iter_mut().find(|a| a.name == key) {
                if axis.values.is_empty() {
                    return Err(VaryError::Named { word: word.clone(), axis: key.into() });
                }
                (axis.values, axis.quick) = (scalars, None);
                axis.varied = Some(word.clone());
                continue;
            }
            let mut axis = Axis {
                name: key.into(),
                label: Some(key.into()),
                varied: Some(word.clone()),
                ..Axis::default()
            };
            if self.spec.vars.contains_key(key) {
                axis.values = scalars;
            } else {
                let changes = values.iter().map(|value| change(word, key, value));
                axis.value = changes.collect::<Result<_, _>>()?;
            }
            self.spec.axis.push(axis);
        }
        Ok(())
    }

    /// The words of `--vary`, in the order of the axes.
    pub fn varied(&self) -> impl Iterator<Item = &str> {
        self.spec.axis.iter().filter_map(|axis| axis.varied.as_deref())
    }
}

/// `KEY=VALUE[,VALUE]`; a comma within brackets belongs to a value.
fn split(word: &str) -> Result<(&str, Vec<String>), VaryError> {
    let no_value = || VaryError::NoValue { word: word.into() };
    let (key, rest) = word.split_once('=').ok_or_else(no_value)?;
    let mut depth = 0;
    let parts = rest.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    });
    let values: Vec<String> = parts.map(str::to_owned).collect();
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(no_value());
    }
    Ok((key, values))
}

/// What one value of such an axis changes.
fn change(word: &str, key: &str, value: &str) -> Result<Change, VaryError> {
    let text = || Some(value.to_owned());
    let mut change = Change { name: Some(Scalar(value.into())), ..Change::default() };
    match key {
        "device" => change.device = text(),
        "topology" if value.contains('\n') => {
            return Err(VaryError::TopologyText { word: word.into() });
        }
        "topology" => change.topology = text(),
        "array" => change.array = text(),
        "drives" => change.drives = text().map(Scalar),
        "ftl" => change.ftl = text(),
        "stack" => change.stack = text(),
        "testbed" => change.testbed = text(),
        "app" => change.app = text(),
        "fs" => change.fs = text(),
        "precondition" => {
            let found = Precondition::ALL.into_iter().find(|p| p.name() == value);
            change.precondition = Some(found.ok_or_else(|| VaryError::Precondition {
                word: word.into(),
                value: value.into(),
                known: Precondition::ALL.map(Precondition::name).join(", "),
            })?);
        }
        "seed" => {
            let bad = |_| VaryError::Seed { word: word.into(), value: value.into() };
            change.seed = Some(value.parse().map_err(bad)?);
        }
        _ => change.set = vec![format!("{key}={value}")],
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, Scale, parse_only};

    const STUDY: &str = r#"
[study]
title = "t"
shows = "s"
[base]
device = "z-ssd-small"
job = """
[j]
rw=randread
number_ios=${ios}
iodepth=${depth}
"""
[vars]
ios = 100
[[axis]]
name = "depth"
values = [1, 4]
quick = [1]
[[axis]]
name = "flash"
[[axis.value]]
name = "fast"
set = ["nand.t_read=3us"]
[[axis.value]]
name = "slow"
set = ["nand.t_read=6us"]
[[metric]]
name = "lat"
path = "jobs.j.read.lat_ns.mean"
"#;

    fn plan(words: &[&str], scale: Scale) -> Result<Plan, String> {
        let mut study = Study::parse("x", "x.toml", STUDY).unwrap();
        let words: Vec<String> = words.iter().map(|&w| w.into()).collect();
        study.vary(&words).map_err(|e| e.to_string())?;
        let only = parse_only(&study, &[]).unwrap();
        let none = |_: &str| Err(std::io::Error::other("no file here"));
        Plan::new(&study, scale, &only, &none).map_err(|e| e.to_string())
    }

    /// What is varied to see that a figure does not hang on it has to move something.
    #[test]
    fn what_is_varied_and_moves_nothing_is_told() {
        let mut study = Study::parse("x", "x.toml", STUDY).unwrap();
        study.vary(&["seed=1,2,3".to_string()]).unwrap();
        let only = parse_only(&study, &[]).unwrap();
        let none = |_: &str| Err(std::io::Error::other("no file here"));
        let plan = Plan::new(&study, Scale::Quick, &only, &none).unwrap();
        let told = |number: &dyn Fn(usize) -> Option<f64>| {
            let points = plan.points.len();
            let metrics = (0..points).map(|point| vec![number(point)]).collect();
            let table = crate::Table::of_numbers(&study, &plan, metrics);
            table.told().iter().filter(|text| text.starts_with("seed=1,2,3 moved no")).count()
        };
        // Two kinds of flash, three seeds each.
        assert_eq!(plan.points.len(), 6);
        assert_eq!(told(&|point| Some((point / 3) as f64)), 1);
        assert_eq!(told(&|point| Some(point as f64)), 0);
        assert_eq!(told(&|_| None), 0, "nothing was run");
        assert_eq!(told(&|point| (point % 3 == 0).then_some(1.0)), 0, "one seed was run");
    }

    /// A row that is called by the study's own axis and is something else says so.
    #[test]
    fn what_is_laid_over_an_axis_of_the_study_is_told() {
        let told = |words: &[&str]| {
            let mut study = Study::parse("x", "x.toml", STUDY).unwrap();
            let words: Vec<String> = words.iter().map(|&w| w.into()).collect();
            study.vary(&words).unwrap();
            let only = parse_only(&study, &[]).unwrap();
            let none = |_: &str| Err(std::io::Error::other("no file here"));
            let plan = Plan::new(&study, Scale::Whole, &only, &none).unwrap();
            let points = plan.points.len();
            let metrics = (0..points).map(|i| vec![Some(i as f64)]).collect();
            let table = crate::Table::of_numbers(&study, &plan, metrics);
            table.told()
        };
        assert_eq!(
            told(&["nand.t_read=9us"]),
            [
                "the values of flash are one run, as what is varied is laid over what they set, or nothing reads them: the first are \
                 depth=1, flash=fast, nand.t_read=9us and depth=1, flash=slow, nand.t_read=9us"
            ]
        );
        assert!(told(&["nand.t_program=90us"]).is_empty());
        assert!(told(&["seed=1,2"]).is_empty());
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn a_varied_key_is_an_axis_behind_the_studys_own() {
        let plan = plan(&["seed=1,2", "nand.t_read=9us"], Scale::Whole).unwrap();
        assert_eq!(plan.points.len(), 8);
        assert_eq!(plan.points[1].label(), "depth=1, flash=fast, seed=2, nand.t_read=9us");
        assert_eq!(plan.points[1].seed, 2);
        // The study's own axis sets it too; what is varied is laid over it.
        assert_eq!(
            plan.points[1].config().unwrap().nand.t_read,
            plan.points[2].config().unwrap().nand.t_read
        );
        assert_eq!(plan.points[1].key, plan.points[3].key, "the same machine and job");
    }

    #[test]
    fn variables_and_plain_axes_take_other_values() {
        let plan = plan(&["depth=2,8", "ios=10"], Scale::Quick).unwrap();
        let labels: Vec<_> = plan.points.iter().map(|p| p.label()).collect();
        assert_eq!(
            labels,
            [
                "depth=2, flash=fast, ios=10",
                "depth=2, flash=slow, ios=10",
                "depth=8, flash=fast, ios=10",
                "depth=8, flash=slow, ios=10"
            ]
        );
        assert!(plan.points[0].job.contains("number_ios=10\n"));
    }

    #[test]
    fn a_value_that_varies_nothing_shares_the_result() {
        let (own, varied) = (plan(&[], Scale::Whole), plan(&["seed=1"], Scale::Whole));
        let keys = |plan: Result<Plan, String>| -> Vec<String> {
            plan.unwrap().points.into_iter().map(|p| p.key).collect()
        };
        assert_eq!(keys(own), keys(varied));
    }

    #[test]
    fn lists_are_one_value() {
        let (key, values) = split("nand.t_read=[50us,60us],70us").unwrap();
        assert_eq!((key, values), ("nand.t_read", vec!["[50us,60us]".into(), "70us".into()]));
    }

    #[test]
    fn errors_name_the_word() {
        for (word, message) in [
            ("seed", "--vary seed: a key or a value is missing: write --vary KEY=VALUE[,VALUE]"),
            (
                "seed=1,,2",
                "--vary seed=1,,2: a key or a value is missing: write --vary KEY=VALUE[,VALUE]",
            ),
            ("seed=x", "--vary seed=x: 'x' is no seed: use a whole number"),
            ("seed=1,1", "--vary seed=1,1: the value 1 is there twice"),
            (
                "precondition=old",
                "--vary precondition=old: 'old' is no state of a drive: use none, fill, steady",
            ),
            (
                "flash=slow",
                "--vary flash=slow: the values of axis flash have names: choose with --point",
            ),
            ("nand.t_raed=1us", "--vary nand.t_raed=1us: "),
            ("nand.t_raed=1us", "did you mean 't_read'"),
            ("device=z-ssd-smal", "--vary device=z-ssd-smal: "),
        ] {
            let why = plan(&[word], Scale::Whole).map(|_| ()).unwrap_err();
            assert!(why.contains(message), "{word}: {why}");
        }
        let why = plan(&["seed=1", "seed=2"], Scale::Whole).map(|_| ()).unwrap_err();
        assert!(why.contains("seed has values already"), "{why}");
    }
}
