//! `wordline device`: what profiles there are and what follows from one.

use crate::args::DeviceCommand;
use crate::{Failure, output, remark};
use wordline::Drive;
use wordline_sim::Part;

pub fn device(command: DeviceCommand) -> Result<(), Failure> {
    match command {
        DeviceCommand::List => output::print(&wordline_profile::list()),
        DeviceCommand::Show { name } => {
            output::print(wordline_profile::show(&name).map_err(Failure::usage)?)
        }
        DeviceCommand::Check { profile, parts } => {
            let system = wordline_frontend::combine(&profile, &parts.named(), None)?;
            // What only the building of the machine can find out.
            let machine = system.machine();
            let drives = machine.drives.iter().enumerate().map(|(d, node)| {
                Drive::new(&node.config, Default::default(), false)
                    .map_err(|e| system.misfit(e.of(Part::Drive(d))))
            });
            let drives = drives.collect::<Result<Vec<_>, _>>()?;
            machine.units(&drives.iter().collect::<Vec<_>>()).map_err(|e| system.misfit(e))?;
            let differs = system.deviations(true);
            differs.iter().for_each(|text| remark(&format!("warning: {text}")));
            output::print(&wordline_profile::explain(&system.config))
        }
    }
}
