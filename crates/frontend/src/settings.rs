//! What runs of jobs and replays of traces have in common.

use crate::{Failure, InputError, Machine};
use std::path::PathBuf;
use wordline::{Align, Options, Plan, Precondition, Span, System, Workload};

/// What `--precondition` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepare {
    /// What the run needs to mean something.
    Auto,
    /// This state.
    As(Precondition),
}

impl Prepare {
    /// A name, as options have it.
    pub fn from_name(name: &str) -> Option<Prepare> {
        if name == "auto" {
            return Some(Prepare::Auto);
        }
        Precondition::ALL.into_iter().find(|p| p.name() == name).map(Prepare::As)
    }
}

/// A system, the state that its drives are to be in, and what is kept of the run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The system under test.
    pub machine: Machine,
    /// The state that its drives are brought into.
    pub precondition: Prepare,
    /// A file to take the drive's state from, in place of preconditioning.
    pub load_state: Option<PathBuf>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Slowest I/Os of each direction to keep.
    pub slowest: usize,
    /// Slices to keep for a timeline.
    pub slices: Option<usize>,
    /// Latency is kept by interval.
    pub latency_over_time: bool,
    /// Versions of sectors are kept and checked.
    pub integrity: bool,
    /// Events of equal time are delivered in an order drawn from this seed.
    pub shuffle_ties: Option<u64>,
    /// What becomes of I/Os that are no whole blocks.
    pub align: Align,
    /// Simulated time after which the run ends, as in `5s`.
    pub limit: Option<String>,
}

impl Settings {
    /// The state that the drive is brought into; a state that is loaded stays as it is.
    pub fn state(&self) -> Precondition {
        match self.precondition {
            _ if self.load_state.is_some() => Precondition::None,
            Prepare::Auto => Precondition::Fill,
            Prepare::As(how) => how,
        }
    }

    /// What is kept of the run, and when it ends.
    pub fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            slowest: self.slowest,
            tracks: self.slices,
            shuffle_ties: self.shuffle_ties,
            digest: false,
            limit: self.limit()?,
            latency_over_time: self.latency_over_time,
        })
    }

    fn limit(&self) -> Result<Option<Span>, InputError> {
        let parse = |text: &String| match Span::parse(text) {
            Ok(Span::ZERO) => Err(InputError::NoTime),
            Ok(span) => Ok(span),
            Err(e) => Err(InputError::Limit(e)),
        };
        self.limit.as_ref().map(parse).transpose()
    }

    /// A plan of a workload on a system with these settings.
    pub(crate) fn plan(
        &self,
        system: System,
        workload: Workload,
        label: String,
    ) -> Result<Plan, Failure> {
        Ok(Plan {
            label,
            seed: self.seed,
            state: self.state(),
            integrity: self.integrity,
            align: self.align,
            options: self.options()?,
            ..Plan::new(system, workload)
        })
    }
}
