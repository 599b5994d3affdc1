//! What I/Os cost the processor, stage by stage.

use super::*;
use crate::config::SataCost;
use crate::function::Function;

#[test]
fn a_pvsync2_read_costs_the_sum_of_its_stages() {
    let job = (spec(Engine::Pvsync2, 1), list(reads(100)));
    let mut w = world(&stack(1), vec![job], fixed(7_300));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 100);
    for (f, life) in &w.finished {
        assert_eq!(f.completed.since(f.issued).0, 11_800);
        assert_eq!(f.submitted, f.issued);
        assert_eq!(spent(life, Layer::Syscall), 700);
        assert_eq!(spent(life, Layer::Block), 650);
        assert_eq!(spent(life, Layer::Driver), 350);
        assert_eq!(spent(life, Layer::Nand), 7_300);
        assert_eq!(spent(life, Layer::Completion), 2_800);
        assert_eq!(life.steps().len(), 7, "{:?}", life.steps());
    }
    // Application time lowers the rate and is no latency.
    assert_eq!(w.ctx.now.0, 100 * 11_800);
    let mut config = stack(1);
    config.cost.application = Span(1_000);
    let mut w = world(&config, vec![(spec(Engine::Pvsync2, 1), list(reads(100)))], fixed(7_300));
    w.run();
    assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 11_800));
    assert_eq!(w.ctx.now.0, 100 * 12_800);
    let stats = w.host.stats(w.ctx.now);
    assert_eq!(stats.threads[0].user, 100 * 1_000);
    assert_eq!(stats.threads[0].voluntary_switches, 101);
    assert_eq!(
        (stats.threads[0].iodepth_submit[1], stats.threads[0].iodepth_complete[1]),
        (100, 100)
    );
    assert_eq!(stats.counters.interrupts, 100);
}

/// libata's driver in the place of NVMe's: SCSI and ATA commands are made on the way out, and an interrupt reads three
/// registers, however many commands it ends.
#[test]
fn a_read_of_a_sata_drive_costs_the_sum_of_its_stages() {
    let mut config = stack(1);
    config.cost.sata = SataCost {
        queue: Span(500),
        issue: Span(300),
        interrupt: Span(200),
        register_read: Span(900),
        complete: Span(700),
    };
    let info = DriveInfo { sata: true, queues: 1, depth: 32, ..drive() };
    // It asks for polling, and libata's driver does not poll.
    let polls = ThreadSpec { hipri: true, ..spec(Engine::Pvsync2, 1) };
    let jobs = vec![(polls, list(reads(100)))];
    let mut w = World::with_ftl(&config, info.clone(), jobs, None, fixed(7_300));
    w.run();
    w.check_drained();
    let nvme = 11_800 - 150 - (400 + 300);
    let all = nvme + (500 + 300) + (200 + 3 * 900 + 700);
    assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == all));
    assert_eq!(w.host.stats(w.ctx.now).counters.polls, 0);
    // Eight that are over at once, and behind each interrupt one look at the registers.
    let jobs = vec![(spec(Engine::Libaio, 8), list(reads(80)))];
    let until = |_: &Sqe, now: Time| Time(now.0.next_multiple_of(1_000_000));
    let mut w = World::with_ftl(&config, info, jobs, None, Box::new(until));
    w.run();
    let stats = w.host.stats(w.ctx.now);
    let of = |f: Function| {
        stats
            .functions
            .iter()
            .map(|core| core[f as usize])
            .fold((0, 0), |sum, u| (sum.0 + u.calls, sum.1 + u.ns))
    };
    let interrupts = stats.counters.interrupts;
    assert!((10..20).contains(&interrupts), "{interrupts}");
    assert_eq!(of(Function::AhciInterrupt), (interrupts, 200 * interrupts));
    assert_eq!(of(Function::AhciRegister), (3 * interrupts, 3 * 900 * interrupts));
    assert_eq!(of(Function::ScsiDone), (80, 80 * 700));
    assert_eq!(of(Function::ScsiQueue), (80, 80 * 500));
    assert_eq!(
        (of(Function::Doorbell).0, of(Function::Interrupt).0, of(Function::Completion).0),
        (0, 0, 0)
    );
}

#[test]
fn tracks_show_jobs_and_cores() {
    use wordline_base::Tracks;
    use wordline_base::track::Track;
    let mut w = world(&stack(1), vec![(spec(Engine::Pvsync2, 1), list(reads(10)))], fixed(7_300));
    w.ctx.tracks = Some(Box::new(Tracks::new(1_000)));
    w.run();
    let tracks = w.ctx.tracks.as_ref().unwrap();
    let time = |track: Track, name: &str| {
        let of = |s: &&wordline_base::track::Slice| s.track == track && s.name == name;
        tracks.slices.iter().filter(of).map(|s| s.end.since(s.begin).0).sum::<u64>()
    };
    assert_eq!(time(Track::Job(0), "read"), 10 * 11_800);
    assert_eq!(time(Track::Core(0), "interrupt"), 10 * 1_200);
    assert_eq!(time(Track::Core(0), "thread"), 10 * 3_300);
}

