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
mod tape;
mod worn;
