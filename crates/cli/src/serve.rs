//! `wordline serve` and `wordline image`.

use crate::args::{ImageCommand, ImageIoArg, ServeArgs, StatsArg, TapeCommand};
use crate::error::{WeakImage, WordError, WorkError, served};
use crate::{Failure, attribute, remark};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wordline::System;
use wordline::translation::Translation;
use wordline_device::DriveConfig;
use wordline_fio::units::bytes;
use wordline_frontend::{Machine, Parts, combine, from_text};
use wordline_live::image::{Image, Superblock};
use wordline_live::recover::{Recovered, recover};
use wordline_live::tape::Recording;
use wordline_live::{Address, ImageIo, Plan, Server, StatsForm, fit};
use wordline_sim::About;

fn parse_size(text: &str) -> Result<u64, WordError> {
    match bytes(text) {
        Ok(bytes) if bytes > 0 && bytes % 4096 == 0 => Ok(bytes),
        Ok(bytes) => Err(WordError::SizeRange { text: text.into(), bytes }),
        Err(why) => Err(WordError::Size { option: "size", text: text.into(), why }),
    }
}

/// The profile that an image keeps.
fn stored(image: &Image) -> Result<System, Failure> {
    from_text(&name_of(image), &image.superblock.config, None, &[])
}
fn name_of(image: &Image) -> String {
    format!("{} (the profile in it)", image.path().display())
}

/// Whose records the flash of a drive has. Another sort of FTL would not find its own in them, and take what is in
/// use for free.
fn keeper(drive: &DriveConfig) -> &'static str {
    match &drive.ftl {
        ftl if ftl.firmware.is_some() => "a conventional drive's firmware",
        ftl if ftl.fssd.is_some() => "fssd",
        _ => "pblk or one of its kin",
    }
}

/// The system to serve an image with, and the same as TOML: its own, or what the command line says if
/// that has the same shape.
fn system_of(image: &Image, args: &ServeArgs) -> Result<(DriveConfig, String), Failure> {
    let own = stored(image)?.drive();
    if args.device.is_none() && args.ftl.is_none() && args.overrides().is_empty() {
        return Ok((own, image.superblock.config.clone()));
    }
    let mut loaded = self::asked(args, Some(image))?;
    fit::can_be_served(&loaded.drive()).map_err(served)?;
    let mut asked = fit::served(&loaded.drive(), &mut Vec::new());
    (asked.nand.blocks, asked.nand.pages_per_block) = (own.nand.blocks, own.nand.pages_per_block);
    let shape = |s: &DriveConfig| {
        let (n, f) = (&s.nand, &s.ftl);
        [
            ("channels", u64::from(n.channels)),
            ("LUNs a channel", u64::from(n.luns_per_channel)),
            ("planes", u64::from(n.planes)),
            ("bytes a page", u64::from(n.page_bytes)),
            ("bad blocks a billion", n.faults.bad_blocks_ppb),
            ("LUNs a stride", u64::from(f.stride)),
            ("parity LUNs a stride", u64::from(f.parities)),
            ("hot and cold parts", u64::from(f.hot_cold)),
            ("hundredths of a percent of over-provisioning", (f.over_provisioning * 100.0) as u64),
        ]
    };
    for ((name, here), (_, there)) in shape(&asked).into_iter().zip(shape(&own)) {
        if here != there {
            let image = image.path().into();
            return Err(WordError::OtherShape { image, what: name, there, here }.into());
        }
    }
    let (here, there) = (keeper(&asked), keeper(&own));
    if here != there {
        return Err(WordError::OtherFtl { image: image.path().into(), there, here }.into());
    }
    let config = &mut loaded.config;
    (config.nand, config.ftl) = (asked.nand.clone(), asked.ftl.clone());
    config.device = asked.device.clone();
    Ok((asked, wordline_profile::resolved_device(config)))
}

