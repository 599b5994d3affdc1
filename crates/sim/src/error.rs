//! Why a machine cannot be built, why jobs cannot run on it, and why a drive cannot be brought into a
//! state. Texts name the place and the remedy.

use crate::topology::{Part, TopologyError};
use wordline_base::BadValue;
use wordline_fio::{GeneratorError, Job, Place};
use wordline_host::HostError;

/// Why host and drive cannot be put together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// A value of the configuration, by its whole path (`ftl.buffer_sectors`).
    #[error(transparent)]
    Value(BadValue),
    /// The same, of a part of a machine.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("{bad}")]
    Of { part: Part, bad: BadValue },
    /// A job asks the host for what it has not, or the drive has not what a host needs.
    #[error(transparent)]
    Host(HostError),
    /// Hosts, drives and what joins them do not fit each other.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A trace or a program with a file system.
    #[error("traces and programs address the drive itself: run them without --fs")]
    NoFiles,
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error(
        "job '{job}': its files do not fit the file system: {asked}, and of the drive's {drive} MiB {room} are free for \
         them ('{file}' is one too many). Give it a size of {room}m or less{fewer}, or take a larger drive"
    )]
    FilesDoNotFit {
        job: String,
        /// In the job's words.
        asked: String,
        file: String,
        /// MiB without those of the file system and of other jobs' files.
        room: u64,
        drive: u64,
        /// A remedy of jobs with several files.
        fewer: &'static str,
    },
}

impl BuildError {
    /// The same, where what is wrong is a value of this part.
    pub fn of(self, part: Part) -> BuildError {
        match self {
            BuildError::Value(bad) => BuildError::Of { part, bad },
            other => other,
        }
    }
}

impl From<HostError> for BuildError {
    fn from(error: HostError) -> BuildError {
        match error {
            HostError::Stack(bad) => BuildError::Value(bad.below("stack")),
            other => BuildError::Host(other),
        }
    }
}

/// Why a job cannot run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum JobError {
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("{place}: job '{job}': {fault}")]
    Job { place: Place, job: String, fault: JobFault },
    /// What the job makes of the drive's size.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("{place}: {error}")]
    Generator { place: Place, error: GeneratorError },
}

impl JobError {
    pub(crate) fn new(job: &Job, fault: JobFault) -> JobError {
        JobError::Job { place: job.place.clone(), job: job.name.clone(), fault }
    }
}

/// What a job asks for that cannot be had.
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobFault {
    #[error("cpuio never ends by itself: give it runtime= or exit_on_io_done=1")]
    NeverEnds,
    #[error(
        "filename={name} is another device than {first}, and there is one drive here: give all jobs one \
         filename, and each its part of it by offset= and size="
    )]
    OtherDevice { name: String, first: String },
    #[error(
        "filename={name} and {first} are parts of one drive, whose bounds are not known here: give all \
         jobs the drive's name, and each its part of it by offset= and size="
    )]
    Partitions { name: String, first: String },
    /// A machine with several disks has none of that name.
    #[error("filename={name} is none of {known}")]
    NoDevice { name: String, known: String },
    #[error(
        "filename={name} is a part of a drive, whose bounds are not known here: give the job the drive's \
         name, and its part of it by offset= and size="
    )]
    Partition { name: String },
    #[error("{one} and {other} are of different hosts: give each its own job")]
    TwoHosts { one: String, other: String },
    #[error("files are on the first drive: leave out filename, or run the job without --fs")]
    OffFileSystem,
    #[error("a file cannot be trimmed: run it without --fs")]
    TrimOfFile,
    #[error(
        "filename={name} is a device, and with --fs jobs have files: leave out --fs for the drive itself, take --fs bdev \
         for the device behind its page cache, or give the file another name"
    )]
    DeviceOnFiles { name: String },
    #[error("pre_read: {why}, so that fio ends with the error 5 (func=pre_read): {remedy}")]
    PreRead { why: &'static str, remedy: &'static str },
    #[error("its ioengine makes calls on files: choose a file system, --fs ext4")]
    NoFileSystem,
    /// The page cache of a block device has one file, which is always there.
    #[error("its ioengine makes and removes files: choose a file system, --fs ext4")]
    OneFile,
}

/// Why a saved state cannot be taken up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum LoadError {
    #[error("the file is cut short")]
    CutShort,
    #[error("is no saved drive, or one of an older version: save it anew")]
    NoDrive,
    #[error("damaged: {0}")]
    Damaged(&'static str),
    #[error("the state is of a drive that was prepared in another way")]
    OtherKey,
    #[error("the state is of the FTL {state}, this drive has {drive}: prepare the drive anew")]
    OtherFtl { state: String, drive: String },
    /// Sectors of both.
    #[error("the state has {state} sectors, this drive {drive}: it is of another drive")]
    OtherCapacity { state: u64, drive: u64 },
    /// What the FTL says of its part.
    #[error("{why} (the state is of {of}, this drive is {drive})")]
    Ftl { why: wordline_ftl::LoadError, of: String, drive: String },
}
