//! Which FTL a drive has: one of ours, or one that somebody wrote outside.

use crate::{
    Action, AgeError, BlockState, Breach, Choose, ClosedLine, Counters, Ftl, FtlConfig, GcFloor,
    GcShape, HostMemory, InPlace, LoadError, MapHeld, MapWork, Memory, Ordered, Pace, Piece,
    Rebuilt, SlcUse, Source, Steady, StrideUse, Translation, Wear,
};
use std::io::{self, Write};
use std::sync::Arc;
use wordline_base::{BadValue, Ctx, Lpn, PageData, Seed, Stamps, StateSource};
use wordline_firmware::Firmware;
use wordline_fssd::{Fssd, KeptVersions};
use wordline_nand::{Geometry, LineId, LunId, Outcome, Ppa};

/// Makes FTLs of one kind.
pub trait FtlKind: Send + Sync {
    /// As reports name it.
    fn name(&self) -> &str;
    /// An FTL for a fresh drive. `bad(lun, line)` tells factory bad blocks. An error names the
    /// configuration key.
    fn make(
        &self,
        geometry: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        seed: Seed,
    ) -> Result<Box<dyn Translation>, BadValue>;
    /// Takes up a state that [`Translation::save`] wrote.
    fn load(
        &self,
        _geometry: &Geometry,
        _config: &FtlConfig,
        _from: &mut dyn StateSource,
    ) -> Result<Box<dyn Translation>, LoadError> {
        Err(LoadError::Unsupported(self.name().into()))
    }
}

/// The FTL of a drive.
#[derive(Clone)]
pub enum Translator {
    /// pblk with RAIL and its kin.
    Pblk(Box<Ftl>),
    /// FSSD's, a conventional drive's, that of media written in place, or one from outside.
    Other(Box<dyn Translation>),
}

impl Translator {
    /// The FTL of a fresh drive: that of `kind`, or ours.
    pub fn new(
        kind: Option<&Arc<dyn FtlKind>>,
        geometry: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        seed: Seed,
    ) -> Result<Translator, BadValue> {
        match kind {
            Some(kind) => Ok(Translator::Other(kind.make(geometry, config, bad, seed)?)),
            None if let Some(fssd) = &config.fssd => {
                let ftl = Fssd::new(geometry, config.over_provisioning, fssd, bad)?;
                Ok(Translator::Other(Box::new(ftl)))
            }
            None if let Some(firmware) = &config.firmware => {
                let ftl = Firmware::new(geometry, config.over_provisioning, firmware, bad)?;
                Ok(Translator::Other(Box::new(ftl)))
            }
            None if geometry.in_place => Ok(InPlace::new(geometry, config, bad)?.into()),
            None => Ok(Ftl::new(geometry, config, bad, seed)?.into()),
        }
    }
    /// The FTL of a saved drive.
    pub fn load(
        kind: Option<&Arc<dyn FtlKind>>,
        geometry: &Geometry,
        config: &FtlConfig,
        from: &mut dyn StateSource,
    ) -> Result<Translator, LoadError> {
        match kind {
            Some(kind) => Ok(Translator::Other(kind.load(geometry, config, from)?)),
            None if let Some(fssd) = &config.fssd => {
                let ftl = Fssd::load(geometry, config.over_provisioning, fssd, from)?;
                Ok(Translator::Other(Box::new(ftl)))
            }
            None if let Some(firmware) = &config.firmware => {
                let ftl = Firmware::load(geometry, config.over_provisioning, firmware, from)?;
                Ok(Translator::Other(Box::new(ftl)))
            }
            None if geometry.in_place => Ok(InPlace::load(geometry, config, from)?.into()),
            None => Ok(Ftl::load(geometry, config, from)?.into()),
        }
    }
    /// pblk, for what only it can do.
    pub fn pblk(&self) -> Option<&Ftl> {
        match self {
            Translator::Pblk(ftl) => Some(ftl),
            Translator::Other(_) => None,
        }
    }
    /// What a unit of parity is the sum of ([`Ftl::parity_terms`]).
    pub fn parity_terms(&self, ppa: Ppa) -> Vec<(Ppa, u8)> {
        self.pblk().map_or_else(Vec::new, |ftl| ftl.parity_terms(ppa))
    }
    /// The other way to a run of sectors ([`Ftl::rebuild_terms`]), which only parity gives.
    pub fn rebuild_terms(&self, ppa: Ppa, sectors: u32) -> Option<Vec<(Ppa, u8)>> {
        self.pblk()?.rebuild_terms(ppa, sectors)
    }
    /// The sector has an address: it holds data, or parity.
    pub fn has_address(&self, ppa: Ppa) -> bool {
        match self.pblk() {
            Some(ftl) => ftl.has_address(ppa),
            None => self.oob(ppa).is_some(),
        }
    }
    /// FSSD's or a conventional drive's, of one whose sectors are kept with their versions.
    pub fn of_versions(
        geometry: &Geometry,
        config: &FtlConfig,
        kept: &KeptVersions,
    ) -> Option<Result<(Translator, u64), BadValue>> {
        if let Some(firmware) = &config.firmware {
            return Some(crate::versions::firmware(geometry, config, firmware, kept));
        }
        let fssd = config.fssd.as_ref()?;
        let made = Fssd::from_versions(geometry, config.over_provisioning, fssd, kept);
        Some(made.map(|(ftl, found)| (Translator::Other(Box::new(ftl)), found.mapped)))
    }
    /// The same, to be changed.
    pub fn pblk_mut(&mut self) -> Option<&mut Ftl> {
        match self {
            Translator::Pblk(ftl) => Some(ftl),
            Translator::Other(_) => None,
        }
    }
}