/// What the command line says; where it names no device, that of the image.
fn asked(args: &ServeArgs, image: Option<&Image>) -> Result<System, Failure> {
    let ftl = args.ftl.clone().unwrap_or_else(|| "default".into());
    let mut parts = Parts { ftl, set: args.overrides(), ..Parts::default() };
    if let (None, Some(image)) = (&args.device, image) {
        // Its default is its own.
        let ftl = args.ftl.as_deref().filter(|&ftl| ftl != "default");
        let config = &image.superblock.config;
        return from_text(&name_of(image), config, ftl, &args.overrides());
    }
    let device = args.device.as_deref().unwrap_or(Machine::DEVICE);
    let bare = Parts { set: Vec::new(), ..parts.clone() };
    let ftl = combine(device, &bare, None)?.drive().ftl;
    if args.ftl.is_some() || ftl.fssd.is_some() || ftl.firmware.is_some() {
        return combine(device, &parts, None);
    }
    parts.ftl = "pblk".into();
    combine(device, &parts, None)
}

/// Sections of the modelled host. A served drive's host is the machine that it is served on.
const OF_THE_HOST: [&str; 5] = ["stack", "testbed", "fs", "flashshare", "app"];

/// The first word of an override's path.
fn section(text: &str) -> &str {
    text.split(['.', '=']).next().unwrap_or_default().trim()
}
/// Overrides of the modelled host would do nothing.
fn drive_alone(overrides: &[String]) -> Result<(), WordError> {
    match overrides.iter().find(|text| OF_THE_HOST.contains(&section(text))) {
        Some(text) => Err(WordError::HostsSetting(text.clone())),
        None => Ok(()),
    }
}

/// Makes the image if there is none, and says whether it did.
fn make(args: &ServeArgs) -> Result<bool, Failure> {
    let path = args.image.as_path();
    let size = args.size.as_deref().map(parse_size).transpose()?;
    if path.exists() {
        let image = Image::open(path, !args.salvage).map_err(served)?;
        if let Some(size) = size.filter(|&s| s != image.superblock.size) {
            let bytes = image.superblock.size;
            return Err(WordError::OtherSize { image: path.into(), bytes, size }.into());
        }
        if let Some(seed) = args.seed.filter(|&s| s != image.superblock.seed) {
            let own = image.superblock.seed;
            return Err(WordError::OtherSeed { image: path.into(), own, seed }.into());
        }
        return Ok(false);
    }
    let Some(size) = size.filter(|_| !args.salvage) else {
        let remedy = if args.salvage { "check the path" } else { "give --size to make one" };
        return Err(WordError::NoImage { image: path.into(), remedy }.into());
    };
    let mut loaded = asked(args, None)?;
    let fitted = fit::fit(&loaded.drive(), size).map_err(served)?;
    if !args.quiet {
        fitted.notes.iter().for_each(|note| remark(&format!("note: {note}")));
    }
    fitted.warning.iter().for_each(|warning| remark(&format!("warning: {warning}")));
    let system = fitted.drive;
    (loaded.config.nand, loaded.config.ftl) = (system.nand.clone(), system.ftl.clone());
    loaded.config.device = system.device.clone();
    let geometry = wordline_nand::Geometry::new(&system.nand)
        .map_err(|bad| Failure::usage(bad.below("nand")))?;
    let seed = args.seed.unwrap_or(1);
    let drive = wordline_sim::Drive::new(&system, wordline_base::Seed(seed), false)
        .map_err(Failure::usage)?;
    let id = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let superblock = Superblock {
        id,
        size,
        sectors: drive.sectors(),
        seed,
        luns: geometry.luns,
        lines: geometry.lines,
        pages: geometry.pages,
        unit_sectors: geometry.sectors_per_unit,
        config: wordline_profile::resolved_device(&loaded.config),
    };
    Image::create(path, &superblock).map_err(served)?;
    Ok(true)
}

