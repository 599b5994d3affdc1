//! A study's points under several seeds: means, and how well they are known.

use crate::error::RepeatError;
use crate::metric::{formula, is_percentile};
use crate::plan::{Plan, Point};
use crate::spec::Study;
use crate::table::without_numbers;
use wordline_page::{BUCKET, Spread, repeat_times};

impl Study {
    /// Each point is to be run under so many seeds, from its own on. After [`Study::vary`].
    pub fn repeat(&mut self, times: Option<u32>) -> Result<(), RepeatError> {
        let Some(times) = times else { return Ok(()) };
        let times = repeat_times(times).map_err(|why| RepeatError::Times { times, why })?;
        let seeds = self.spec.axis.iter().find(|axis| axis.value.iter().any(|v| v.seed.is_some()));
        if let Some(axis) = seeds {
            return Err(match &axis.varied {
                Some(word) => RepeatError::Varied { word: word.clone() },
                None => RepeatError::Axis { axis: axis.name.clone() },
            });
        }
        // Tables have a column of this name.
        let axes = self.spec.axis.iter().map(|axis| &axis.name);
        if axes.chain(self.spec.metric.iter().map(|metric| &metric.name)).any(|name| name == "n") {
            return Err(RepeatError::Taken);
        }
        self.repeat = Some(times);
        Ok(())
    }
}

/// By point and metric.
type Rows = Vec<Vec<Option<f64>>>;

/// The numbers of a study's points.
#[derive(Debug)]
pub struct Numbers {
    /// Under each seed.
    pub by_seed: Vec<Rows>,
    /// The number itself where there is one seed. None where a seed has none.
    pub means: Rows,
    /// By point and metric: the share of a value that it may be off by, as a percentile is the middle of its bucket.
    shares: Vec<Vec<f64>>,
}

impl Numbers {
    /// `by_seed` are those of the study's points under each seed.
    pub fn of(study: &Study, cases: &[Point], by_seed: Vec<Rows>) -> Numbers {
        let metrics = study.spec.metric.len();
        let mean = |i: usize, m: usize| {
            let all: Option<Vec<f64>> = by_seed.iter().map(|rows| rows[i][m]).collect();
            Some(Spread::of(&all?)?.mean)
        };
        let row = |i: usize| (0..metrics).map(|m| mean(i, m)).collect();
        let means: Rows = (0..cases.len()).map(row).collect();
        let shares = cases.iter().zip(&means).map(|(point, row)| known_to(study, point, row));
        let shares = shares.collect();
        Numbers { by_seed, means, shares }
    }

    /// A value under each seed, of a point's metric or made of it; `share`: that of the value which it may be off by.
    pub fn spread(values: Option<Vec<f64>>, share: f64) -> Option<Spread> {
        let spread = Spread::of(&values?)?;
        Some(Spread { known_to: share * spread.mean.abs(), ..spread })
    }

    /// The share of a point's metric that it may be off by.
    pub fn share(&self, point: usize, metric: usize) -> f64 {
        self.shares[point][metric]
    }

    /// Under several seeds: each gives all of the numbers, and these are some.
    pub fn agree(&self) -> bool {
        let (first, others) = self.by_seed.split_first().expect("a seed at least");
        let any = first.iter().flatten().any(Option::is_some);
        any && !others.is_empty() && others.iter().all(|rows| rows == first)
    }

    /// By point and metric: half of the 95 % confidence interval. None of one seed.
    pub fn halves(&self) -> Rows {
        let half = |i: usize, m: usize| {
            let all = self.by_seed.iter().map(|rows| rows[i][m]).collect();
            Numbers::spread(all, self.share(i, m))?.half()
        };
        let row = |(i, row): (usize, &Vec<_>)| (0..row.len()).map(|m| half(i, m)).collect();
        self.means.iter().enumerate().map(row).collect()
    }
}

