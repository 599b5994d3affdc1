//! Derived figures against numbers worked out by hand.

use wordline_base::Seed;
use wordline_device::Controller;
use wordline_ftl::{Placement, Translation, Translator};
use wordline_nand::Nand;
use wordline_profile::{
    Config, Derived, Source, Sources, Stage, assemble, derive, explain, fifo_write_amplification,
    rate_at_depth,
};

fn preset(device: &str, overrides: &[&str]) -> (Config, Derived) {
    let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
    let config = assemble(Sources::presets(device, "linux-libaio"), &overrides);
    let config = config.unwrap_or_else(|e| panic!("{e}"));
    let derived = derive(&config);
    (config, derived)
}

fn us(stages: &[Stage]) -> f64 {
    stages.iter().map(|s| s.time.as_us_f64()).sum()
}

#[track_caller]
fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected} within {share}");
}

#[test]
fn figures_of_the_cnex_westlake_follow_from_its_profile() {
    let (config, d) = preset("cnex-westlake", &[]);
    let g = &d.geometry;
    assert_eq!((g.luns, g.lines, g.pages), (128, 1067, 256));
    assert_eq!((g.sectors_per_unit, g.sectors_per_stripe, g.sectors_per_line), (16, 2048, 524_288));
    // 64 KiB x 256 x 1067 x 128.
    assert_eq!(d.capacity.raw_bytes(), 2_291_365_052_416);
    // 1 unit of smeta and 65 of emeta in 32,768.
    assert_eq!(d.capacity.metadata_sectors, 66 * 16 * 1067);
    let data = (32_768 - 66) * 16 * 1067u64;
    assert_eq!(d.capacity.data_sectors(), data);
    assert_eq!(d.capacity.user_sectors, data * 89 / 100);
    assert_eq!(d.capacity.spare_lines, 117); // 11 % of 1067 is 117.4
    // 16,384 counts of 4 bytes are a unit: one more than the header and 32,768 addresses take.
    let (_, many) = preset("cnex-westlake", &["nand.blocks=16384", "nand.pages_per_block=16"]);
    assert_eq!(many.capacity.metadata_sectors, (1 + 6) * 16 * 16_384);
    // 128 / (0.2 + 65 us) of LUNs against 380 K: the next array read goes beside the transfer of 14.63 us.
    let luns = &d.random_read.bounds[0];
    assert_eq!(luns.name, "LUNs");
    near(luns.bytes_per_s / 4096.0, 1.963e6, 0.001);
    assert_eq!(d.random_read.least().name, "limit read_iops");
    near(d.random_read.iops(), 380e3, 1e-9);
    assert_eq!(d.sequential_read.least().name, "limit read_rate");
    assert_eq!(d.sequential_write.least().name, "limit program_rate");
    // 64 KiB in 0.2 us + 234.1 us + 3.4 ms + 6 ms / 256, on 128 LUNs.
    let luns = &d.sequential_write.bounds[0];
    near(luns.bytes_per_s, 128.0 * 65536.0 / 3.657_7e-3, 0.001);
    // Doorbell .15, fetch .41, firmware 1.5, command .2, array 65, channel 14.63, link .59,
    // completion .5 + .15.
    near(us(&d.read_latency), 83.12, 0.001);
    assert!(d.cached_read_latency.is_none());
    // The paper's other standard setting.
    let (_, at_12) = preset("cnex-westlake", &["ftl.over_provisioning=12"]);
    assert_eq!(at_12.capacity.user_sectors, data * 88 / 100);
    assert!(explain(&config).contains("2.29 TB"));
}

#[test]
fn figures_of_the_z_ssd_follow_from_its_profile() {
    let (_, d) = preset("z-ssd-800g", &[]);
    let g = &d.geometry;
    assert_eq!((g.channels, g.luns, g.planes, g.sectors_per_unit), (8, 64, 16, 8));
    assert_eq!(d.capacity.raw_bytes(), 1 << 40);
    near(d.capacity.user_bytes() as f64, 800_166_076_416.0, 1e-5);
    // 64 / 5.76 us of LUNs, 8 / 2.76 us of channels: the drive's own limit is far below.
    near(d.random_read.bounds[0].bytes_per_s / 4096.0, 11.11e6, 0.001);
    near(d.random_read.bounds[1].bytes_per_s / 4096.0, 2.899e6, 0.001);
    near(d.random_read.iops(), 750e3, 1e-9);
    near(d.sequential_write.bytes_per_s(), 3.2e9, 1e-9);
    // What remains of the measured latencies without the host's 5 us: plausibility, not a fit.
    let (miss, hit) = (us(&d.read_latency), us(d.cached_read_latency.as_ref().unwrap()));
    near(miss, 10.9, 0.05);
    near((miss + hit) / 2.0, 7.6, 0.05);
    near(us(&d.write_latency), 6.7, 0.07);
    near(miss - hit, 5.91, 0.001); // FTL .15, command .2, array 3, channel 2.56
}