/// An image that was made for a server which does not start would stand in the way of the next try. `settings`: they
/// were refused.
fn unmake(args: &ServeArgs, settings: bool) {
    // Removed while it is locked: no other server has it.
    let Ok(locked) = Image::open(&args.image, true) else { return };
    // A start writes one state. After more another server has had it, and may have promised what is in it.
    if locked.state().generation > 1 {
        return;
    }
    let Ok(()) = std::fs::remove_file(&args.image) else { return };
    let size = args.size.as_ref().filter(|_| settings).map_or(String::new(), |size| {
        format!(
            ". --size decides how many blocks its drive has: {size} may be too small for these settings"
        )
    });
    remark(&format!("note: the image just made is removed{size}"));
}

/// Half of it is shared, half belongs to the clients in equal parts: a request of the largest size fits
/// into the one, and small ones into the other.
fn client_memory(args: &ServeArgs) -> Result<u64, WordError> {
    const EACH: u64 = 2 << 20;
    let least = (128 << 20).max(EACH * u64::from(args.max_connections));
    let Some(text) = &args.client_memory else { return Ok(least.max(512 << 20)) };
    match bytes(text) {
        Ok(bytes) if bytes >= least => Ok(bytes),
        Ok(_) => Err(WordError::ClientMemory {
            text: text.clone(),
            least: least >> 20,
            connections: args.max_connections,
        }),
        Err(why) => Err(WordError::Size { option: "client-memory", text: text.clone(), why }),
    }
}

pub fn serve(mut args: ServeArgs) -> Result<(), Failure> {
    if let Some(system) = args.system.take() {
        args.overrides.insert(0, format!("system={system}"));
    }
    let listen = args.nbd.iter().map(|a| Address::parse(a)).collect::<Result<Vec<_>, _>>();
    let listen = listen.map_err(served)?;
    if listen.is_empty() && args.fuse.is_none() {
        return Err(WordError::NoListener.into());
    }
    if args.time_scale != 0.0 && !(0.01..=1e6).contains(&args.time_scale) {
        return Err(WordError::TimeScale.into());
    }
    if !(0.05..=86_400.0).contains(&args.stats_interval) {
        return Err(WordError::StatsInterval.into());
    }
    let image_io = match args.image_io {
        ImageIoArg::Pwrite => ImageIo::Pwrite,
        ImageIoArg::Uring => ImageIo::Uring,
    };
    image_io.check().map_err(served)?;
    drive_alone(&args.overrides)?;
    let client_memory = client_memory(&args)?;
    let (stop, wake) = stop_on_signals()?;
    let made = make(&args)?;
    let server = start(&args, &listen, image_io, client_memory, (stop, wake));
    let server = server.map_err(|refused| {
        if made {
            unmake(&args, refused.settings);
        }
        refused.why
    })?;
    if let Some(text) = args.overrides.iter().rev().find(|text| section(text) == "system") {
        remark(&format!(
            "note: {text}: the drive's half of it is served (arbitration, guard, cache). Software queues and \
             interrupts are those of the kernel that the clients run on"
        ));
    }
    let quiet = args.quiet;
    let mut say = |text: &str| {
        if !quiet {
            remark(text);
        }
    };
    for found in server.report() {
        say(&found.to_string());
    }
    if args.salvage {
        let unproven = server.unproven();
        let told = format!("salvage: read only; {}", list("not known", &unproven));
        remark(told.trim_end());
    }
    if let Some(why) = server.worn() {
        remark(&format!(
            "read-only: too few blocks of the drive are good to write ({why}). All that it holds can be read: copy it \
             to a new image with more spare (ftl.over_provisioning)"
        ));
    }
    let folder = args.fuse.iter().map(|folder| folder.join("disk").display().to_string());
    let places: Vec<String> = listen.iter().map(Address::to_string).chain(folder).collect();
    // Scripts wait for this line.
    remark(&format!("serving {} bytes on {}", server.size(), places.join(" and ")));
    server.run(&mut say).map_err(served)?;
    Ok(())
}

