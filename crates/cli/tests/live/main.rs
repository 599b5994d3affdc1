//! Served drives, from outside: clients, kills, bad input.

mod attributes;
mod bad;
mod classes;
mod clients;
mod crash;
mod full;
mod hostile;
mod mounted;
mod place;
mod programs;
mod readonly;
mod record;
mod salvage;
mod serve;
#[path = "../common/skip.rs"]
mod skip;
mod tape;
mod worn;
