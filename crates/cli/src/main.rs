//! The program `wordline`. What it does is in the library beside it. A library is compiled while the crates that it
//! uses still are, and a program is not.

fn main() -> std::process::ExitCode {
    wordline_cli::program()
}
