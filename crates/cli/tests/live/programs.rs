//! Real file systems and programs on a served drive: the drive as a file, a loop device, ext4 or XFS,
//! and databases on it. The server is killed under load; the file system must be whole after its
//! journal was replayed, and each program must find what it was told is safe.
//!
//! Everything here needs root, FUSE and loop devices; what is missing is skipped, loudly.

use super::mounted::Folder;
use super::place::{HANGS, Place, Running, program, skip, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a line of shell; none: it failed.
fn try_sh(line: &str) -> Result<String, String> {
    let out = program("sh").args(["-c", line]).output().unwrap();
    let text = |out: &Output| {
        (String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr)).into_owned()
    };
    let text = text(&out);
    if out.status.success() { Ok(text) } else { Err(format!("{line}: {}\n{text}", out.status)) }
}
fn sh(line: &str) -> String {
    try_sh(line).unwrap_or_else(|e| panic!("{e}"))
}
/// Whether all these programs are here.
fn have(programs: &[&str]) -> bool {
    let missing = |p: &&&str| try_sh(&format!("command -v {p}")).is_err();
    match programs.iter().find(missing) {
        Some(program) => {
            skip(&format!("{program} is not installed; make test installs it"));
            false
        }
        None => true,
    }
}

/// How the drive becomes a file.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Fuse,
    Nbdfuse,
}

/// From the image to the file system.
struct Stack {
    kind: &'static str,
    way: Way,
    server: Option<Running>,
    nbdfuse: Option<Child>,
    device: String,
    folder: Folder,
    place: Place,
}

impl Stack {
    /// None: not on this machine.
    fn new(way: Way, kind: &'static str, args: &str) -> Option<Stack> {
        if !have(&["losetup", &format!("mkfs.{kind}"), "fio"]) {
            return None;
        }
        if way == Way::Nbdfuse && !have(&["nbdfuse"]) {
            return None;
        }
        let place = Place::new(&format!("--size 512M --time-scale 0 {args}"));
        // Database servers run as somebody else.
        sh(&format!("chmod 755 {0}; mkdir {0}/fs", place.dir.path().display()));
        let folder = Folder::new(&place);
        let mut stack =
            Stack { kind, way, server: None, nbdfuse: None, device: String::new(), folder, place };
        stack.serve()?;
        let quick = if kind == "ext4" { "-E lazy_itable_init=0,lazy_journal_init=0" } else { "" };
        sh(&format!("mkfs.{kind} -q {quick} {}", stack.device));
        stack.mount();
        Some(stack)
    }
    fn fs(&self) -> PathBuf {
        self.place.dir.path().join("fs")
    }
    fn mount(&self) {
        sh(&format!("mount {} {}", self.device, self.fs().display()));
    }
    /// Server, file, loop device.
    fn serve(&mut self) -> Option<()> {
        let file = match self.way {
            Way::Fuse => {
                self.server = Some(self.folder.serve(&self.place)?);
                self.folder.disk()
            }
            Way::Nbdfuse => {
                self.server = Some(self.place.start());
                let mut command = Command::new("nbdfuse");
                command.arg(&self.folder.0).arg("--unix").arg(self.place.socket());
                self.nbdfuse = Some(command.stderr(Stdio::null()).spawn().unwrap());
                let file = self.folder.0.join("nbd");
                let child = self.nbdfuse.as_mut().expect("just started");
                let mut over = false;
                wait_until("nbdfuse mounts", || {
                    over = child.try_wait().unwrap().is_some();
                    over || file.exists()
                });
                if over {
                    skip("nbdfuse does not get to mount here");
                    return None;
                }
                file
            }
        };
        let file = file.display();
        match try_sh(&format!("losetup --find --show --sector-size 4096 --direct-io=on {file}")) {
            Ok(device) => self.device = device.trim().into(),
            Err(e) => {
                skip(&format!("no loop devices here: {e}"));
                return None;
            }
        }
        Some(())
    }
    /// Waits until so many more writes have come to the device.
    fn await_writes(&self, more: u64) {
        let device = self.device.rsplit('/').next().unwrap();
        let done = || {
            let stat = std::fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
            stat.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
        };
        let before = done();
        wait_until("the load writes", || done() >= before + more);
    }
    /// The server dies, and with it what is above.
    fn kill(&mut self) {
        self.server.take().expect("it runs").kill();
    }
    /// Takes away what is left of the layers above a server.
    fn clear(&mut self) {
        let fs = self.fs().display().to_string();
        let _ = try_sh(&format!("umount {fs} || umount -l {fs}"));
        if !self.device.is_empty() {
            let _ = try_sh(&format!("losetup -d {}", std::mem::take(&mut self.device)));
        }
        if let Some(mut nbdfuse) = self.nbdfuse.take() {
            let _ = try_sh(&format!("umount -l {}", self.folder.0.display()));
            let _ = nbdfuse.kill();
            let _ = nbdfuse.wait();
        }
    }
    /// Up again: the journal is replayed, and then the file system must be whole.
    fn restart(&mut self) {
        self.clear();
        self.serve().expect("as before");
        self.mount();
        let fs = self.fs().display().to_string();
        sh(&format!("umount {fs}"));
        match self.kind {
            "ext4" => sh(&format!("e2fsck -fn {}", self.device)),
            _ => sh(&format!("xfs_repair -n {}", self.device)),
        };
        self.mount();
    }
    fn stop(mut self) {
        self.clear();
        let (status, said) = self.server.take().expect("it runs").stop();
        assert!(status == Some(0) && said.contains(" 0 wrong"), "{said}");
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        drop(self.server.take());
        self.clear();
    }
}

