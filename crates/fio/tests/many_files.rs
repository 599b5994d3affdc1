//! Files by the hundred thousand: each gets its I/O once, in the order fio has, in time that grows
//! with their number.

use wordline_fio::{Generator, NoEnv, ParseOptions, parse_file};

#[test]
fn files_are_written_one_after_the_other_where_one_is_open() {
    const FILES: u32 = 300_000;
    let text = format!(
        "[j]\nioengine=filecreate\nrw=write\nbs=4k\nfilesize=4k\nopenfiles=1\nnrfiles={FILES}\n"
    );
    let plan = parse_file("job.fio", &text, &ParseOptions::default(), &mut NoEnv).unwrap();
    let thread = &plan.threads()[0];
    let mut generator = Generator::new(&plan.jobs[0], thread, 1 << 40, 1).unwrap();
    for file in 0..FILES {
        assert_eq!(generator.next().map(|io| io.file), Some(file));
    }
    assert_eq!(generator.next(), None);
}