#[test]
fn figures_of_the_intel_750_follow_from_its_profile() {
    let (_, d) = preset("intel-750-400g", &[]);
    assert_eq!((d.geometry.luns, d.geometry.sectors_per_unit), (54, 8));
    assert_eq!(d.capacity.raw_bytes(), 432 << 30);
    near(d.capacity.user_bytes() as f64, 400_088_457_216.0, 1e-5);
    near(d.random_read.iops(), 430e3, 1e-9);
    near(d.random_write[0].iops(), 230e3, 1e-9);
    near(d.sequential_read.bytes_per_s(), 1.8e9, 1e-9);
    // 32 KiB in 0.2 + 98.4 us + 1.3 ms + 3 ms / 512, on 54 LUNs, lies just above the data sheet.
    near(d.sequential_write.bounds[0].bytes_per_s, 54.0 * 32768.0 / 1.404_5e-3, 0.001);
    near(d.sequential_write.bytes_per_s(), 1.2e9, 1e-9);
    // Of 82.9 and 88.5 us for reads and 14.1 and 13 us for writes the host has about 5.
    near(us(&d.read_latency), 80.7, 0.08);
    near(us(&d.write_latency), 8.5, 0.08);
}

#[test]
fn small_drives_are_bound_by_the_same_things() {
    for (small, large, share) in [
        ("cnex-small", "cnex-westlake", 16.0),
        ("intel-750-small", "intel-750-400g", 9.0),
        ("z-ssd-small", "z-ssd-800g", 1.0),
    ] {
        let ((_, s), (_, l)) = (preset(small, &[]), preset(large, &[]));
        assert_eq!(s.read_latency, l.read_latency);
        assert!((8 << 30..=16u64 << 30).contains(&s.capacity.raw_bytes()));
        near(s.random_read.iops() * share, l.random_read.iops(), 0.01);
        assert!(s.capacity.spare_lines >= 8);
    }
}

/// The closed forms here and the machines agree on what a drive holds.
#[test]
fn small_drives_can_be_built_and_hold_what_is_derived() {
    for device in ["cnex-small", "intel-750-small", "z-ssd-small", "fssd-small"] {
        let (config, d) = preset(device, &[]);
        let ftl = Translator::new(None, &d.geometry, &config.ftl, &mut |_, _| false, Seed(1));
        let ftl = ftl.unwrap_or_else(|e| panic!("{device}: {e:?}"));
        assert_eq!(ftl.sectors(), d.capacity.user_sectors, "{device}");
        let ftl = (config.ftl.placement == Placement::Device).then_some(ftl);
        let nand = Nand::new(&config.nand, Seed(1)).unwrap();
        let controller = Controller::new(&config.device, nand, ftl);
        assert!(controller.is_ok(), "{device}: {:?}", controller.err());
    }
}

#[test]
fn lines_with_parity_hold_what_is_derived() {
    let sets: [&[&str]; 8] = [
        &["ftl.stride=4"],
        &["ftl.stride=2"],
        &["ftl.stride=16", "nand.luns_per_channel=8"],
        &["ftl.stride=5", "ftl.parities=2"],
        &["ftl.stride=4", "nand.channels=7", "nand.luns_per_channel=1"],
        &["ftl.stride=4", "ftl.emeta_on_parity=true"],
        &["ftl.stride=4", "ftl.op_after_parity=false", "ftl.over_provisioning=40"],
        &["ftl.stride=4", "ftl.hot_cold=true"],
    ];
    for set in sets {
        let (config, d) = preset("cnex-small", set);
        let ftl = Translator::new(None, &d.geometry, &config.ftl, &mut |_, _| false, Seed(1));
        let ftl = ftl.unwrap_or_else(|e| panic!("{set:?}: {e:?}"));
        assert_eq!(ftl.sectors(), d.capacity.user_sectors, "{set:?}");
        let text = explain(&config);
        assert!(text.contains("  parity  "), "{set:?}: {text}");
    }
    // 6 of 8 LUNs hold data: 256 pages less the first unit and five at the end.
    let (_, d) = preset("cnex-small", &["ftl.stride=4"]);
    let data = 128 * (6 * 256 - 1 - 5) * 16;
    assert_eq!(d.capacity.data_sectors(), data);
    assert_eq!(d.capacity.user_sectors, (data as f64 * 0.8) as u64);
    near(d.parity_factor, 4.0 / 3.0, 1e-12);
}

