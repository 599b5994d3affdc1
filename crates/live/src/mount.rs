//! A folder with the drive in it: /dev/fuse and the mount. The machine's thread reads and writes the
//! device like a socket; a FUSE library would bring threads that wait in `read`, and a hand-over
//! between them and the machine for every request.

use crate::fuse::{MAX_TRANSFER, Session, errno};
use crate::machine::{Done, Request};
use crate::{Error, MountFault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As /proc/self/mountinfo has it.
const KIND: &str = "fuse.wordline";

pub struct Mount {
    session: Session,
    device: Option<File>,
    folder: PathBuf,
    /// It was mounted by fusermount3, which unmounts it too.
    helped: bool,
    buffer: Vec<u8>,
}

impl Mount {
    pub fn new(folder: &Path, size: u64, lba: u32, read_only: bool) -> Result<Mount, Error> {
        let bad = |fault| Error::Mount { folder: folder.into(), fault };
        clear_stale(folder).map_err(bad)?;
        let folder = folder.canonicalize().map_err(|e| match e.kind() {
            ErrorKind::NotFound => bad(MountFault::NoFolder),
            _ => bad(e.into()),
        })?;
        let mut inside = std::fs::read_dir(&folder).map_err(|e| match e.kind() {
            ErrorKind::NotADirectory => bad(MountFault::NotAFolder),
            _ => bad(e.into()),
        })?;
        if inside.next().is_some() {
            return Err(bad(MountFault::NotEmpty));
        }
        if !Path::new("/dev/fuse").exists() {
            return Err(bad(MountFault::NoFuse));
        }
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (device, helped) = match mount_self(&folder, owner) {
            Ok(device) => (device, false),
            Err(own) => match mount_helped(&folder) {
                Ok(device) => (device, true),
                Err(helper) => {
                    return Err(bad(MountFault::Refused {
                        own: own.into(),
                        helper: helper.into(),
                    }));
                }
            },
        };
        let mount = Mount {
            session: Session::new(size, lba, owner).read_only(read_only),
            device: Some(device),
            folder,
            helped,
            // A message's longest header is far below a page.
            buffer: vec![0; MAX_TRANSFER as usize + 4096],
        };
        let device = mount.device.as_ref().expect("open until it is dropped");
        rustix::io::ioctl_fionbio(device, true).map_err(|e| bad(e.into()))?;
        Ok(mount)
    }
    fn device(&self) -> &File {
        self.device.as_ref().expect("open until it is dropped")
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.device().as_fd()
    }
    /// The drive takes no writes from now on.
    pub fn only_read(&mut self) {
        self.session.only_read();
    }
    pub fn wants_read(&self) -> bool {
        self.session.has_room()
    }
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }
    /// The next request, if the kernel has one.
    pub fn next(&mut self) -> Option<Request> {
        while self.session.has_room() {
            let mut device = self.device.as_ref().expect("open until it is dropped");
            let request = match device.read(&mut self.buffer) {
                Ok(n) => self.session.message(&self.buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
                // Interrupted, or given up by the program before it was read.
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(errno::ENOENT) => continue,
                // Unmounted.
                Err(_) => {
                    self.session.end();
                    return None;
                }
            };
            self.send();
            if request.is_some() {
                return request;
            }
        }
        None
    }
    /// What the last request writes.
    pub fn payload(&self) -> &[u8] {
        &self.buffer[self.session.payload()]
    }
    /// The drive has answered; what is to be asked of it next.
    pub fn answer(&mut self, done: &Done) -> Option<Request> {
        let next = self.session.answer(done);
        self.send();
        next
    }
    fn send(&mut self) {
        while let Some(reply) = self.session.poll() {
            // Refused if nobody waits for it any more.
            let _ = self.device().write(&reply);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // First, so that unmounting asks nothing of this thread.
        self.device = None;
        unmount(&self.folder, self.helped);
    }
}

/// Also where programs still have it open: it vanishes when they close it, and gives errors until
/// then.
fn unmount(folder: &Path, helped: bool) {
    if helped {
        let helper =
            Command::new("fusermount3").args(["-u", "-z", "-q", "--"]).arg(folder).output();
        // It is the system's to clean up what even its own helper cannot.
        let _ = helper;
    } else {
        let _ = rustix::mount::unmount(folder, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A server that was killed leaves its mount behind, which answers nobody.
fn clear_stale(folder: &Path) -> Result<(), MountFault> {
    let dead = |e: &std::io::Error| e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    if !std::fs::metadata(folder).is_err_and(|e| dead(&e)) {
        return Ok(());
    }
    let absolute = std::path::absolute(folder)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(MountFault::NoName);
    };
    let place = parent.canonicalize()?.join(name);
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    if kind_at(&mounts, place.as_os_str().as_bytes()).as_deref() != Some(KIND) {
        return Err(MountFault::Occupied);
    }
    let privileged = rustix::process::geteuid().is_root();
    unmount(&place, !privileged);
    match std::fs::metadata(&place) {
        Err(e) if dead(&e) => Err(MountFault::Stale),
        _ => Ok(()),
    }
}

/// What kind of file system is mounted at a path, last of all (proc(5), mountinfo).
fn kind_at(mounts: &[u8], path: &[u8]) -> Option<String> {
    let mut kind = None;
    for line in mounts.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b' ');
        if fields.nth(4).is_some_and(|place| unescape(place) == path) {
            let after = fields.skip_while(|f| *f != b"-").nth(1)?;
            kind = Some(String::from_utf8_lossy(after).into_owned());
        }
    }
    kind
}
/// Space, tab, newline and backslash stand there as octal numbers.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = field;
    while let Some((&b, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()).filter(|_| b == b'\\') {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(b);
                rest = after;
            }
        }
    }
    plain
}

