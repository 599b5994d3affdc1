//! Drives with sectors of other sizes than 4 KiB.

use wordline_check::{Age, Case, Outcome};

const JOB: &str = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-16k\nblockalign=512\niodepth=8\nnumber_ios=4000\nnorandommap\n";

fn run(device: &str, sector: u32, job: &str, sets: &[&str]) -> Outcome {
    let sector = format!("nand.sector_bytes={sector}");
    let mut case = Case::new(device, job).age(Age::Filled).set(&sector);
    for set in ["device.lba=512", "nand.blocks=64", "nand.pages_per_block=32"].iter().chain(sets) {
        case = case.set(set);
    }
    case.run().unwrap()
}

/// Every read is held against the newest version on the way, so that a run that ends has none wrong.
#[test]
fn writes_of_whole_sectors_of_any_size_are_never_merged_with_what_was_there() {
    let host = ["ftl.max_request_sectors=128", "ftl.over_provisioning=30", "nand.blocks=128"];
    for (device, sets) in [("z-ssd-small", &[][..]), ("cnex-small", &host)] {
        for sector in [512, 1024, 2048, 4096] {
            let m = run(device, sector, JOB, sets).result.machine;
            let what = format!("{device}, sectors of {sector}");
            assert_eq!(m.totals.partial_writes.sectors == 0, sector == 512, "{what}");
            assert_eq!(m.served, 4000, "{what}");
            assert!(m.totals.integrity.checked > 1000 && m.totals.integrity.wrong == 0, "{what}");
            let w = &m.totals.write_amplification;
            assert_eq!(w.flash_bytes, w.sectors() * u64::from(sector), "{what}");
        }
    }
}

/// What crosses a channel is bytes, however they are counted.
#[test]
fn a_read_of_four_kib_takes_the_flash_as_long_with_any_sectors() {
    let job = "[a]\nrw=randread\nbs=4k\nnumber_ios=200\nnorandommap\n";
    let busy = |sector| run("z-ssd-small", sector, job, &[]).result.machine.totals.energy_j;
    let flash = |sector: u32| -> Vec<(String, f64)> {
        busy(sector).into_iter().filter(|(name, _)| name.starts_with("flash")).collect()
    };
    let usual = flash(4096);
    assert!(usual.iter().any(|(name, j)| name == "flash transfer" && *j > 0.0));
    assert_eq!(usual, flash(512));
}

/// A look-up of the map is no read of a sector's rest.
#[test]
fn parts_of_sectors_that_were_never_written_read_nothing() {
    let job = "[a]\nioengine=libaio\nrw=randwrite\nbs=512\niodepth=4\nnumber_ios=3000\n";
    for (age, map) in [(Age::Fresh, 0), (Age::Fresh, 8192), (Age::Filled, 8192)] {
        let case = Case::new("intel-750-small", job).age(age).set("ftl.over_provisioning=35");
        let o = case.set(&format!("ftl.firmware.map_bytes={map}")).run().unwrap();
        let m = &o.result.machine;
        let read = m.totals.counters.iter().find(|(name, _)| name == "ftl.read_flash").unwrap().1;
        let parts = &m.totals.partial_writes;
        assert!(parts.sectors > 1000, "{parts:?}");
        assert_eq!(parts.read_bytes, read * 4096, "{age:?}, {map} bytes: {parts:?}");
        assert_eq!(read > 0, age == Age::Filled, "{read}");
    }
}
