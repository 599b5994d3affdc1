//! `wordline device`: what profiles there are and what follows from one.

use crate::args::DeviceCommand;
use crate::{Failure, load, output};
use wordline::Drive;

pub fn device(command: DeviceCommand) -> Result<(), Failure> {
    match command {
        DeviceCommand::List => output::print(&wordline_profile::list()),
        DeviceCommand::Show { name } => {
            output::print(wordline_profile::show(&name).map_err(Failure::usage)?)
        }
        DeviceCommand::Check { profile, parts } => {
            let system = load::combine(&profile, &parts, None)?;
            // What only the building of the machine can find out.
            Drive::new(&system.drive(), Default::default(), false).map_err(|e| system.misfit(e))?;
            output::print(&wordline_profile::explain(&system.config))
        }
    }
}