/// Why a server does not start.
struct Refused {
    why: Failure,
    /// The drive's settings do not do.
    settings: bool,
}

impl From<wordline_live::Error> for Refused {
    fn from(e: wordline_live::Error) -> Refused {
        use wordline_live::Error::{Sectors, Setting};
        Refused { settings: matches!(e, Setting(_) | Sectors { .. }), why: served(e) }
    }
}

/// A server on an image that is there.
fn start(
    args: &ServeArgs,
    listen: &[Address],
    image_io: ImageIo,
    client_memory: u64,
    (stop, wake): (Arc<AtomicBool>, OwnedFd),
) -> Result<Server, Refused> {
    let image = Image::open(&args.image, false)?;
    let (system, profile) =
        system_of(&image, args).map_err(|why| Refused { why, settings: true })?;
    drop(image);
    let every = Duration::from_secs_f64(args.stats_interval);
    let plan = Plan {
        system,
        profile,
        image: args.image.clone(),
        tape: args.tape.clone(),
        listen: listen.to_vec(),
        fuse: args.fuse.clone(),
        control: args.control.clone().or_else(|| args.fuse.as_ref().map(|_| attribute::socket())),
        tls: args.tls.clone(),
        tls_optional: args.tls_optional,
        plain_tcp: args.plain_tcp,
        client_memory,
        salvage: args.salvage,
        time_scale: args.time_scale,
        spin: !args.no_spin,
        sync: !args.no_sync,
        image_io,
        journal: None,
        max_connections: args.max_connections as usize,
        stats: args.stats.map(|form| match form {
            StatsArg::Line => (StatsForm::Line, every),
            StatsArg::Json => (StatsForm::Json, every),
        }),
        prometheus: args.prometheus,
    };
    Ok(Server::new(plan, stop, wake)?)
}

/// A flag that the first signal sets, and what is readable then. The second ends the program.
pub fn stop_on_signals() -> Result<(Arc<AtomicBool>, OwnedFd), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (ours, theirs) = std::io::pipe().map_err(WorkError::Io)?;
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::SeqCst) {
            // Asked twice: what is flushed is in the image, and the next start finds it.
            std::process::exit(130);
        }
        let _ = std::io::Write::write(&mut &theirs, b"!");
    };
    ctrlc::set_handler(handler).map_err(WorkError::Handler)?;
    Ok((stop, ours.into()))
}

pub fn tape(command: TapeCommand) -> Result<(), Failure> {
    let TapeCommand::Replay { tape } = command;
    let recording = Recording::open(&tape).map_err(served)?;
    let name = format!("{} (the profile in it)", tape.display());
    let system = from_text(&name, recording.profile(), None, &[])?.drive();
    let r = recording.replay(&system).map_err(served)?;
    let mut text = format!(
        "{} inputs, {} events, {:.6} s in the model\n",
        r.inputs,
        r.events,
        r.end.0 as f64 / 1e9
    );
    for (name, n, ns) in &r.latencies {
        let [p50, p99, p999] = ns.map(|ns| ns as f64 / 1e3);
        text += &format!("{name:<5} {n:>9}; p50 {p50:.1} us, p99 {p99:.1}, p99.9 {p999:.1}\n");
    }
    text += &format!("state {:016x}, {} checks on the way\n", r.digest, r.checks);
    if r.torn > 0 {
        text += &format!(
            "the tape is torn: {} bytes after its last whole record are left out\n",
            r.torn
        );
    }
    text += match r.recorded {
        Some(digest) if digest == r.digest => "as recorded\n",
        Some(_) => "not as recorded\n",
        None => "the tape has no end: the server was killed, and the checks are all there is\n",
    };
    // The server may have answered them after its last input.
    let answered: u64 = r.latencies.iter().map(|(_, n, _)| n).sum();
    let under_way = r.inputs.saturating_sub(answered);
    if under_way > 0 {
        text += &format!("inputs without an answer when the last one came: {under_way}\n");
    }
    crate::output::print(&text)?;
    match r.recorded {
        Some(digest) if digest != r.digest => Err(WorkError::OtherEnd { digest }.into()),
        _ => Ok(()),
    }
}