#[test]
fn fifo_write_amplification_solves_its_equation() {
    for alpha in [1.05, 1.1236, 1.25, 1.5, 2.0, 4.0f64] {
        let wa = fifo_write_amplification(alpha);
        let u = 1.0 - 1.0 / wa;
        assert!((u - (-(1.0 - u) * alpha).exp()).abs() < 1e-9, "{alpha}: {wa}");
    }
    // A fifth of the drive spare: u = exp(-1.25 (1 - u)) = 0.6286.
    near(fifo_write_amplification(1.25), 2.693, 0.001);
    assert!(fifo_write_amplification(1.0).is_finite());
}

/// Pages of a map that are written often are a gain for the collector, FSSD's checkpoints are none.
#[test]
fn only_pages_that_are_soon_stale_make_a_bound() {
    for (device, set, bound) in [
        ("intel-750-small", "ftl.firmware.checkpoint_sectors=3000", true),
        ("intel-750-small", "ftl.firmware.checkpoint_sectors=100000", false),
        ("fssd-small", "ftl.fssd.checkpoint_sectors=5000", false),
    ] {
        let (config, derived) = preset(device, &["ftl.over_provisioning=30", set]);
        let text = explain(&config);
        assert!(
            derived.map_written > 0.0 && text.contains(set.split('=').next().unwrap()),
            "{set}"
        );
        assert_eq!(text.contains("make it a bound"), bound, "{set}: {}", derived.map_written);
    }
}

#[test]
fn explanations_have_all_their_parts() {
    for device in ["cnex-westlake", "z-ssd-800g", "intel-750-400g"] {
        let (config, _) = preset(device, &[]);
        let text = explain(&config);
        for part in [
            "Capacity",
            "over-provisioning",
            "mapping",
            "Geometry",
            "write unit",
            "stripe",
            "line",
            "Peak rates",
            "random read",
            "sequential read",
            "sequential write",
            "random write",
            "bounded by",
            "Latency",
            "write, buffered",
            "time to fill",
            "endurance",
            "Power",
        ] {
            assert!(text.contains(part), "{device} lacks {part}:\n{text}");
        }
        assert!(
            text.lines().all(|l| !l.ends_with(' ') && !l.contains("NaN") && !l.contains("inf "))
        );
        println!("{text}");
    }
}

#[test]
fn random_reads_at_a_depth_follow_from_the_luns_and_the_rest_of_a_read() {
    // Alone a read meets nobody; many find a LUN each only on average.
    near(rate_at_depth(1, 32, 50e-6, 10e-6), 1.0 / 60e-6, 1e-9);
    near(rate_at_depth(100_000, 32, 50e-6, 10e-6), 32.0 / 50e-6, 0.001);
    // Two of no other time on two LUNs: the one that comes finds the other there in half of the cases, with half of
    // its time left.
    near(rate_at_depth(2, 2, 1.0, 0.0), 2.0 / (1.0 + 0.5 - 0.25), 1e-9);
    let (_, d) = preset("pm9a3-1920g", &[]);
    assert_eq!(d.random_read.least().name, "LUNs");
    // 32 / (0.2 + 45 + 3.414 us).
    near(d.random_read.iops(), 658.2e3, 0.001);
    let at = |depth| d.random_read_at.iter().find(|at| at.depth == depth).unwrap().iops;
    near(at(1), 1.0 / (us(&d.read_latency) / 1e6), 0.001);
    near(at(512), 630.8e3, 0.001);
    assert!(d.random_read_in_phase.is_none());
    // 32 / (0.2 + 45 + 4 x 3.414 us).
    let (config, d) = preset("pm9a3-1920g", &["nand.channel_order=fifo"]);
    near(d.random_read_in_phase.unwrap(), 543.7e3, 0.001);
    assert!(explain(&config).contains("in phase"));
}