/// A program under load; killed with the drive.
struct Load(Child);

impl Load {
    fn start(line: &str) -> Load {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {line}")]).stdin(Stdio::piped());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        Load(command.spawn().unwrap())
    }
    /// It gets a second to see that its drive is gone, and is killed with all it has started.
    fn end(self) {
        self.end_within(Duration::from_secs(1));
    }
    fn end_within(mut self, time: Duration) {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() && begun.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

fn last_number(text: &str) -> u64 {
    text.lines().filter_map(|l| l.trim().parse().ok()).next_back().unwrap_or(0)
}

/// Transactions in WAL mode, one INSERT each; those whose number was printed were committed.
fn sqlite(stack: &mut Stack) {
    if !have(&["sqlite3"]) {
        return;
    }
    let db = stack.fs().join("s.db").display().to_string();
    sh(&format!(
        "sqlite3 {db} 'PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)'"
    ));
    let mut promised = 0;
    for round in 0..2u64 {
        let mut load = Load::start(&format!("stdbuf -oL sqlite3 {db}"));
        let mut stdin = load.0.stdin.take().unwrap();
        let lines = BufReader::new(load.0.stdout.take().unwrap()).lines();
        let feeder = std::thread::spawn(move || {
            let _ = writeln!(stdin, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=50;");
            for id in promised + 1..promised + 100_000 {
                let row = format!("INSERT INTO t VALUES({id}, printf('%0900d', {id}));");
                if writeln!(stdin, "{row} SELECT {id};").is_err() {
                    return;
                }
            }
        });
        let wanted = promised + 150 + 111 * round;
        // The setting of wal_autocheckpoint is printed first.
        for line in lines.map_while(Result::ok).skip(1) {
            promised = line.parse::<u64>().unwrap();
            if promised >= wanted {
                break;
            }
        }
        stack.kill();
        load.end();
        let _ = feeder.join();
        assert!(promised >= wanted, "SQLite came to {promised}");
        stack.restart();
        let found = sh(&format!(
            "sqlite3 {db} 'PRAGMA integrity_check; SELECT count(*), max(id) FROM t; \
             SELECT count(*) FROM t WHERE v <> printf(\"%0900d\", id)'"
        ));
        let mut lines = found.lines();
        assert_eq!(lines.next(), Some("ok"), "{found}");
        let (count, max) = lines.next().unwrap().split_once('|').unwrap();
        assert_eq!((count, lines.next()), (max, Some("0")), "{found}");
        let max: u64 = max.parse().unwrap();
        assert!(max >= promised, "{max} rows of {promised} that were promised");
        promised = max;
    }
}

/// db_bench: a filled database, then reads while it is written, to the kill.
fn rocksdb(stack: &mut Stack) {
    if !have(&["db_bench", "ldb"]) {
        return;
    }
    const KEYS: u64 = 20_000;
    let db = stack.fs().join("rocks").display().to_string();
    let bench = format!(
        "db_bench --db={db} --num={KEYS} --value_size=400 --write_buffer_size=2097152 \
         --compression_type=none --threads=2 --disable_wal=0"
    );
    sh(&format!("{bench} --threads=1 --benchmarks=fillseq,flush"));
    sh(&format!("sync -f {db}"));
    let load = Load::start(&format!(
        "{bench} --use_existing_db=1 --benchmarks=readwhilewriting --sync=1 --duration=60 \
         --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1"
    ));
    stack.await_writes(200);
    stack.kill();
    load.end();
    stack.restart();
    sh(&format!("ldb --db={db} checkconsistency"));
    let read =
        sh(&format!("{bench} --threads=1 --use_existing_db=1 --benchmarks=verifychecksum,readseq"));
    assert!(!read.contains("orruption"), "{read}");
    let count = sh(&format!("ldb --db={db} dump --count_only"));
    assert!(count.contains(&format!("Keys in range: {KEYS}")), "{count}");
}

/// WiredTiger's own tool: each call commits and writes a checkpoint.
fn wiredtiger(stack: &mut Stack) {
    if !have(&["wt"]) {
        return;
    }
    let home = stack.fs().join("wt").display().to_string();
    let wt = format!("wt -h {home} -C 'create,log=(enabled),transaction_sync=(enabled)'");
    sh(&format!("mkdir {home}; {wt} create -c key_format=S,value_format=S table:t"));
    // The tool takes most of a second to start.
    let mut load = Load::start(&format!(
        "sh -c 'i=0; while :; do i=$((i + 1)); pairs=$(for j in $(seq 99); do \
         echo k$i.$j v$i.$j; done); {} write table:t $pairs || exit; echo $i; done'",
        wt.replace('\'', "\"")
    ));
    let mut lines = BufReader::new(load.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let promised: u64 = lines.nth(3).expect("WiredTiger writes").parse().unwrap();
    stack.kill();
    load.end();
    stack.restart();
    sh(&format!("{wt} verify table:t"));
    let dump = sh(&format!("{wt} dump table:t"));
    let lines: Vec<&str> = dump.lines().map(|l| l.trim_end_matches("\\00")).collect();
    let holds = |key: &str, value: &str| lines.windows(2).any(|w| w[0] == key && w[1] == value);
    for i in 1..=promised {
        let all = (1..=99).all(|j| holds(&format!("k{i}.{j}"), &format!("v{i}.{j}")));
        assert!(all, "{i} of {promised} in {dump}");
    }
}

#[test]
fn ext4_with_sqlite_rocksdb_and_wiredtiger() {
    let Some(mut stack) = Stack::new(Way::Fuse, "ext4", "--device cnex-small --ftl rail") else {
        return;
    };
    sqlite(&mut stack);
    rocksdb(&mut stack);
    wiredtiger(&mut stack);
    stack.stop();
}

/// The number of PostgreSQL's first process. Its file cannot be read any more when it is to end.
struct Postmaster(String);

impl Drop for Postmaster {
    fn drop(&mut self) {
        let _ = try_sh(&format!("kill -QUIT {0}; sleep 0.5; kill -KILL {0}", self.0));
    }
}

/// pgbench: what it logged was committed, and its four tables agree.
#[test]
fn xfs_with_postgresql() {
    let Some(bin) = ["", "/usr/lib/postgresql/*/bin/"].iter().find_map(|dir| {
        let path = try_sh(&format!("command -v {dir}initdb")).ok()?;
        Some(PathBuf::from(path.lines().last()?.trim()).parent()?.to_path_buf())
    }) else {
        return skip("PostgreSQL is not installed; make test installs it");
    };
    if !have(&["pgbench", "setpriv", "xfs_repair"]) || try_sh("getent passwd postgres").is_err() {
        return skip("no user postgres, or no pgbench");
    }
    let Some(mut stack) = Stack::new(Way::Fuse, "xfs", "--device cnex-small") else { return };
    let user = "setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/";
    let (fs, dir) = (stack.fs().display().to_string(), stack.place.dir.path().to_path_buf());
    let (bin, dir) = (bin.display(), dir.display());
    // Sockets and logs stay outside of the drive.
    sh(&format!("mkdir {fs}/pg {dir}/run; chown postgres {fs}/pg {dir}/run"));
    sh(&format!("cd /; {user} {bin}/initdb -A trust -D {fs}/pg/d"));
    let start = format!(
        "cd /; {user} {bin}/pg_ctl -w -t {} -D {fs}/pg/d -l {dir}/run/log \
         -o \"-k {dir}/run -c listen_addresses=''\" start </dev/null >{dir}/run/start 2>&1 \
         || {{ cat {dir}/run/log; exit 1; }}",
        HANGS.as_secs()
    );
    let pgbench = format!("{user} pgbench -h {dir}/run");
    let start = || {
        // Where nobody reaps orphans, the number in them seems to be alive. One that was killed leaves both.
        sh(&format!("rm -f {fs}/pg/d/postmaster.pid {dir}/run/.s.PGSQL.*"));
        sh(&start);
        sh(&format!("head -1 {fs}/pg/d/postmaster.pid")).trim().to_string()
    };
    let postmaster = Postmaster(start());
    sh(&format!("cd {dir}/run; {pgbench} -i -s 1 -q postgres"));
    let load = Load::start(&format!(
        "sh -c 'cd {dir}/run; exec {pgbench} -n -c 4 -T {} --log --log-prefix={dir}/run/done postgres'",
        HANGS.as_secs()
    ));
    let logged =
        || last_number(&try_sh(&format!("cat {dir}/run/done.* | wc -l")).unwrap_or_default());
    wait_until("200 transactions are logged", || logged() > 200);
    stack.kill();
    // What it has not written of its log yet comes at its end.
    load.end_within(HANGS);
    drop(postmaster);
    stack.restart();
    let postmaster = Postmaster(start());
    let done = logged();
    let sql = "SELECT count(*), sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts), \
               sum(delta) = (SELECT sum(bbalance) FROM pgbench_branches), \
               sum(delta) = (SELECT sum(tbalance) FROM pgbench_tellers) FROM pgbench_history";
    let psql = format!("cd /; {user} psql -h {dir}/run -At postgres -c");
    let found = sh(&format!("{psql} '{sql}'"));
    let mut fields = found.trim().split('|');
    let kept: u64 = fields.next().unwrap().parse().unwrap();
    assert!(kept >= done && kept <= done + 4, "{done} logged, {found}");
    assert!(fields.all(|f| f == "t"), "{found}");
    sh(&format!("{psql} 'VACUUM ANALYZE'"));
    drop(postmaster);
    stack.stop();
}

#[test]
fn ext4_through_nbdfuse_with_fio() {
    let args = "--device intel-750-small --set cache.bytes=2097152";
    let Some(mut stack) = Stack::new(Way::Nbdfuse, "ext4", args) else { return };
    let fs = stack.fs().display().to_string();
    let job = format!(
        "cd {fs} && fio --thread --name=a --directory={fs} --size=24m --numjobs=2 --ioengine=psync \
         --rw=randwrite --bsrange=4k-64k --verify=crc32c --fdatasync=16 --end_fsync=1"
    );
    sh(&format!("{job} --do_verify=1"));
    // Many files, of which what is synced stays.
    sh(&format!(
        "cd {fs} && for i in $(seq 300); do head -c 5000 /dev/urandom >f$i; done; \
         md5sum f* >sums; sync"
    ));
    let load = Load::start(&format!("sh -c 'while :; do {job}; done'"));
    stack.await_writes(200);
    stack.kill();
    load.end();
    stack.restart();
    sh(&format!("cd {fs} && md5sum --quiet -c sums"));
    stack.stop();
}
