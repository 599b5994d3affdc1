//! Why completions come by interrupt although a job or its stack asks to poll for them.

use crate::disks::JobDisk;
use wordline_host::{Engine, StackConfig};

/// Who asks.
pub(crate) struct Asker {
    /// What it issues with.
    pub engine: Engine,
    /// That engine passes the wish on.
    pub knows: bool,
    /// Its calls on files wait for the drive itself.
    pub direct: bool,
}

impl Asker {
    /// Of a program or a replay, which has no word for it.
    pub fn with(engine: Engine) -> Asker {
        Asker { engine, knows: true, direct: true }
    }

    /// Why its completions come by interrupt, if they do: on this stack, from these disks.
    pub fn by_interrupt(&self, stack: &StackConfig, disks: &[JobDisk]) -> Option<&'static str> {
        if !stack.kernel {
            return None;
        }
        match self.engine {
            Engine::Spdk | Engine::Null => return None,
            Engine::Libaio => return Some("io_submit of Linux 4.14 knows no polling"),
            _ if !self.knows => return Some("only pvsync2 and io_uring ask the kernel for it"),
            Engine::Pvsync2 | Engine::IoUring => {}
        }
        // Of several disks one that polls is enough.
        let polled = disks.iter().any(|disk| disk.not_polled.is_none());
        let of_disk = disks.iter().find_map(|disk| disk.not_polled).filter(|_| !polled);
        let switched_off =
            || (stack.io_poll == 0).then_some("polling is switched off: --set stack.io_poll=1");
        of_disk.or_else(switched_off).or_else(|| self.on_files(stack))
    }

    fn on_files(&self, stack: &StackConfig) -> Option<&'static str> {
        stack.fs.as_ref()?;
        match self.engine {
            _ if !self.direct => Some("only direct=1 waits for the drive itself"),
            Engine::IoUring => Some("on files its completions are by interrupt"),
            _ if stack.io_poll_delay >= 0 => {
                Some("on files polling begins at once: --set stack.io_poll_delay=-1")
            }
            _ if stack.poll_queues > 0 => {
                Some("on files completions are by interrupt with --set stack.poll_queues=N")
            }
            _ => None,
        }
    }
}