#[test]
fn a_part_of_the_map_in_memory_costs_what_its_misses_cost() {
    let whole = preset("pm9a3-1920g", &[]).1;
    // 468,843,606 sectors of 1,024 entries are 457,856 pages.
    let (config, d) = preset("pm9a3-1920g", &["ftl.firmware.map_bytes=468844544"]);
    near(d.map_misses, 0.75, 0.001);
    near(
        whole.random_read.bounds[0].bytes_per_s / d.random_read.bounds[0].bytes_per_s,
        1.75,
        0.001,
    );
    // A background command, a sector of it, and a read.
    let more = us(&d.read_latency) - us(&whole.read_latency);
    near(more, 0.75 * (0.3 + 0.2 + 0.2 + 45.0 + 3.414), 0.001);
    // Each sector that is programmed writes a page as often.
    near(
        d.random_write[0].bounds[0].bytes_per_s,
        {
            let program = 0.2 + 27.307 + 400.0 + 3500.0 / 1536.0;
            let read = 0.2 + 45.0 + 3.414;
            32.0 * 32768.0 / ((1.75 * program + 0.75 * 8.0 * read) * 1e-6)
        },
        0.001,
    );
    let [part, all] = [&d, &whole].map(|d| d.uniform_wa.unwrap());
    assert!(part > 1.7 * all, "{part} and {all}");
    assert!(explain(&config).contains("75.0 % of look-ups at random read a page of it"));
}

/// With one LUN a channel nobody waits. With two that have a share p of their time on the channel, one finds the other
/// there with the probability p, and waits for as long as its own data take.
#[test]
fn luns_that_always_write_wait_for_the_data_of_others() {
    let bound = |d: &Derived, name: &str| {
        let bound = d.sequential_write.bounds.iter().find(|bound| bound.name == name);
        bound.expect(name).bytes_per_s
    };
    let name = "LUNs that wait for channels";
    let (_, alone) = preset("p41-plus-1tb", &["nand.luns_per_channel=1"]);
    near(bound(&alone, name), bound(&alone, "LUNs"), 1e-9);
    let (_, two) = preset("p41-plus-1tb", &[]);
    let (transfer, program) = (0.2 + 54.613, 1630.0 + 10_000.0 / 768.0);
    let all = transfer + program;
    near(bound(&two, name) / bound(&two, "LUNs"), all / (all + transfer * transfer / all), 1e-4);
    // No channel is faster than its data.
    let (_, many) = preset("p41-plus-1tb", &["nand.luns_per_channel=64", "nand.blocks=256"]);
    near(bound(&many, name), bound(&many, "channels"), 0.01);
}

#[test]
fn a_burst_into_the_slc_buffer_erases_nothing() {
    let (_, d) = preset("p41-plus-1tb", &[]);
    // 64 KiB in 0.2 + 54.61 + 200 us, on 8 LUNs.
    near(d.slc_buffer.unwrap().write.bounds[0].bytes_per_s, 8.0 * 65536.0 / 254.81e-6, 0.001);
}

#[test]
fn bytes_are_written_with_a_suffix() {
    for (text, bytes) in
        [("4M", 4 << 20), ("64k", 64 << 10), ("1G", 1 << 30), ("4096", 4096), ("8MiB", 8 << 20)]
    {
        let (config, _) = preset("pm9a3-1920g", &[&format!("ftl.firmware.map_bytes={text}")]);
        assert_eq!(config.ftl.firmware.unwrap().map_bytes, bytes, "{text}");
    }
    let (config, _) = preset("pm9a3-1920g", &["cache.bytes=64M"]);
    assert_eq!(config.device.cache.unwrap().bytes, 64 << 20);
    for (text, bytes) in [("1g", 1 << 30), ("512M", 512 << 20), ("2GiB", 2 << 30)] {
        let sources = Sources {
            fs: Some(Source::Preset("ext4")),
            ..Sources::presets("pm9a3-1920g", "linux-libaio")
        };
        let overrides = [format!("fs.memory={text}"), "fs.read_ahead=64k".into()];
        let config = assemble(sources, &overrides).unwrap_or_else(|e| panic!("{e}"));
        let fs = config.stack.fs.unwrap();
        assert_eq!((fs.memory, fs.read_ahead), (bytes, 64 << 10), "{text}");
    }
    for refused in ["ftl.firmware.map_bytes=M", "ftl.firmware.map_bytes=4X", "nand.blocks=1k"] {
        let error = assemble(Sources::presets("pm9a3-1920g", "linux-libaio"), &[refused.into()]);
        let error = error.expect_err("it is refused").to_string();
        assert!(error.contains("expected a whole number"), "{refused}: {error}");
        assert!(!error.contains("write "), "{refused}: {error}");
    }
    // A unit of ten is not taken for one of two, and a rate has no suffix: the message says what to write.
    for (refused, whole) in [
        ("ftl.firmware.map_bytes=4MB", "4000000"),
        ("limits.read_rate=1.5 GB/s", "1500000000"),
        ("limits.read_rate=1GiB", "1073741824"),
    ] {
        let error = assemble(Sources::presets("pm9a3-1920g", "linux-libaio"), &[refused.into()]);
        let error = error.expect_err("it is refused").to_string();
        assert!(error.ends_with(&format!("\": write {whole}")), "{refused}: {error}");
    }
}