fn mount_self(folder: &Path, owner: (u32, u32)) -> Result<File, MountFault> {
    use rustix::mount::{MountFlags, mount};
    let mut options = std::fs::OpenOptions::new();
    let device = options.read(true).write(true).open("/dev/fuse");
    let device = device.map_err(MountFault::Device)?;
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},max_read={MAX_TRANSFER}",
        device.as_raw_fd(),
        owner.0,
        owner.1
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::from)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("wordline", folder, KIND, flags, Some(&*options))
        .map_err(|e| MountFault::Call(e.into()))?;
    Ok(device)
}

/// The helper that may mount for everybody gives the device over a socket (fusermount3(1); the
/// message is libfuse's).
fn mount_helped(folder: &Path) -> Result<File, MountFault> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
    let options = format!("fsname=wordline,subtype=wordline,max_read={MAX_TRANSFER}");
    let helper = Command::new("fusermount3")
        .args(["-o", &options, "--"])
        .arg(folder)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .output()
        .map_err(MountFault::NoHelper)?;
    drop(theirs);
    if !helper.status.success() {
        let said = String::from_utf8_lossy(&helper.stderr);
        return Err(MountFault::Helper(said.trim().to_string()));
    }
    let mut space = [std::mem::MaybeUninit::uninit(); 64];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(&ours, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let handed: Option<OwnedFd> = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    handed.map(File::from).ok_or(MountFault::NothingHanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_at_a_path_counts() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:35 / /mnt/a\\040b rw,nosuid - fuse.wordline wordline rw,user_id=0\n\
            41 22 0:36 / /mnt/c rw - fuse.other x rw\n42 22 0:37 / /mnt/c rw - tmpfs x rw\n";
        assert_eq!(kind_at(text, b"/mnt/a b").as_deref(), Some(KIND));
        assert_eq!(kind_at(text, b"/mnt/c").as_deref(), Some("tmpfs"));
        assert_eq!(kind_at(text, b"/mnt"), None);
    }
}
