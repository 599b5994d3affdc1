//! `wordline device`: what profiles there are and what follows from one.

use crate::args::DeviceCommand;
use crate::load::Loaded;
use crate::{Failure, output};
use wordline_sim::Drive;

pub fn device(command: DeviceCommand) -> Result<(), Failure> {
    match command {
        DeviceCommand::List => output::print(&wordline_profile::list()),
        DeviceCommand::Show { name } => {
            output::print(wordline_profile::show(&name).map_err(Failure::usage)?)
        }
        DeviceCommand::Check { profile, parts } => {
            let loaded = Loaded::combine(&profile, &parts, None)?;
            // What only the building of the machine can find out.
            Drive::new(&loaded.system, Default::default(), false).map_err(|p| loaded.misfit(&p))?;
            output::print(&wordline_profile::explain(&loaded.config))
        }
    }
}
