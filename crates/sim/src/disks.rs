//! Which disk a job's files are on.

use crate::error::{JobError, JobFault};
use crate::topology::{Behind, SystemConfig, TopologyError};
use wordline_base::SectorSize;
use wordline_fio::{Job, Plan, Space, job};
use wordline_host::address;
use wordline_md::Layout;

/// The drive of a machine with no other, in logs of I/Os.
pub(crate) const ALONE: &str = "drive";

/// What drives go by of the class of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heeds {
    /// The workload attribute.
    pub attribute: bool,
    /// The class of the submission queue.
    pub queue: bool,
}

impl Heeds {
    /// What one of two goes by.
    pub fn or(self, other: Heeds) -> Heeds {
        Heeds { attribute: self.attribute || other.attribute, queue: self.queue || other.queue }
    }
}

/// A disk that jobs can name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobDisk {
    /// As `filename` names it.
    pub name: String,
    /// The host that it is on.
    pub host: usize,
    /// Its number among the host's disks.
    pub disk: u16,
    /// The unit behind it; of an array the first.
    pub drive: usize,
    /// Its drives, if it is an array, and where its bytes are on them.
    pub array: Option<(Vec<usize>, Layout)>,
    /// Bytes that users can write.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub lba: u32,
    /// What its FTL maps.
    pub sector: SectorSize,
    /// Its host takes it to have a volatile cache, and sends it flushes.
    pub volatile_cache: bool,
    /// A SATA drive, or an array with one.
    pub sata: bool,
    /// Why nothing polls it, whoever asks.
    pub not_polled: Option<&'static str>,
    /// What its drives go by of the class of a command.
    pub heeds: Heeds,
}

/// Where a job's files are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The host of all its disks.
    pub host: usize,
    /// Disks by file, or the one that all are on.
    pub disks: Vec<JobDisk>,
}

impl Placed {
    /// The addresses of its files, for the generator.
    pub fn space(&self) -> Space {
        match &*self.disks {
            [one] => Space::Drive { base: address(one.disk, 0), bytes: one.bytes },
            many => Space::Files(many.iter().map(|d| (address(d.disk, 0), d.bytes)).collect()),
        }
    }
    /// The disks that are addressed, each once.
    pub fn numbers(&self) -> Vec<u16> {
        let mut all: Vec<u16> = self.disks.iter().map(|d| d.disk).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl JobDisk {
    /// Its place among the drives of the disk, if the drive is one.
    pub fn member(&self, drive: usize) -> Option<usize> {
        match &self.array {
            None => (self.drive == drive).then_some(0),
            Some((members, _)) => members.iter().position(|&d| d == drive),
        }
    }
}

/// All disks of a machine that are not in an array. The first is that of jobs that name none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobDisks {
    disks: Vec<JobDisk>,
    /// Jobs may call the first disk as they like, and have no other.
    alone: bool,
}

impl JobDisks {
    /// The disks of a machine whose units have so many bytes.
    pub fn new(config: &SystemConfig, bytes: &[u64]) -> Result<JobDisks, TopologyError> {
        let layout = |a| config.layout(a, |d| bytes[d]);
        let layouts: Vec<Layout> =
            (0..config.arrays.len()).map(layout).collect::<Result<_, _>>()?;
        let layouts = &layouts;
        let of_host = |host: usize| {
            let all = config.disks(host).into_iter().enumerate();
            let free = move |&(_, behind): &(usize, Behind)| match behind {
                Behind::Drive(d) => config.array_of(d).is_none(),
                _ => true,
            };
            all.filter(free).map(move |(disk, behind)| {
                let (drive, name) = config.drive_behind(behind);
                let mut lba = config.device(drive).lba;
                let sector = config.sector(drive);
                let (name, mut bytes) = (name.to_string(), bytes[drive]);
                let mut array = None;
                if let Behind::Array(a) = behind {
                    let members = &config.arrays[a].members;
                    let lbas = members.iter().map(|&unit| config.device(unit).lba);
                    lba = lbas.max().unwrap_or(lba);
                    bytes = layouts[a].bytes();
                    array = Some((members.clone(), layouts[a].clone()));
                }
                let volatile_cache = config.has_volatile_cache(behind);
                let sata = config.has_sata(behind);
                let (not_polled, heeds) = (config.not_polled(behind), config.heeds(behind));
                let disk = disk as u16;
                JobDisk {
                    name,
                    host,
                    disk,
                    drive,
                    array,
                    bytes,
                    lba,
                    sector,
                    volatile_cache,
                    sata,
                    not_polled,
                    heeds,
                }
            })
        };
        let disks: Vec<JobDisk> = (0..config.hosts.len()).flat_map(of_host).collect();
        // A stack with a network block device is one computer with one disk to its jobs.
        let alone = disks.len() == 1 || config.networks.iter().any(|n| n.shared_cores.is_some());
        Ok(JobDisks { disks, alone })
    }
    /// One drive of so many bytes.
    pub fn one(bytes: u64) -> JobDisks {
        let name = "nvme0n1".into();
        let disks = vec![JobDisk {
            name,
            host: 0,
            disk: 0,
            drive: 0,
            array: None,
            bytes,
            lba: 512,
            sector: SectorSize::KIB_4,
            volatile_cache: true,
            sata: false,
            not_polled: None,
            heeds: Heeds::default(),
        }];
        JobDisks { disks, alone: true }
    }
    /// In the order in which machines list them.
    pub fn iter(&self) -> impl Iterator<Item = &JobDisk> {
        self.disks.iter()
    }
    /// The disk of what names none.
    pub fn first(&self) -> &JobDisk {
        &self.disks[0]
    }
    /// Those of the host that jobs run on if they name none.
    pub fn of_first_host(&self) -> Vec<JobDisk> {
        self.disks.iter().filter(|d| d.host == self.disks[0].host).cloned().collect()
    }

