//! The program `wordline`. What it does is in the library beside it, which is compiled while the crates that it
//! uses still are; a program waits for all of them.

fn main() -> std::process::ExitCode {
    wordline_cli::program()
}
