//! The program from outside: arguments, files, exit status, bytes written.

mod ageing;
mod align;
mod bad;
mod cache;
mod examples;
mod jobs;
mod package;
mod place;
mod replay;
mod report;
mod stop;
mod study;
mod trust;
mod use_cases;
