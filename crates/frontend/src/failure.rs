//! Why what was asked for was not done.

/// By kind; the text has the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Unusable input: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The run failed, was interrupted, or its result could not be written: exit status 1.
    #[error("{0}")]
    Run(String),
}

impl Failure {
    pub fn usage(message: impl ToString) -> Failure {
        Failure::Usage(message.to_string())
    }
    pub fn run(message: impl ToString) -> Failure {
        Failure::Run(message.to_string())
    }
    pub fn into_message(self) -> String {
        match self {
            Failure::Usage(message) | Failure::Run(message) => message,
        }
    }
}

/// A plan that cannot run is unusable input; a run that is not whole failed.
impl From<wordline::Error> for Failure {
    fn from(error: wordline::Error) -> Failure {
        match error {
            wordline::Error::Run(error) => Failure::run(error),
            error => Failure::usage(error),
        }
    }
}
