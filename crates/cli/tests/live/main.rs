//! Served drives, from outside: clients, kills, bad input.

mod bad;
mod clients;
mod crash;
mod place;
mod serve;
mod tape;