    /// Where a job's files are. Jobs of a machine with one disk may call it as they like.
    pub fn place(&self, job: &Job) -> Result<Placed, JobError> {
        let first = self.first();
        let alone = Placed { host: first.host, disks: vec![first.clone()] };
        let no_files = matches!(job.ioengine, job::Engine::Null | job::Engine::Cpuio);
        if job.filenames.is_empty() || self.alone || no_files {
            return Ok(alone);
        }
        let mut disks = Vec::with_capacity(job.filenames.len());
        for name in &job.filenames {
            let fault = |fault| JobError::new(job, fault);
            let bare = name.strip_prefix("/dev/").unwrap_or(name);
            if let Some(disk) = self.disks.iter().find(|d| d.name == bare) {
                disks.push(disk.clone());
                continue;
            }
            let Some((device, partition)) = device(name).or_else(|| bare_device(name)) else {
                disks.push(first.clone());
                continue;
            };
            if partition.is_some() {
                return Err(fault(JobFault::Partition { name: name.clone() }));
            }
            let Some(disk) = self.named(&device) else {
                let known = self.names();
                return Err(fault(JobFault::NoDevice { name: name.clone(), known }));
            };
            disks.push(disk.clone());
        }
        let host = disks[0].host;
        if let Some(other) = disks.iter().find(|d| d.host != host) {
            return Err(JobError::new(
                job,
                JobFault::TwoHosts { one: disks[0].name.clone(), other: other.name.clone() },
            ));
        }
        if disks.iter().all(|d| d.disk == disks[0].disk) {
            disks.truncate(1);
        }
        Ok(Placed { host, disks })
    }

    /// How `write_iolog` names a job's disks: as `filename` does, where there are several to tell apart.
    pub(crate) fn log_names(&self, placed: &Placed) -> Vec<(u16, String)> {
        let name = |d: &JobDisk| match self.alone {
            true => ALONE.into(),
            false => format!("/dev/{}", d.name),
        };
        placed.disks.iter().map(|d| (d.disk, name(d))).collect()
    }

    /// A device in a job's `filename`, if it cannot be meant to say on which host the job is.
    pub(crate) fn device_of_files<'j>(&self, job: &'j Job) -> Option<&'j str> {
        let no_files = matches!(job.ioengine, job::Engine::Null | job::Engine::Cpuio);
        let hosts = self.disks.iter().any(|disk| disk.host != self.disks[0].host);
        if hosts || no_files || job.directory.is_some() {
            return None;
        }
        job.filenames.iter().map(String::as_str).find(|name| device(name).is_some())
    }

    /// The disk that a device stands for.
    fn named(&self, device: &str) -> Option<&JobDisk> {
        let bare = device.strip_prefix("/dev/").unwrap_or(device);
        self.disks.iter().find(|d| d.name == bare)
    }

    /// All names that jobs can write.
    fn names(&self) -> String {
        let names: Vec<String> = self.disks.iter().map(|d| format!("/dev/{}", d.name)).collect();
        names.join(", ")
    }

    /// What to say of devices in a job's `filename` that are none of the machine's and mean its only disk
    /// all the same.
    pub(crate) fn stand_ins(&self, job: &Job) -> Vec<String> {
        let no_files = matches!(job.ioengine, job::Engine::Null | job::Engine::Cpuio);
        if !self.alone || no_files {
            return Vec::new();
        }
        let said = |name: &String| {
            let (device, partition) = device(name).or_else(|| bare_device(name))?;
            let first = &self.first().name;
            match (self.named(&device), partition) {
                (Some(_), None) => None,
                (Some(_), Some(_)) => Some(format!(
                    "filename={name}: the bounds of partitions are not known here, the job has the whole \
                     of /dev/{first}"
                )),
                (None, _) => Some(match self.disks.len() {
                    1 => format!(
                        "filename={name} is no device here: the job has /dev/{first}, the only one"
                    ),
                    _ => format!(
                        "filename={name} is none of {}: the job has /dev/{first}",
                        self.names()
                    ),
                }),
            }
        };
        job.filenames.iter().filter_map(said).collect()
    }

    /// Whether all jobs can be placed. On a disk alone they name one device, and no parts of it.
    pub fn check(&self, plan: &Plan) -> Result<(), JobError> {
        if !self.alone {
            return plan.jobs.iter().try_for_each(|job| self.place(job).map(drop));
        }
        check_devices(plan)
    }
}