impl From<Ftl> for Translator {
    fn from(ftl: Ftl) -> Translator {
        Translator::Pblk(ftl.into())
    }
}

impl Ftl {
    /// pblk collects whether the drive is idle or not.
    fn user_came(&mut self, _: &mut Ctx) {}
    /// pblk's map is in memory.
    fn looks_up(&self) -> bool {
        false
    }
    fn look_up(&mut self, _: &mut Ctx, _: u32, _: Lpn, _: u32) -> bool {
        true
    }
    /// pblk's collector takes no orders.
    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        None
    }
    fn gc_shape(&self) -> Option<GcShape> {
        None
    }
    fn begins_late(&self) -> Option<[f64; 2]> {
        None
    }
    fn gc_floor(&self) -> GcFloor {
        GcFloor::default()
    }
    fn slc_use(&self) -> Option<SlcUse> {
        None
    }
    fn map_held(&self) -> Option<MapHeld> {
        None
    }
    fn lies_at(&self, _: Lpn) -> Option<(Ppa, bool)> {
        None
    }
}

impl From<InPlace> for Translator {
    fn from(ftl: InPlace) -> Translator {
        Translator::Other(Box::new(ftl))
    }
}

/// Hands each call to the FTL that is there, whose own methods have these names.
macro_rules! hand_on {
    ($(fn $name:ident(&$($mut:ident)? $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)*) => {
        impl Translation for Ftl {
            $(
                #[inline]
                fn $name(&$($mut)? self $(, $arg: $type)*) $(-> $out)? {
                    Ftl::$name(self $(, $arg)*)
                }
            )*
            fn boxed(&self) -> Box<dyn Translation> {
                Box::new(self.clone())
            }
        }
        impl Translation for Translator {
            $(
                #[inline]
                fn $name(&$($mut)? self $(, $arg: $type)*) $(-> $out)? {
                    match self {
                        Translator::Pblk(ftl) => Ftl::$name(ftl $(, $arg)*),
                        Translator::Other(ftl) => ftl.$name($($arg),*),
                    }
                }
            )*
            // pblk has no buffer in SLC mode.
            fn fold(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
                match self {
                    Translator::Pblk(_) => Ok(()),
                    Translator::Other(ftl) => ftl.fold(stamps),
                }
            }
            fn free_lines(&self) -> Option<(u32, f64, f64)> {
                match self {
                    Translator::Pblk(ftl) => Some(ftl.free_lines()),
                    Translator::Other(ftl) => ftl.free_lines(),
                }
            }
            fn boxed(&self) -> Box<dyn Translation> {
                Box::new(self.clone())
            }
        }
    };
}

hand_on! {
    fn sectors(&) -> u64;
    fn start(&mut, ctx: &mut Ctx);
    fn prefetch(&mut, ctx: &Ctx, lpn: Lpn);
    fn user_came(&mut, ctx: &mut Ctx);
    fn looks_up(&) -> bool;
    fn look_up(&mut, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) -> bool;
    fn read(&mut, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>);
    fn write(&mut, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32, fua: bool, source: Source);
    fn flush(&mut, ctx: &mut Ctx, tag: u32);
    fn trim(&mut, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32);
    fn poll(&mut) -> Option<Action>;
    fn on_done(&mut, ctx: &mut Ctx, op: u32, outcome: Outcome);
    fn on_timer(&mut, ctx: &mut Ctx, index: u32);
    fn digest(&, ppa: Ppa, lpn: Lpn, sectors: u32) -> u64;
    fn expects(&, op: u32, ppa: Ppa, sectors: u32) -> u64;
    fn data(&, op: u32, ppa: Ppa, to: &mut PageData);
    fn has_lost(&, ppa: Ppa, sectors: u32) -> bool;
    fn beside(&, op: u32) -> u32;
    fn read_failed(&mut);
    fn repair(
        &mut, ctx: &mut Ctx, lpn: Lpn, sectors: u32, ppa: Ppa, expected: u64, out: &mut Vec<Piece>
    ) -> bool;
    fn member_done(
        &mut, ctx: &mut Ctx, rebuild: u32, ppa: Ppa, ok: bool, out: &mut Vec<Piece>
    ) -> Option<Rebuilt>;
    fn read_done(&mut, ctx: &mut Ctx, ppa: Ppa, sectors: u32);
    fn fill(&mut, stamps: &mut Stamps) -> Result<(), AgeError>;
    fn overwrite(&mut, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError>;
    fn takes_stamped(&mut, stamps: &mut Stamps, lpns: &[u32]) -> Result<bool, AgeError>;
    fn overwrite_stamped(&mut, lpns: &[u32], stamps: &[u32]) -> Result<(), AgeError>;
    fn unmap(&mut, lpn: Lpn, sectors: u32) -> Result<(), AgeError>;
    fn rest(&mut, stamps: &mut Stamps) -> Result<(), AgeError>;
    fn paced(
        &mut, stamps: &mut Stamps, next: &mut Choose<'_>, pace: Pace
    ) -> Result<Steady, AgeError>;
    fn settle(&mut);
    fn media_state(&) -> Box<dyn Iterator<Item = BlockState> + '_>;
    fn adopt_stamps(&mut, stamps: &mut Stamps);
    fn know_stamps(&mut) -> bool;
    fn save(&, to: &mut dyn Write) -> io::Result<()>;
    fn newest_at(&, lpn: Lpn) -> Option<Ppa>;
    fn oob(&, ppa: Ppa) -> Option<(Lpn, u32)>;
    fn unwritten(&) -> Vec<(Lpn, u32)>;
    fn counters(&) -> &Counters;
    fn memory(&) -> Memory;
    fn host_memory(&) -> HostMemory;
    fn take_map_work(&mut) -> MapWork;
    fn wear(&) -> Wear;
    fn closed_lines(&) -> Box<dyn Iterator<Item = ClosedLine> + '_>;
    fn collects(&) -> bool;
    fn least_overwrites(&) -> f64;
    fn is_collecting(&) -> bool;
    fn collector_holds(&) -> bool;
    fn hold_collection(&mut, ctx: &mut Ctx, hold: bool);
    fn ordered(&mut) -> Option<&mut dyn Ordered>;
    fn gc_shape(&) -> Option<GcShape>;
    fn gc_floor(&) -> GcFloor;
    fn begins_late(&) -> Option<[f64; 2]>;
    fn slc_use(&) -> Option<SlcUse>;
    fn map_held(&) -> Option<MapHeld>;
    fn lies_at(&, lpn: Lpn) -> Option<(Ppa, bool)>;
    fn strides(&) -> Option<StrideUse>;
    fn check_invariants(&) -> Result<(), Breach>;
}
