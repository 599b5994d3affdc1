//! The parts of the drive that programs have when several run.

use wordline_app::AppConfig;
use wordline_base::BadValue;
use wordline_profile::Config;

/// Parts begin at whole MiB.
const ALIGNED: u64 = 1 << 20;

/// Program `n` with its part: its own, or of several programs that say nothing of it an equal share each, in
/// their order.
pub(crate) fn of(config: &Config, n: usize, bytes: u64, app: &AppConfig) -> AppConfig {
    let programs = config.programs().count() as u64;
    if programs < 2 || (app.offset, app.size) != (0, 0) {
        return app.clone();
    }
    let share = bytes / programs / ALIGNED * ALIGNED;
    AppConfig { offset: n as u64 * share, size: share, ..app.clone() }
}

/// No two programs write the same place.
pub(crate) fn check(config: &Config, bytes: u64) -> Result<(), BadValue> {
    let part = |(n, (name, app)): (usize, (&str, &AppConfig))| {
        let app = of(config, n, bytes, app);
        let end = if app.size == 0 { bytes } else { app.offset + app.size };
        (n, name.to_string(), app.offset, end)
    };
    let parts: Vec<_> = config.programs().enumerate().map(part).collect();
    for (i, (n, _, from, to)) in parts.iter().enumerate() {
        for (_, other, begin, end) in &parts[..i] {
            if from < end && begin < to {
                let key = format!("with.{}.offset", n - usize::from(config.app.is_some()));
                let why = format!(
                    "makes its part of the drive, bytes {from} to {to}, overlap that of {other}, {begin} \
                     to {end}: give each program an offset and a size, or none"
                );
                return Err(BadValue::new(key, why));
            }
        }
    }
    Ok(())
}