/// The share of each of a point's numbers that it may be off by: of a percentile half of its bucket, of a formula what
/// comes of that.
fn known_to(study: &Study, point: &Point, means: &[Option<f64>]) -> Vec<f64> {
    let mut shares: Vec<f64> = Vec::new();
    for metric in &study.spec.metric {
        let own = match (&metric.path, &metric.formula) {
            (Some(path), _) if is_percentile(path) => BUCKET,
            (_, Some(text)) => {
                let of = |row: &[Option<f64>]| formula(study, text, point, row);
                let at = of(means);
                let moved = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
                let off = moved.filter_map(|(m, share)| {
                    let mut row = means.to_vec();
                    row[m] = row[m].map(|x| x * (1.0 + share));
                    Some((of(&row)? - at?).abs())
                });
                let off: f64 = off.sum();
                at.map_or(0.0, |at| off / at.abs())
            }
            _ => 0.0,
        };
        // A ratio is off by what both of its numbers are.
        let both = if metric.relative_to.is_some() { 2.0 } else { 1.0 };
        let share = if own.is_finite() { own * both } else { 0.0 };
        shares.push(share);
    }
    shares
}

/// What the runs of each point of the study say, what differs in numbers alone as one: what not all of its seeds say in
/// the same words has its seeds.
pub fn together(plan: &Plan, said: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let Some(seeds) = plan.repeat else { return said };
    let cases = plan.cases().len();
    let of_case = |case: usize| {
        let mut kinds: Vec<(String, Vec<(u64, &String)>)> = Vec::new();
        for run in (case..said.len()).step_by(cases) {
            for text in &said[run] {
                let (kind, one) = (without_numbers(text), (plan.points[run].seed, text));
                match kinds.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, all)) => all.push(one),
                    None => kinds.push((kind, vec![one])),
                }
            }
        }
        kinds.into_iter().map(|(_, all)| told(&all, seeds as usize)).collect()
    };
    (0..cases).map(of_case).collect()
}

