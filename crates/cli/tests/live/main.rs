//! Served drives, from outside: clients, kills, bad input.

mod bad;
mod clients;
mod crash;
mod mounted;
mod place;
mod programs;
mod serve;
mod tape;
