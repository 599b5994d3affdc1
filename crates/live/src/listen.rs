//! Where clients come from: Unix sockets and TCP.

use crate::Error;
use crate::error::ListenFault;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

impl Address {
    /// `unix:PATH` or `tcp:HOST:PORT`.
    pub fn parse(text: &str) -> Result<Address, Error> {
        if let Some(path) = text.strip_prefix("unix:").filter(|p| !p.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        if let Some(place) = text.strip_prefix("tcp:") {
            let place =
                if place.contains(':') { place.to_string() } else { format!("{place}:10809") };
            let found = place.to_socket_addrs().ok().and_then(|mut a| a.next());
            return found.map(Address::Tcp).ok_or_else(|| Error::Host(text.into()));
        }
        Err(Error::Address(text.into()))
    }
    /// Only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(a) => a.ip().is_loopback(),
        }
    }
}

impl Address {
    /// A connection to a server there.
    pub fn connect(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                let _ = stream.set_nodelay(true);
                Stream::Tcp(stream)
            }
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(a) => write!(f, "tcp:{a}"),
        }
    }
}

/// A socket that takes connections.
pub enum Listener {
    /// A socket in the file system, and its file.
    Unix(UnixListener, OwnFile),
    /// A port.
    Tcp(TcpListener),
}

/// A connection.
pub enum Stream {
    /// By a socket in the file system.
    Unix(UnixStream),
    /// By TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Waits from here on.
    pub fn block(&self) -> std::io::Result<()> {
        match self {
            Stream::Unix(s) => s.set_nonblocking(false),
            Stream::Tcp(s) => s.set_nonblocking(false),
        }
    }
    /// The same connection, for another thread.
    pub fn again(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
        })
    }
    /// Ends it for all who hold it.
    pub fn shut(&self) {
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
    }
}

impl Listener {
    /// Listens at `address`. A socket that nobody listens at any more is replaced.
    pub fn bind(address: &Address) -> Result<Listener, Error> {
        let failed =
            |e: std::io::Error| Error::Listen { place: address.to_string(), fault: e.into() };
        let listener = match address {
            Address::Unix(path) => {
                let there = std::fs::symlink_metadata(path).map(|about| about.file_type());
                if there.is_ok_and(|there| !std::os::unix::fs::FileTypeExt::is_socket(&there)) {
                    let (place, fault) = (address.to_string(), ListenFault::NoSocket);
                    return Err(Error::Listen { place, fault });
                }
                // Another server that starts at the same time would take this one's socket for a dead one's.
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
                let folder = std::fs::File::open(folder.unwrap_or(std::path::Path::new(".")));
                let _alone = folder.ok().inspect(|folder| {
                    // Where the file system has no locks it goes on without.
                    let _ = rustix::fs::flock(folder, rustix::fs::FlockOperation::LockExclusive);
                });
                // What a killed server left behind answers nobody.
                let refused = |e: std::io::Error| e.kind() == ErrorKind::ConnectionRefused;
                if UnixStream::connect(path).is_err_and(refused) {
                    std::fs::remove_file(path).map_err(failed)?;
                }
                let listener = UnixListener::bind(path).map_err(failed)?;
                let file = OwnFile::new(path).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Listener::Unix(listener, file)
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Listener::Tcp(listener)
            }
        };
        Ok(listener)
    }
    /// The next client, if one waits.
    pub fn accept(&self) -> std::io::Result<Option<Stream>> {
        let stream = match self {
            Listener::Unix(l, _) => l.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }),
            Listener::Tcp(l) => l.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }),
        };
        match stream {
            Ok(stream) => Ok(Some(stream)),
            // Nobody, or somebody who is gone.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// A file of this process, removed with this unless another has taken its name since.
#[derive(Debug)]
pub struct OwnFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl OwnFile {
    /// The file that is there now.
    pub(crate) fn new(path: &Path) -> std::io::Result<OwnFile> {
        Ok(OwnFile { path: path.into(), id: id_of(path)? })
    }
}

fn id_of(path: &Path) -> std::io::Result<(u64, u64)> {
    let about = path.symlink_metadata()?;
    Ok((about.dev(), about.ino()))
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if id_of(&self.path).is_ok_and(|id| id == self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(l, _) => l.as_fd(),
            Listener::Tcp(l) => l.as_fd(),
        }
    }
}
impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(s) => s.as_fd(),
            Stream::Tcp(s) => s.as_fd(),
        }
    }
}
impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(into),
            Stream::Tcp(s) => s.read(into),
        }
    }
}
impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(s) => s.write(bytes),
            Stream::Tcp(s) => s.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_removes_its_own_socket_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Listener::bind(&address).unwrap();
        drop(first);
        address.connect().expect("the second listens on");
        drop(second);
        assert!(!path.exists());
    }
}