#[test]
fn the_write_amplification_of_random_writes_says_whose_victims_it_is_of() {
    for (sets, told) in [
        (&[][..], "with the lines the collector keeps free"),
        (&[], "its own victims (greedy)"),
        (&["ftl.firmware.victim=cost-benefit"], "its own victims (cost-benefit)"),
        (&["ftl.firmware=none", "ftl.victim=fifo"], "as its victims are (fifo)"),
        (&["ftl.firmware=none"], "with the lines the rate limiter keeps free"),
    ] {
        let text = explain(&preset("intel-750-small", sets).0);
        assert!(text.contains(told), "{sets:?} lacks {told}:\n{text}");
    }
}

/// So many programs as there is power for are under way. A drive that gets too hot has the mean of its two rates, by
/// the time of a body to warm up and to cool.
#[test]
fn power_and_heat_bound_rates() {
    let (config, d) = preset("z-ssd-small", &["power.flash_limit_mw=300"]);
    assert_eq!(d.sequential_write.least().name, "limit flash_limit_mw");
    assert!(explain(&config).contains("300 mW: 2 programs or 2 erasures at a time"));
    let (_, free) = preset("z-ssd-small", &[]);
    assert_eq!(free.random_read, d.random_read, "reads are not limited");
    let heat = |throttle: &str, hysteresis: &str| {
        let key = |text: &str| format!("power.thermal.{text}");
        let sets = [
            key("ambient=25.0"),
            key("resistance=5.0"),
            key("capacity=20.0"),
            key("throttle_mw=300"),
            key(&format!("throttle={throttle}")),
            key(&format!("hysteresis={hysteresis}")),
        ];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        preset("z-ssd-small", &sets).1.sequential_write
    };
    let (cool, hot) = (free.sequential_write.bytes_per_s(), d.sequential_write.bytes_per_s());
    near(heat("90.0", "3.0").bytes_per_s(), cool, 1e-9);
    near(heat("30.0", "3.0").bytes_per_s(), hot, 1e-9);
    // Without hysteresis the drive stays at the temperature at which it throttles: by its power, between the two.
    let power = |rate: f64| 3.8 + rate * free.sequential_write.joules;
    let (warm, less) = (25.0 + 5.0 * power(cool), 25.0 + 5.0 * power(hot));
    let middle = (warm + less) / 2.0;
    near(heat(&middle.to_string(), "0.0").bytes_per_s(), (cool + hot) / 2.0, 1e-6);
    assert_eq!(heat(&middle.to_string(), "0.1").least().name, "heat");
}

/// Blocks that are always written with a bit a cell never hold native data: their life is told in a row of its own.
#[test]
fn blocks_of_the_buffer_are_no_life_of_native_cells() {
    let (config, d) = preset("p41-plus-1tb", &["ftl.firmware.slc_static=5"]);
    let g = d.geometry;
    let lines = u64::from(g.lines.div_ceil(20));
    let lent = d.slc_buffer.as_ref().unwrap().lent_bytes;
    assert_eq!(lent, lines * g.sector.bytes_of(u64::from(g.sectors_per_line)));
    let native = (d.capacity.raw_bytes() - lent) as f64 * f64::from(config.nand.endurance);
    let text = explain(&config);
    assert!(text.contains(&format!("{:.2} PB to flash", native / 1e15)), "{text}");
}