/// What several of so many seeds say.
fn told(all: &[(u64, &String)], seeds: usize) -> String {
    let first = all[0].1;
    let mut under: Vec<u64> = all.iter().map(|(seed, _)| *seed).collect();
    under.dedup();
    let same = all.iter().all(|(_, text)| *text == first);
    match (&under[..], same) {
        (under, true) if under.len() == seeds => first.clone(),
        (under, false) if under.len() == seeds => {
            format!("under each seed, the first: {first}")
        }
        ([one], _) => format!("under seed {one}: {first}"),
        (several, _) => {
            let list: Vec<String> = several.iter().map(u64::to_string).collect();
            format!("under seeds {}, the first: {first}", list.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::metric::extract;
    use crate::plan::{Scale, parse_only};
    use serde_json::json;

    const STUDY: &str = r#"
[study]
title = "t"
shows = "s"
[base]
device = "z-ssd-small"
seed = 5
precondition = "fill"
job = """
[j]
rw=randread
number_ios=100
iodepth=${depth}
"""
[[axis]]
name = "depth"
values = [1, 4]
[[metric]]
name = "iops"
path = "jobs.j.read.iops"
[[metric]]
name = "p99"
path = "jobs.j.read.lat_ns.p99"
[[metric]]
name = "ratio"
path = "jobs.j.read.iops"
relative_to = { depth = 1 }
[[metric]]
name = "twice"
formula = "2 * p99"
"#;

    fn study(text: &str, vary: &[&str], times: u32) -> Result<Study, String> {
        let mut study = Study::parse("x", "x.toml", text).map_err(|e| e.to_string())?;
        let vary: Vec<String> = vary.iter().map(|&w| w.into()).collect();
        study.vary(&vary).map_err(|e| e.to_string())?;
        study.repeat((times > 0).then_some(times)).map_err(|e| e.to_string())?;
        Ok(study)
    }

    fn plan(study: &Study) -> Plan {
        let only = parse_only(study, &[]).unwrap();
        let none = |_: &str| Err(std::io::Error::other("no file here"));
        Plan::new(study, Scale::Whole, &only, &none).unwrap_or_else(|e| panic!("{e}"))
    }

    fn keys(text: &str, vary: &[&str], times: u32) -> Vec<String> {
        plan(&study(text, vary, times).unwrap()).points.into_iter().map(|p| p.key).collect()
    }

    #[test]
    fn each_point_is_run_under_each_seed_from_its_own_on() {
        let study = study(STUDY, &[], 3).unwrap();
        let plan = plan(&study);
        let labels: Vec<String> = (0..plan.points.len()).map(|i| plan.label(i)).collect();
        let wanted = ["depth=1, seed=5", "depth=4, seed=5", "depth=1, seed=6", "depth=4, seed=6"];
        assert_eq!(labels[..4], wanted);
        assert_eq!((plan.cases().len(), plan.case_of(5), plan.points.len()), (2, 1, 6));
        assert_eq!(plan.seeds(), Some(vec![5, 6, 7]));
        // A seed has a drive of its own.
        let groups: Vec<_> = plan.groups.iter().map(|group| group.points.clone()).collect();
        assert_eq!(groups, [[0, 1], [2, 3], [4, 5]]);
        assert!(plan.points.iter().all(|point| point.redraws));
    }

    #[test]
    fn more_seeds_run_the_new_ones_alone() {
        assert_eq!(keys(STUDY, &[], 5)[..6], keys(STUDY, &[], 3));
        // As they are drawn from each seed, they are not the study's own.
        assert_ne!(keys(STUDY, &[], 2)[..2], keys(STUDY, &[], 0));
        // A job that says so itself, or that it draws the same, is that of --vary.
        for says in ["randrepeat=0", "randrepeat=1"] {
            let text = STUDY.replace("number_ios", &format!("{says}\nnumber_ios"));
            let mut varied = keys(&text, &["seed=5,6"], 0);
            varied.sort();
            let mut repeated = keys(&text, &[], 2);
            repeated.sort();
            assert_eq!(repeated, varied, "{says}");
        }
        // A program draws from the seed in any case.
        let job = &STUDY[STUDY.find("job =").unwrap()..STUDY.find("[[axis]]").unwrap()];
        let program = STUDY.replace(job, "app = \"kv-read\"\n");
        assert!(!plan(&study(&program, &[], 2).unwrap()).points[0].redraws);
    }

    #[test]
    fn what_gives_seeds_itself_is_refused() {
        let axis =
            "[[axis]]\nname = \"draw\"\n[[axis.value]]\nname = \"one\"\nseed = 1\n[[metric]]";
        let of_axis = STUDY.replacen("[[metric]]", axis, 1);
        for (text, vary, times, why) in [
            (STUDY, &["seed=1,2"][..], 3, "--repeat: --vary seed=1,2 gives the seeds"),
            (&of_axis, &[], 3, "--repeat: the values of axis draw set the seed"),
            (
                STUDY,
                &[],
                1,
                "--repeat 1: an interval takes two runs or more: use a number from 2 to",
            ),
            (STUDY, &[], 1001, "from 2 to 1000"),
            (&STUDY.replace("\"twice\"", "\"n\""), &[], 3, "column 'n'"),
        ] {
            let error = study(text, vary, times).map(|_| ()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        study(STUDY, &["nand.t_read=9us"], 2).unwrap();
    }

    /// Results of `iops` and a percentile of so many I/Os, seed by seed, both points of each.
    fn numbers(study: &Study, plan: &Plan, of: &[(f64, u64)]) -> Numbers {
        let result = |&(iops, n): &(f64, u64)| {
            let latency = json!({"N": n, "mean": 1.0, "percentile": {"99.000000": 6400}});
            let read = json!({"iops": iops, "lat_ns": latency});
            (n > 0).then(|| json!({"jobs": [{"jobname": "j", "read": read}]}))
        };
        let results: Vec<_> = of.iter().map(result).collect();
        let cases = plan.cases();
        let by_seed = results.chunks(cases.len()).map(|of| extract(study, cases, of).unwrap());
        Numbers::of(study, cases, by_seed.collect())
    }

    #[test]
    fn numbers_are_means_with_the_intervals_of_run() {
        let study = study(STUDY, &[], 3).unwrap();
        let plan = plan(&study);
        let iops = [8.0, 80.0, 10.0, 120.0, 12.0, 84.0].map(|x| (x, 1000));
        let all = numbers(&study, &plan, &iops);
        let halves = all.halves();
        // Deviation 2, n 3: 4.303 * 2 / sqrt(3).
        assert_eq!(all.means[0][0], Some(10.0));
        assert!((halves[0][0].unwrap() - 4.9687).abs() < 1e-3, "{halves:?}");
        // A ratio is taken under each seed: 10, 12, 7.
        assert_eq!(all.means[1][2], Some(29.0 / 3.0));
        assert_eq!((all.means[0][2], halves[0][2]), (Some(1.0), Some(0.0)));
        // A percentile is known to half of its bucket, and so is what is made of it.
        assert_eq!((halves[0][1], halves[0][3]), (Some(50.0), Some(100.0)));
        assert!(!all.agree());
        let same = [(8.0, 1000); 6];
        assert!(numbers(&study, &plan, &same).agree());
        assert!(!numbers(&study, &plan, &[(8.0, 0); 6]).agree(), "nothing was run");
    }

    #[test]
    fn what_a_seed_lacks_has_no_mean() {
        let study = study(STUDY, &[], 3).unwrap();
        let plan = plan(&study);
        let mut of = [(8.0, 1000); 6];
        // Too few I/Os for the percentile under one seed, and no result under another of the other point.
        (of[2].1, of[5].1) = (99, 0);
        let all = numbers(&study, &plan, &of);
        let there = |i: usize| all.means[i].iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(there(0), [true, false, true, false]);
        assert_eq!(there(1), [false; 4]);
        assert_eq!(all.halves()[0][1], None);
    }

    #[test]
    fn warnings_that_not_all_seeds_have_name_theirs() {
        let study = study(STUDY, &[], 3).unwrap();
        let of = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let said = [&["a", "b 1"][..], &["d 1"], &["a", "b 2"], &["d 2"], &["a"], &["c", "d 1"]];
        assert_eq!(
            together(&plan(&study), said.map(of).to_vec()),
            [
                of(&["a", "under seeds 5, 6, the first: b 1"]),
                of(&["under each seed, the first: d 1", "under seed 7: c"])
            ]
        );
    }

    /// What a statement's verdict is, and what intervals reach into.
    #[test]
    fn an_interval_over_the_border_of_a_verdict_is_told() {
        let wide = [8.0, 12.0, 10.0, 12.0, 12.0, 15.0].map(|x| (x, 1000));
        let close = [9.9, 13.0, 10.0, 13.1, 10.1, 13.2].map(|x| (x, 1000));
        for (statement, of, told) in [
            ("below = 11\nat = { depth = 1 }", wide, "holds (interval reaches does not)"),
            ("below = 11\nat = { depth = 1 }", close, "holds"),
            ("above = 11\nat = { depth = 1 }", wide, "does not (interval reaches holds)"),
            ("above = 11\nat = { depth = 1 }", close, "does not"),
            // Of several points each has to.
            ("above = 9", wide, "holds (interval reaches does not)"),
            ("above = 12", wide, "does not (interval reaches holds)"),
            ("above = 20", wide, "does not"),
            ("along = \"depth\"\ntrend = \"rises\"", wide, "holds (interval reaches does not)"),
            ("along = \"depth\"\ntrend = \"rises\"", close, "holds"),
            ("along = \"depth\"\ntrend = \"falls\"", wide, "does not (interval reaches holds)"),
            ("along = \"depth\"\ntrend = \"falls\"", close, "does not"),
            (
                "along = \"depth\"\ntrend = \"level\"\nslack = 0.3",
                wide,
                "holds (interval reaches does not)",
            ),
            ("along = \"depth\"\ntrend = \"level\"\nslack = 0.3", close, "holds"),
            (
                "along = \"depth\"\ntrend = \"level\"\nslack = 0.1",
                wide,
                "does not (interval reaches holds)",
            ),
            ("along = \"depth\"\ntrend = \"level\"\nslack = 0.1", close, "does not"),
            ("value = 10\nat = { depth = 1 }", wide, ""),
            ("above = 1.2\nat = { depth = 4 }\nto = { depth = 1 }", close, "holds"),
            (
                "above = 1.25\nat = { depth = 4 }\nto = { depth = 1 }",
                wide,
                "holds (interval reaches does not)",
            ),
        ] {
            let head = "[[published]]\nmetric = \"iops\"\nwhat = \"w\"\nplace = \"p\"\n";
            let text = format!("{STUDY}{head}{statement}\n");
            let study = study(&text, &[], 3).unwrap();
            let plan = plan(&study);
            let made = compare(&study, &plan, &numbers(&study, &plan, &of));
            assert_eq!(made[0].told(), told, "{statement}");
            // One seed has no interval.
            let study = self::study(&text, &[], 0).unwrap();
            let plan = self::plan(&study);
            let made = compare(&study, &plan, &numbers(&study, &plan, &of[..2]));
            assert!(made[0].reaches.is_empty(), "{statement}");
        }
    }

    /// 169, give or take 5 %; twice and half of it are its direction.
    #[test]
    fn an_interval_over_the_tolerance_of_a_claim_is_told() {
        let claim = "[[published]]\nmetric = \"iops\"\nclaim = \"rail-max-write-pblk\"\nat = { depth = 1 }\n";
        let text = format!("{STUDY}{claim}");
        let study = study(&text, &[], 3).unwrap();
        let plan = plan(&study);
        for (of, told) in [
            ([168.0, 169.0, 170.0], "met"),
            ([160.0, 170.0, 180.0], "met (interval reaches direction)"),
            ([100.0, 170.0, 240.0], "met (interval reaches wrong)"),
            ([148.0, 150.0, 152.0], "direction"),
            // The number itself is within.
            ([140.0, 150.0, 160.0], "direction (interval reaches met)"),
            ([50.0, 90.0, 130.0], "direction (interval reaches wrong, met)"),
            ([60.0, 61.0, 62.0], "wrong"),
        ] {
            let of = of.map(|x| [(x, 1000); 2]).concat();
            let made = compare(&study, &plan, &numbers(&study, &plan, &of));
            assert_eq!(made[0].told(), told, "{of:?}");
        }
    }

    /// Nothing to nothing is no ratio. Where that is so under each seed there is nothing to compare; under some of them the
    /// ratio has no mean.
    #[test]
    fn a_ratio_that_some_seeds_lack_is_not_compared() {
        let text = format!(
            "{STUDY}[[published]]\nwhat = \"w\"\nplace = \"p\"\nmetric = \"iops\"\nbelow = 3\nat = {{ depth = 4 }}\nto = {{ depth = 1 }}\n"
        );
        let study = study(&text, &[], 3).unwrap();
        let plan = plan(&study);
        for (of, told) in [
            ([2.0, 4.0, 2.0, 4.0, 2.0, 4.0], "holds"),
            ([0.0, 0.0, 2.0, 4.0, 0.0, 0.0], "not run"),
            ([0.0, 4.0, 2.0, 4.0, 2.0, 4.0], "not run"),
            ([0.0; 6], "not run"),
            ([0.0, 4.0, 0.0, 4.0, 0.0, 4.0], "does not"),
        ] {
            let of = of.map(|x| (x, 1000));
            let made = compare(&study, &plan, &numbers(&study, &plan, &of));
            assert_eq!(made[0].told(), told, "{of:?}");
        }
    }
}