/// A device in `filename`: its drive, and the partition if it is one. `/dev/nvme0n1p2` is the second
/// of `/dev/nvme0n1`, `/dev/sda1` the first of `/dev/sda`; a character device `/dev/ng0n1` is the same
/// drive as `/dev/nvme0n1`.
fn device(name: &str) -> Option<(String, Option<&str>)> {
    parts(name.strip_prefix("/dev/")?)
}

/// The same of a name without `/dev/`, which is a file's unless it has exactly the form of a drive's.
fn bare_device(name: &str) -> Option<(String, Option<&str>)> {
    let (device, _) = parts(name)?;
    let device = device.strip_prefix("/dev/")?;
    let of_nvme = device.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let is_drive = match of_nvme {
        Some((controller, namespace)) => digits(controller) && digits(namespace),
        None if device.starts_with("nbd") => digits(&device[3..]),
        None => ["sd", "vd", "hd", "xvd"].iter().any(|kind| {
            let letter = device.strip_prefix(kind);
            letter.is_some_and(|l| l.len() == 1 && l.bytes().all(|b| b.is_ascii_lowercase()))
        }),
    };
    is_drive.then(|| parts(name))?
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Drive and partition of a name in `/dev`.
fn parts(name: &str) -> Option<(String, Option<&str>)> {
    // What is no drive: fio's examples read and write these.
    if ["null", "zero", "full", "shm", "random", "urandom"].contains(&name.split('/').next()?) {
        return None;
    }
    if let Some(rest) = name.strip_prefix("nvme").or_else(|| name.strip_prefix("ng")) {
        let (drive, part) = rest.split_once('p').map_or((rest, None), |(d, p)| (d, Some(p)));
        return Some((format!("/dev/nvme{drive}"), part));
    }
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_disk = ["sd", "vd", "hd", "xvd"].iter().any(|kind| {
        letters.strip_prefix(kind).is_some_and(|l| l.bytes().all(|b| b.is_ascii_lowercase()))
    });
    match name.strip_prefix(letters) {
        Some(part) if is_disk && digits(part) => Some((format!("/dev/{letters}"), Some(part))),
        _ => Some((format!("/dev/{name}"), None)),
    }
}

/// With one drive, jobs that name several devices, or partitions of it, are refused.
fn check_devices(plan: &Plan) -> Result<(), JobError> {
    let mut first = None;
    for job in &plan.jobs {
        if matches!(job.ioengine, job::Engine::Null | job::Engine::Cpuio) {
            continue;
        }
        for name in &job.filenames {
            let Some((drive, partition)) = device(name) else { continue };
            let (was, known) = first.get_or_insert_with(|| (name, (drive.clone(), partition)));
            let names = || (name.clone(), was.to_string());
            if known.0 != drive {
                let (name, first) = names();
                return Err(JobError::new(job, JobFault::OtherDevice { name, first }));
            }
            if known.1 != partition {
                let (name, first) = names();
                return Err(JobError::new(job, JobFault::Partitions { name, first }));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_fio::{NoEnv, ParseOptions, parse_file};

    fn plan(text: &str) -> Plan {
        parse_file("job.fio", text, &ParseOptions::default(), &mut NoEnv).unwrap()
    }

    fn disk(name: &str, host: usize, disk: u16) -> JobDisk {
        let drive = usize::from(disk);
        JobDisk {
            name: name.into(),
            host,
            disk,
            drive,
            array: None,
            bytes: 1 << 30,
            lba: 512,
            sector: SectorSize::KIB_4,
            volatile_cache: true,
            sata: false,
            not_polled: None,
            heeds: Heeds::default(),
        }
    }

    #[test]
    fn names_say_which_disk_of_which_host() {
        let all = [disk("nvme0n1", 0, 0), disk("nvme1n1", 0, 1), disk("nbd0", 1, 0)];
        let disks = JobDisks { disks: all.to_vec(), alone: false };
        for (names, host, numbers) in [
            ("", 0, &[0u16][..]),
            ("filename=/dev/nvme1n1", 0, &[1]),
            ("filename=/dev/ng1n1", 0, &[1]),
            ("filename=/dev/nvme0n1:/dev/nvme1n1", 0, &[0, 1]),
            ("filename=/dev/nvme1n1:/dev/nvme1n1", 0, &[1]),
            ("filename=a:b", 0, &[0]),
            ("filename=nvme:sdcard:sd:nbd:ng1:nvme1", 0, &[0]),
            ("filename=nvme1n1", 0, &[1]),
            ("filename=ng1n1", 0, &[1]),
            ("filename=/dev/nbd0", 1, &[0]),
        ] {
            let plan = plan(&format!("[a]\n{names}\n"));
            let placed = disks.place(&plan.jobs[0]).unwrap();
            assert_eq!((placed.host, &*placed.numbers()), (host, numbers), "{names}");
        }
        for (names, refused) in [
            ("/dev/nvme2n1", "is none of /dev/nvme0n1, /dev/nvme1n1, /dev/nbd0"),
            ("nvme7n1", "filename=nvme7n1 is none of /dev/nvme0n1"),
            ("sdb", "is none of"),
            ("/dev/sdb", "is none of"),
            ("nbd1", "is none of"),
            ("nvme1n1p1", "is a part of a drive"),
            ("/dev/nvme1n1p1", "is a part of a drive"),
            ("/dev/nvme1n1:/dev/nbd0", "nvme1n1 and nbd0 are of different hosts"),
        ] {
            let plan = plan(&format!("[a]\nfilename={names}\n"));
            let error = disks.check(&plan).unwrap_err().to_string();
            assert!(error.contains(refused) && error.starts_with("job.fio:1: job 'a'"), "{error}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let disks = JobDisks::one(1 << 30);
        let said = |names: &str| {
            disks.stand_ins(&plan(&format!("[a]\nfilename={names}\n")).jobs[0]).join("|")
        };
        for names in ["/dev/nvme0n1", "/dev/ng0n1", "nvme0n1", "/tmp/a:b", "/dev/null", "sdcard"] {
            assert_eq!(said(names), "");
        }
        assert_eq!(
            said("/dev/nvme7n1"),
            "filename=/dev/nvme7n1 is no device here: the job has /dev/nvme0n1, the only one"
        );
        for names in ["/dev/sdb", "sdb", "nvme7n1", "/dev/mapper/x", "/dev/nvme0n2"] {
            assert!(said(names).starts_with(&format!("filename={names} is no device")), "{names}");
        }
        assert_eq!(
            said("/dev/nvme0n1p2"),
            "filename=/dev/nvme0n1p2: the bounds of partitions are not known here, the job has the whole \
             of /dev/nvme0n1"
        );
    }

    #[test]
    fn jobs_whose_files_are_on_several_devices_are_refused() {
        for (names, refused) in [
            (["/dev/nvme0n1", "/dev/nvme0n1"], ""),
            (["/dev/nvme0n1", "/dev/ng0n1"], ""),
            (["/dev/nvme0n1p1", "/dev/nvme0n1p1"], ""),
            (["file", "/dev/sda"], ""),
            (["/dev/null", "/dev/zero"], ""),
            (["/tmp/a", "/mnt/b"], ""),
            (
                ["/dev/nvme0n1", "/dev/nvme1n1"],
                "job.fio:3: job 'b': filename=/dev/nvme1n1 is another",
            ),
            (["/dev/nvme0n1", "/dev/nvme0n2"], "another device"),
            (["/dev/sda", "/dev/sdb"], "another device"),
            (["/dev/sda1", "/dev/sdb2"], "another device"),
            (["/dev/mapper/x", "/dev/mapper/y"], "another device"),
            (["/dev/nvme0n1p1", "/dev/nvme0n1p2"], "parts of one drive"),
            (["/dev/sda", "/dev/sda3"], "parts of one drive"),
            (["/dev/sda3", "/dev/sda"], "parts of one drive"),
            (["/dev/nvme0n1p1", "/dev/ng0n1"], "parts of one drive"),
            (["/dev/nvme0n1p1", "/dev/ng0n1p1"], ""),
        ] {
            let [a, b] = names;
            let plan = plan(&format!("[a]\nfilename={a}\n[b]\nfilename={b}\n"));
            match check_devices(&plan) {
                Ok(()) => assert_eq!(refused, "", "{names:?}"),
                Err(e) => {
                    assert!(
                        !refused.is_empty() && e.to_string().contains(refused),
                        "{names:?}: {e}"
                    );
                }
            }
        }
        assert!(check_devices(&plan("[a]\nfilename=/dev/sda:/dev/sdb\n")).is_err());
    }
}
