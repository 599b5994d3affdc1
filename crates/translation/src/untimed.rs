//! Ageing by the FTL's own timed inputs: every operation is done as soon as it is asked for.

use crate::{Action, AgeError, Source, Translation};
use wordline_base::{Ctx, Lpn, Stamps};
use wordline_nand::Outcome;

/// Writes these sectors in order, and does all there is to do. Timers do not go off.
pub(crate) fn write<T: Translation + ?Sized>(
    ftl: &mut T,
    stamps: &mut Stamps,
    lpns: impl IntoIterator<Item = u32>,
) -> Result<(), AgeError> {
    let mut ctx = Ctx::new();
    ctx.stamps = std::mem::take(stamps);
    let mut written = Ok(());
    for lpn in lpns {
        ftl.write(&mut ctx, 0, Lpn(lpn), 1, false, Source::Host);
        while let Some(action) = ftl.poll() {
            match action {
                Action::Read { op, .. }
                | Action::Program { op, .. }
                | Action::Erase { op, .. }
                | Action::Stage { op, .. }
                | Action::Sum { op, .. } => ftl.on_done(&mut ctx, op, Outcome::Ok),
                Action::Complete { ok, .. } if !ok => {
                    written = Err(AgeError::Full("no space can be made"));
                }
                Action::Refuse { .. } => written = Err(AgeError::Memory),
                Action::Complete { .. } => {}
            }
        }
        if written.is_err() {
            break;
        }
    }
    *stamps = ctx.stamps;
    written
}