pub fn image(command: ImageCommand) -> Result<(), Failure> {
    match command {
        ImageCommand::Info { image } => info(&image),
        ImageCommand::Check { image, salvage } => check(&image, salvage.as_deref()),
        ImageCommand::Export { image, state, profile } => export(&image, &state, &profile),
    }
}

fn info(path: &Path) -> Result<(), Failure> {
    let image = Image::open(path, false).map_err(served)?;
    let system = stored(&image)?;
    let recovered = recover(&image, &system.drive(), false).map_err(served)?;
    let s = &image.superblock;
    let (config, ftl) = (&system.config, &recovered.ftl);
    let wear = ftl.wear();
    let mapped = recovered.mapped();
    // Of what is closed only pblk keeps groups.
    let groups = ftl.pblk().map_or(String::new(), |ftl| {
        let [_, empty, quarter, half, partly, all, open] = ftl.groups();
        format!(
            "; closed with nothing valid {empty}, under a quarter {quarter}, under a half {half}, \
             partly {partly}, all {all}; left open {open}"
        )
    });
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let text = format!(
        "image      {} bytes exported ({:.2} GiB), {:.2} GiB on disk, id {:016x}, {}\n\
         drive      {}, {} LUNs, {} lines of {} pages, units of {} KiB, {:.2} GiB raw\n\
         ftl        over-provisioning {} %, stride {}, seed {}; {:.1} % of the flash is spare, parity and metadata\n\
         data       {mapped} sectors mapped of {}\n\
         lines      {} free{groups}\n\
         wear       {} to {} erasures a block, mean {:.2}, rated {}\n\
         programs   {} units since the image was made, {} known to be synced\n\
         damage     {}\n\
         writes     {}\n",
        s.size,
        gib(s.size),
        gib(image.allocated()),
        s.id,
        if image.state().clean { "shut down in good order" } else { "not shut down in good order" },
        config.device_name,
        s.luns,
        s.lines,
        s.pages,
        s.unit_sectors * 4,
        gib(recovered.nand.geometry.bytes()),
        config.ftl.over_provisioning,
        config.ftl.stride,
        s.seed,
        100.0 * fit::beside(&system.drive(), s.size),
        recovered.sectors(),
        recovered.free_lines(),
        wear.min,
        wear.max,
        wear.mean,
        recovered.nand.rated(),
        recovered.order - 1,
        image.state().synced,
        match recovered.damage.is_none() {
            true => "none that shows; `wordline image check` reads all of it".into(),
            false => recovered.damage.reasons.join("; "),
        },
        match &recovered.worn {
            None => "taken".into(),
            Some(why) => format!("not taken, as too few blocks are good ({why})"),
        },
    );
    crate::output::print(&text)
}

/// The drive for `wordline run`: what is where and how worn, without data.
fn export(path: &Path, state: &Path, profile: &Path) -> Result<(), Failure> {
    crate::files::note_read(path);
    crate::files::check_outputs(&[("--state", state), ("--profile", profile)])?;
    let image = Image::open(path, false).map_err(served)?;
    let system = stored(&image)?;
    let recovered = recover(&image, &system.drive(), false).map_err(served)?;
    if !recovered.damage.is_none() {
        return Err(served(recovered.damage.explain(&image)));
    }
    if let Some(why) = recovered.worn {
        return Err(WordError::Worn { image: path.into(), why }.into());
    }
    crate::files::write(profile, |w| w.write_all(image.superblock.config.as_bytes()))?;
    let about = About {
        device: system.config.device_name.clone(),
        ftl: system.config.ftl_name.clone(),
        ..About::default()
    };
    crate::files::write(state, |w| {
        about.save_drive(|w| recovered.save(w), &wordline_base::Stamps::off(), w)
    })?;
    // The profile has its FTL, whole: none is named beside it.
    crate::output::print(&format!(
        "wordline run JOB --device {} --load-state {}\n",
        profile.display(),
        state.display()
    ))
}

