//! `wordline device`: what profiles there are and what follows from one.

use crate::args::DeviceCommand;
use crate::{Failure, load, output};

pub fn device(command: DeviceCommand) -> Result<(), Failure> {
    match command {
        DeviceCommand::List => output::print(&wordline_profile::list()),
        DeviceCommand::Show { name } => {
            output::print(wordline_profile::show(&name).map_err(Failure::usage)?)
        }
        DeviceCommand::Check { profile, mut machine } => {
            machine.device = profile;
            let (config, places) = load::config(&machine)?;
            // What only the building of the machine can find out.
            wordline_sim::Drive::new(&load::system(&config), Default::default(), false)
                .map_err(|p| load::misfit(&places, &p))?;
            output::print(&wordline_profile::explain(&config))
        }
    }
}
