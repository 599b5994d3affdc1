//! The stages of a plan: shared, loaded and stopped.

use wordline::{
    BuildError, Error, Plan, Precondition, RunResult, Source, Sources, StateError, System,
    ZetanCache, jobs,
};

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
    let jobs = jobs("mixed.fio", MIXED).expect("jobs");
    Plan { state, ..Plan::new(system(&[]), jobs) }
}

fn system(set: &[&str]) -> System {
    let sources = Sources::presets("z-ssd-small", "linux-libaio");
    let small = ["nand.blocks=64", "nand.pages_per_block=8"];
    let all: Vec<String> = small.iter().chain(set).map(|s| s.to_string()).collect();
    System::assemble(sources, &all).expect("settings")
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
        let drives = plan(state).share(&mut zetans).unwrap();
        for _ in 0..2 {
            let checked = plan(state).check_on(drives.clone(), &mut zetans).unwrap();
            let shared = checked.pace(&mut ()).unwrap().start().unwrap().to_end();
            assert_eq!(told(&own), told(&shared), "{state:?}");
        }
    }
}

/// Ageing asks now and then whether it is to go on, and ends with the reason where it is not.
#[test]
fn ageing_ends_where_it_is_told_to() {
    struct Once(u32);
    impl wordline::Watch for Once {
        fn look(&mut self) -> Result<(), wordline::Ended> {
            self.0 += 1;
            if self.0 < 3 { Ok(()) } else { Err(wordline::Ended { why: "enough".into() }) }
        }
    }
    for state in [Precondition::Steady, Precondition::Random, Precondition::Paced] {
        let (mut checked, mut watch) = (plan(state).check().unwrap(), Once(0));
        let error = checked.age(&mut watch).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        assert_eq!(watch.0, 3, "{state:?}");
    }
    let (mut checked, mut watch) = (plan(Precondition::Fill).check().unwrap(), Once(2));
    checked.age(&mut watch).expect("in order nothing grows");
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
    assert!(result.verdict().unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn a_drive_at_hand_is_the_one_of_the_plan() {
    let drive = plan(Precondition::Fill).prepare().unwrap().into_drive();
    let on = |set: &[&str]| {
        let jobs = jobs("mixed.fio", MIXED).expect("jobs");
        let plan = Plan::new(system(set), jobs);
        plan.check_on(vec![drive.clone()], &mut ZetanCache::default()).map(drop)
    };
    for (set, differs, here) in [
        ("nand.blocks=96", "nand.blocks", "96"),
        ("nand.t_read=9us", "nand.t_read", "\"9us\""),
        ("ftl.over_provisioning=40", "ftl.over_provisioning", "40.0"),
        ("device.lba=4096", "device.lba", "4096"),
    ] {
        match on(&[set]) {
            Err(Error::State(StateError::OtherDrive { key, plan, drive })) => {
                assert_eq!((key.as_str(), plan.as_str()), (differs, here));
                assert_ne!(drive, plan);
            }
            other => panic!("{set}: {other:?}"),
        }
    }
    // Neither the host nor the link is of the drive's state.
    on(&["stack.cores=2", "link.lanes=2", "ftl.cost.read_command=1us"]).unwrap();
}

#[test]
fn what_a_host_cannot_do_shows_before_the_drive_is_aged() {
    let check = |job: &str, fs: Option<&str>| {
        let fs = fs.map(Source::Preset);
        let sources = Sources { fs, ..Sources::presets("z-ssd-small", "linux-libaio") };
        let system = System::assemble(sources, &[])?;
        Plan::new(system, jobs("job.fio", &format!("[j]\nrw=read\n{job}\n"))?).check().map(drop)
    };
    check("cpus_allowed=0", None).unwrap();
    let core = check("cpus_allowed=99", None).unwrap_err();
    assert!(matches!(core, Error::Build(BuildError::Host(_))), "{core:?}");
    assert!(core.to_string().starts_with("job 'j': cpus_allowed asks for core 99"), "{core}");
    check("size=1m", Some("ext4")).unwrap();
    let spdk = check("ioengine=spdk\nthread=1", Some("ext4")).unwrap_err();
    assert!(matches!(spdk, Error::Build(BuildError::Host(_))), "{spdk:?}");
    let csv = "128166372003061629,hm,0,Read,4096,4096,100\n";
    let fs = Some(Source::Preset("ext4"));
    let sources = Sources { fs, ..Sources::presets("z-ssd-small", "linux-libaio") };
    let files = Plan::replay(System::assemble(sources, &[]).unwrap(), "hm.csv", csv).check();
    assert!(matches!(files.err(), Some(Error::Build(BuildError::NoFiles))));
}
