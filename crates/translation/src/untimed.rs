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
        written = at_once(ftl, &mut ctx);
        if written.is_err() {
            break;
        }
    }
    *stamps = ctx.stamps;
    written
}

/// Trims these sectors, and does all there is to do.
pub(crate) fn trim<T: Translation + ?Sized>(
    ftl: &mut T,
    lpn: Lpn,
    sectors: u32,
) -> Result<(), AgeError> {
    let mut ctx = Ctx::new();
    ctx.stamps = Stamps::off();
    ftl.trim(&mut ctx, 0, lpn, sectors);
    at_once(ftl, &mut ctx)
}

/// Ends all operations that are asked for. An error if a command failed.
fn at_once<T: Translation + ?Sized>(ftl: &mut T, ctx: &mut Ctx) -> Result<(), AgeError> {
    let mut done = Ok(());
    while let Some(action) = ftl.poll() {
        match action {
            Action::Read { op, .. }
            | Action::Program { op, .. }
            | Action::Erase { op, .. }
            | Action::Stage { op, .. }
            | Action::Sum { op, .. } => ftl.on_done(ctx, op, Outcome::Ok),
            Action::Complete { ok, .. } if !ok => {
                done = Err(AgeError::Full("no space can be made"));
            }
            Action::Refuse { .. } => done = Err(AgeError::Memory),
            Action::Complete { .. } => {}
        }
    }
    done
}