#[test]
fn leaving_idle_costs_once_an_interrupt() {
    let mut config = stack(1);
    config.cost.idle_exit = Span(1_000);
    let mut w = world(&config, vec![(spec(Engine::Pvsync2, 1), list(reads(10)))], fixed(7_300));
    w.run();
    w.check_drained();
    assert!(w.finished[1..].iter().all(|(f, _)| f.completed.since(f.issued).0 == 12_800));
}

#[test]
fn libaio_at_depth_one_adds_its_crossings() {
    let job = (spec(Engine::Libaio, 1), list(reads(100)));
    let mut w = world(&stack(1), vec![job], fixed(7_300));
    w.run();
    w.check_drained();
    for (f, _) in &w.finished {
        assert_eq!(f.completed.since(f.issued).0, 12_600);
        assert_eq!(f.submitted.since(f.issued).0, 2_050);
    }
    let s = &w.host.stats(w.ctx.now).threads[0];
    assert_eq!((s.iodepth_level[0], s.iodepth_submit[1], s.iodepth_complete[1]), (100, 100, 100));
}

#[test]
fn throughput_is_the_lesser_of_processor_and_device() {
    // A fast drive: the core is the limit, with io_submit 2.05 us, io_getevents 0.75 us and the
    // interrupt 1.2 us.
    let mut w =
        world(&stack(1), vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(7_300));
    w.keep = false;
    w.log_on = false;
    w.run_to(Time(20_000 * US));
    let stats = w.host.stats(w.ctx.now);
    let rate = w.count as f64 / 0.02;
    let per_io = 1e9 / rate;
    assert!((3_950.0..4_050.0).contains(&per_io), "{per_io}");
    let c = stats.cores[0];
    assert!(c.idle < w.ctx.now.0 / 500, "{c:?}");
    assert_eq!(c.user + c.system + c.irq + c.idle, w.ctx.now.0);
    // What fio prints as IO depths: 32=100 %, submit and complete 4=100 %.
    assert!(stats.threads[0].iodepth_level[5] > w.count - 40);
    w.stop();

    // A slow drive: 32 in flight over its latency (Little's law), the core mostly idle.
    let mut w =
        world(&stack(1), vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(1_000_000));
    w.run_to(Time(500_000 * US));
    let n = w.finished.len() as u64;
    let mean = w.finished.iter().map(|(f, _)| f.completed.since(f.issued).0).sum::<u64>() / n;
    let in_flight = mean as f64 * n as f64 / w.ctx.now.0 as f64;
    assert!((31.0..32.01).contains(&in_flight), "{in_flight}");
    assert!((1_000_000..1_100_000).contains(&mean), "{mean}");
    w.stop();
}

#[test]
fn a_busy_core_runs_warm_code_and_a_pause_makes_it_cold() {
    let mut config = stack(1);
    (config.cost.warm.share, config.cost.warm.application) = (0.5, 0.5);
    config.cost.warm.displaced = Span::from_secs(1);
    // One I/O at a time: the core pauses before each, and all is as long as the profile says.
    for engine in [Engine::Pvsync2, Engine::Libaio] {
        let took = if engine == Engine::Libaio { 12_600 } else { 11_800 };
        let mut w = world(&config, vec![(spec(engine, 1), list(reads(100)))], fixed(7_300));
        w.run();
        w.check_drained();
        assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == took));
    }
    // No pause: 3.05 us of code take half, entries and doorbells their 0.95 us.
    let job = || vec![(spec(Engine::Libaio, 32), forever(reads(64)))];
    let mut w = world(&config, job(), fixed(7_300));
    (w.keep, w.log_on) = (false, false);
    w.run_to(Time(20_000 * US));
    let per_io = 20e6 / w.count as f64;
    assert!((2_470.0..2_485.0).contains(&per_io), "{per_io}");
    let stats = w.host.stats(w.ctx.now);
    let busy: u64 = stats.functions[0].iter().map(|f| f.ns).sum();
    let c = stats.cores[0];
    assert!(busy.abs_diff(c.user + c.system + c.irq) < 5_000, "{busy} {c:?}");
    w.stop();
}

#[test]
fn the_way_of_an_interrupts_message_costs_a_working_core_nothing() {
    let mut config = stack(1);
    let mut per_io = |way: u64| {
        config.cost.poll.interrupt_delivery = Span(way);
        // The core is idle meanwhile: the way is part of the latency.
        let mut w = world(&config, vec![(spec(Engine::Libaio, 1), list(reads(100)))], fixed(7_300));
        w.run();
        assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 12_600));
        let job = vec![(spec(Engine::Libaio, 32), forever(reads(64)))];
        let mut w = world(&config, job, fixed(7_300));
        (w.keep, w.log_on) = (false, false);
        w.run_to(Time(20_000 * US));
        w.stop();
        20e6 / w.count as f64
    };
    let (all, less) = (per_io(0), per_io(200));
    assert!((all - less - 200.0).abs() < 5.0, "{all} ns an I/O, {less} without the way");
}
