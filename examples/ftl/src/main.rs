//! Runs a job file on a drive with the small FTL: `pagemap z-ssd-small job.fio`.

use pagemap::PageMapKind;
use wordline::{Plan, Precondition, System, jobs, report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [device, file] = &names[..] else { return Err("usage: pagemap DEVICE JOB.fio".into()) };
    let system = System::preset(device, "linux-libaio")?.with_ftl(PageMapKind);
    let job = jobs(file, &std::fs::read_to_string(file)?)?;
    let plan = Plan { state: Precondition::Steady, ..Plan::new(system, job) };
    let result = plan.prepare()?.start()?.to_end();
    print!("{}{}", report::fio_normal(&result), report::explain_text(&result));
    Ok(result.verdict()?)
}
