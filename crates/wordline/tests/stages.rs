//! The stages of a plan: shared, loaded and stopped.

use wordline::{Error, Plan, Precondition, RunResult, StoppedBy, System, ZetanCache, jobs};

const MIXED: &str = "
[r]
rw=randread
iodepth=4
number_ios=400
norandommap
[w]
rw=randwrite
rate_iops=20k
number_ios=400
norandommap
";

fn plan(state: Precondition) -> Plan {
    let sources = wordline::Sources::presets("z-ssd-small", "linux-libaio");
    let small = ["nand.blocks=64".to_string(), "nand.pages_per_block=8".to_string()];
    let system = System::assemble(sources, &small).expect("settings");
    let jobs = jobs("mixed.fio", MIXED).expect("jobs");
    Plan { state, ..Plan::new(system, jobs) }
}

/// What a run gives, but for the time that it took to prepare.
fn told(result: &RunResult) -> String {
    result.verdict().expect("a whole run");
    wordline::report::fio_json(result, true, &Default::default())
}

#[test]
fn a_shared_drive_gives_what_a_drive_of_its_own_gives() {
    for state in
        [Precondition::Fill, Precondition::Steady, Precondition::Random, Precondition::Paced]
    {
        let own = plan(state).prepare().unwrap().start().unwrap().to_end();
        let mut zetans = ZetanCache::default();
        let drive = plan(state).share(&mut zetans).unwrap();
        for _ in 0..2 {
            let checked = plan(state).check_on(drive.clone(), &mut zetans).unwrap();
            let shared = checked.pace().unwrap().start().unwrap().to_end();
            assert_eq!(told(&own), told(&shared), "{state:?}");
        }
    }
}

#[test]
fn a_loaded_state_takes_the_place_of_the_plans() {
    let mut aged = plan(Precondition::Steady).check().unwrap();
    aged.age(&mut ()).unwrap();
    let mut state = Vec::new();
    aged.save(&mut state).unwrap();
    let run = |state: &[u8], asked| -> Result<RunResult, Error> {
        let mut checked = plan(asked).check()?;
        checked.load(&mut &state[..])?;
        Ok(checked.prepare(&mut ())?.start()?.to_end())
    };
    let loaded = run(&state, Precondition::None).unwrap();
    assert_eq!(loaded.provenance.precondition, "loaded");
    assert!(loaded.prepared.starts_with("filled, then overwritten"), "{}", loaded.prepared);
    // What the plan asks for is not done on top.
    assert_eq!(told(&loaded), told(&run(&state, Precondition::Random).unwrap()));
    let cut = run(&state[..state.len() / 2], Precondition::None).err().expect("cut short");
    assert!(matches!(cut, Error::State(_)), "{cut}");
}

#[test]
fn a_run_that_is_over_cannot_be_stopped() {
    let mut run = plan(Precondition::Fill).prepare().unwrap().start().unwrap();
    while run.step(1000) {}
    assert_eq!(run.thousandths(), Some(1000));
    run.stop();
    assert!(run.finish().verdict().is_ok());

    let mut run = plan(Precondition::Fill).prepare().unwrap().start().unwrap();
    run.step(1000);
    run.stop();
    let result = run.to_end();
    assert_eq!(result.stopped, StoppedBy::User);
    assert!(result.verdict().unwrap_err().to_string().contains("interrupted"));
}