/// Ranges of bytes, a line each; the first of them, if there are many.
fn list(what: &str, ranges: &[(u64, u64)]) -> String {
    const TOLD: usize = 64;
    let bytes: u64 = ranges.iter().map(|r| r.1).sum();
    let mut text = format!("{bytes} bytes in {} places {what}\n", ranges.len());
    for (from, len) in ranges.iter().take(TOLD) {
        text += &format!("  {what}: bytes {from} to {}\n", from + len - 1);
    }
    if ranges.len() > TOLD {
        text += &format!("  and {} places more\n", ranges.len() - TOLD);
    }
    text
}

/// Makes the file that is to have what is known, and the one that says what that is.
fn salvage(image: &Image, recovered: &Recovered, to: &Path) -> Result<(), Failure> {
    let mut map = to.as_os_str().to_owned();
    map.push(".map");
    let map = Path::new(&map);
    // Nothing was begun; something was, and not ended.
    let not_made = |path: &Path, why: std::io::Error| {
        Failure::from(WordError::Salvage { path: path.into(), why })
    };
    let not_written = |path: &Path, why: std::io::Error| {
        Failure::from(WorkError::Salvage { path: path.into(), why })
    };
    let new = |path: &Path| std::fs::File::options().write(true).create_new(true).open(path);
    let remove = |path: &Path| {
        let _ = std::fs::remove_file(path);
    };
    let file = new(to).map_err(|e| not_made(to, e))?;
    let made = new(map).map_err(|e| not_made(map, e)).and_then(|text| {
        let write = || {
            let lost = wordline_live::check::salvage(image, recovered, &file);
            let lost = lost.map_err(|e| not_written(to, e))?;
            let lines = wordline_live::check::mapfile(image.superblock.size, &lost);
            std::io::Write::write_all(&mut &text, lines.as_bytes())
                .and_then(|()| text.sync_all())
                .map_err(|e| not_written(map, e))
        };
        write().inspect_err(|_| remove(map))
    });
    made.inspect_err(|_| remove(to))
}

/// Reads everything that is mapped, and sees whether parity gives the same.
fn check(path: &Path, to: Option<&Path>) -> Result<(), Failure> {
    let image = Image::open(path, false).map_err(served)?;
    let system = stored(&image)?;
    let recovered = recover(&image, &system.drive(), false).map_err(served)?;
    let mut text = String::new();
    for found in &recovered.report {
        text += &format!("{found}\n");
    }
    let found = wordline_live::check::check(&image, &recovered).map_err(served)?;
    text += &format!(
        "data: {} sectors read, {} to be had from parity alone, {} damaged\nparity: {} sectors \
         computed from their stride, {} different\nmap: {}\n",
        found.read,
        found.repairable,
        found.damaged.len(),
        found.rebuilt,
        found.misbuilt,
        found.map
    );
    if !found.damaged.is_empty() {
        text += &list("damaged", &found.lost());
    }
    let unproven = recovered.damage.unproven(image.superblock.size);
    if !unproven.is_empty() {
        text += &list("not known", &unproven);
    }
    if let Some(to) = to {
        salvage(&image, &recovered, to)?;
        let to = to.display();
        text += &format!("what is known is in {to}, and what that is in {to}.map\n");
    }
    crate::output::print(&text)?;
    match found.repairable + u64::from(recovered.smetas_mended) {
        _ if !recovered.damage.is_none() && to.is_none() => {
            Err(served(recovered.damage.explain(&image)))
        }
        _ if !found.is_good() || !recovered.damage.is_none() => Err(WorkError::Damaged.into()),
        0 => Ok(()),
        _ => Err(WeakImage { sectors: found.repairable, lines: recovered.smetas_mended }.into()),
    }
}
