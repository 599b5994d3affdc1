//! `--columns`: what it takes, what it makes of a table, and what it says of mistakes.

use crate::common::*;
use wordline_base::Ddir::{Read as R, Sync, Trim, Write as W};
use wordline_trace::*;

fn told(columns: &str) -> OpenOptions {
    OpenOptions { columns: Some(columns.into()), ..named("t.csv") }
}

fn error(text: &str, columns: &str) -> String {
    match open_bytes(text, told(columns)) {
        Err(e) => e.to_string(),
        Ok(mut reader) => all(&mut reader).expect_err("no error").to_string(),
    }
}

#[test]
fn columns_are_told_by_position_or_by_name() {
    let expected = [request(0, W, 0, 8 * 512, 4096), request(1_500_000, R, 0, 16 * 512, 8192)];
    let rows = "10,w,8,8,sda\n1510,R,16,16,sda\n";
    let by_position = "time=1:us,op=2,offset=3:sector,size=4:sector";
    let mut reader = open_bytes(rows, told(by_position)).unwrap();
    assert_eq!(reader.told(), "columns, by --columns, separated by commas");
    assert_eq!(all(&mut reader).unwrap(), expected);
    // In another order, with names, blanks, quotes, hexadecimal numbers, comments.
    for (separator, said) in [(",", ""), ("\t", ""), (";", ""), ("|", ",sep=pipe"), ("/", ",sep=/")]
    {
        let table = "# made by hand\nSize,\"Start LBA\",Op, When\n8,\"0x8\",WRITE , 10\n\n# on\n\
                     16,0x10,r,1510\n"
            .replace(',', separator);
        let by_name =
            format!("time=when:us, op=Op,offset=Start LBA:sector,size=Size:512{said},skip=1");
        let mut reader = open_bytes(table, told(&by_name)).unwrap();
        assert_eq!(all(&mut reader).unwrap(), expected, "{separator}");
        let dropped: Vec<_> =
            reader.summary().dropped.iter().map(|t| (t.reason, t.count)).collect();
        assert_eq!(dropped, [(Reason::Blank, 1), (Reason::Header, 2), (Reason::Comment, 1)]);
    }
    // Blanks, a header that is a comment, Windows' lines, a byte order mark.
    let table = "\u{feff}#when  op lba    n\r\n10 w   8  8\r\n1510   r 16 16 x\r\n";
    let by_name = "time=when:us,op=op,offset=lba:sector,size=n:sector";
    assert_eq!(read(table, told(by_name)).unwrap(), expected);
    // A name with a comma in a table with tabs.
    let table = "10\tw\t8\t8\tdd, of=x\n1510\tr\t16\t16\tcat\n";
    let mut reader =
        open_bytes(table, told("time=1:us,op=2,offset=3:sector,size=4:sector")).unwrap();
    assert_eq!(all(&mut reader).unwrap(), expected);
    assert!(reader.told().ends_with("separated by tabs"));
    // A quoted field holds the separator, and quotes.
    let table = "10,\"a, \"\"b\"\"\",w,8,8\n1510,c,r,16,16\n";
    let fields = "time=1:us,op=3,offset=4:sector,size=5:sector,volume=2";
    let mut reader = open_bytes(table, told(fields)).unwrap();
    let requests = all(&mut reader).unwrap();
    assert_eq!((requests[0].volume, requests[1].volume), (0, 1));
    assert_eq!(reader.volumes()[1], "c");
    let only = OpenOptions { volume: Some("c".into()), ..told(fields) };
    assert_eq!(read(table, only).unwrap(), [request(0, R, 0, 8192, 8192)]);
}

#[test]
fn times_and_lengths_are_read_in_their_units() {
    for (unit, ns) in [
        ("s", 3_500_000_000),
        ("ms", 3_500_000),
        ("us", 3_500),
        ("100ns", 350),
        ("ns", 3),
        ("ps", 0),
    ] {
        let spec = format!("time=1:{unit},offset=2:byte,size=3:byte,base=0");
        assert_eq!(read("3.5,0,512\n", told(&spec)).unwrap()[0].at.0, ns, "{unit}");
    }
    for (unit, bytes) in
        [("byte", 1), ("sector", 512), ("512", 512), ("4k", 4096), ("4096", 4096), ("1", 1)]
    {
        let spec = format!("offset=1:{unit},size=2:{unit}");
        let got = read("7,3\n", told(&spec)).unwrap();
        assert_eq!(got, [request(0, R, 0, 7 * bytes, 3 * bytes as u32)], "{unit}");
    }
    // Times begin with the first request, or where it is said.
    let rows = "1000,0,512\n1002,512,512\n";
    let at = |spec: &str| {
        let spec = format!("time=1:s,offset=2:byte,size=3:byte{spec}");
        let requests = read(rows, told(&spec)).unwrap();
        requests.iter().map(|r| r.at.0 / 1_000_000_000).collect::<Vec<_>>()
    };
    assert_eq!(at(""), [0, 2]);
    assert_eq!(at(",base=990"), [10, 12]);
    assert_eq!(at(",base=0"), [1000, 1002]);
    let e = error(rows, "time=1:s,offset=2:byte,size=3:byte,base=1001");
    assert!(e.starts_with("t.csv:1:1: the time is before that of base=: '1000'"), "{e}");
}

#[test]
fn operations_are_told_by_words_and_numbers() {
    let rows = "1 Read 8\n2 WRITE 8\n3 discard 8\n4 Flush 0\n5 r 8\n6 W 8\n7 sync 0\n";
    let spec = "time=1:us,op=2,offset=3:sector,size=3:sector";
    let ops = |rows: &str, spec: &str| {
        read(rows, told(spec)).map(|r| r.iter().map(|r| r.op).collect::<Vec<_>>())
    };
    assert_eq!(ops(rows, spec).unwrap(), [R, W, Trim, Sync, R, W, Sync]);
    let numbers = "1 0 8\n2 1 8\n3 2 8\n4 9 0\n";
    assert!(error(numbers, spec).starts_with(
        "t.csv:1:3: op '0' is none of read=r|read write=w|write trim=d|discard|trim|unmap \
         flush=f|flush|sync: say what it is, as read=0 or ignore=0"
    ));
    let said = format!("{spec},read=0,write=1|2,ignore=9");
    let mut reader = open_bytes(numbers, told(&said)).unwrap();
    assert_eq!(all(&mut reader).unwrap().len(), 3);
    assert_eq!(reader.summary().dropped[0].reason, Reason::Ignored);
    assert_eq!(ops(numbers, &format!("{spec},read=0,ignore=*")).unwrap(), [R]);
    // What is said replaces what a word is by itself.
    assert_eq!(ops("1 w 8\n", &format!("{spec},read=w")).unwrap(), [R]);
    // None at all.
    let mixed = OpenOptions { reads: Some(0), ..told("time=1:us,offset=3:sector,size=3:sector") };
    assert!(read(rows.replace(" 0\n", " 8\n"), mixed).unwrap().iter().all(|r| r.op == W));
    // No length.
    let e = error("1 8\n", "time=1:us,offset=2:sector");
    assert_eq!(
        e,
        "t.csv: --columns: the length of requests is missing: say size=COLUMN:UNIT, or --bs"
    );
    let fixed = OpenOptions { length: Some(4096), ..told("time=1:us,offset=2:sector") };
    assert_eq!(read("1 8\n", fixed).unwrap(), [request(0, R, 0, 4096, 4096)]);
}

#[test]
fn mistakes_are_named_beside_the_first_line() {
    let rows = "When,Op,LBA\n1,r,8\n";
    for (spec, expected) in [
        ("", "'' is no KEY=VALUE, as time=1:us"),
        ("time", "'time' is no KEY=VALUE, as time=1:us"),
        ("time=1:us", "offset= is missing, as offset=3:sector"),
        ("time=1", "time=1 is without its unit: say it, as time=1:us"),
        ("time=1:h", "time=1:h: unknown time unit 'h': use ps, ns, 100ns, us, ms or s"),
        ("offset=1", "offset=1 is without its unit: say it, as offset=1:byte"),
        (
            "offset=1:page",
            "offset=1:page: unknown unit 'page': byte, sector, or a number of bytes as 512 or 4k",
        ),
        ("offset=1:0", "offset=1:0: unit '0': from 1 byte to 1 GiB"),
        ("offset=0:byte", "offset=0: positions count from 1 to 1024"),
        ("offset=:byte", "offset= is without a column"),
        ("offset=1:byte,offset=2:byte", "offset= stands twice"),
        ("ofset=1:byte", "unknown key 'ofset', did you mean 'offset'?"),
        (
            "colour=1",
            "unknown key 'colour': time, offset, size, op, read, write, trim, flush, ignore, \
             volume, sep, skip, base",
        ),
        ("offset=LBB:byte", "no column is named 'LBB' in the header, did you mean 'LBA'?"),
        ("offset=3:byte,skip=x", "skip=x: a number of lines, as skip=1"),
        (
            "offset=3:byte,sep=xx",
            "sep=xx: comma, tab, semicolon, pipe, blank, or one character that is no letter, \
             digit, dot, quote or #",
        ),
        ("offset=3:byte,read=r", "read= says what a word of the op column is: say op=COLUMN too"),
        ("offset=3:byte,op=2,read=x,write=X", "the word 'x' is said to be two things"),
        ("offset=3:byte,op=2,read=x|", "read=x|: an empty word"),
        ("offset=3:byte,base=1", "base= is a time: say time=COLUMN:UNIT too"),
        ("time=1:us,offset=3:byte,base=-1", "base is negative: '-1'"),
    ] {
        assert_eq!(
            error(rows, spec),
            format!("t.csv: --columns: {expected}; the file begins with 'When,Op,LBA'")
        );
    }
    let twice = "A,a,B\n1,2,3\n";
    let exact = read(twice, told("offset=A:byte,size=B:byte")).unwrap();
    assert_eq!(exact, [request(0, R, 0, 1, 3)]);
    let e = error("a,a\n1,2\n", "offset=a:byte,size=a:byte");
    assert!(e.contains("2 columns are named 'a': say its position"), "{e}");
    let e = error("A,a\n1,2\n", "offset=A:byte,size=b:byte");
    assert!(e.contains("no column is named 'b'"), "{e}");
}

#[test]
fn a_line_that_does_not_fit_is_shown_beside_the_first() {
    let spec = "time=1:us,op=2,offset=3:sector,size=4:sector";
    let end = "; the file begins with 'When,Op,LBA,Sectors'";
    let head = "When,Op,LBA,Sectors\n";
    // The header was forgotten.
    assert_eq!(
        error(&format!("{head}1,r,8,8\n"), spec),
        format!(
            "t.csv:1:6: op 'Op' is none of read=r|read write=w|write trim=d|discard|trim|unmap \
             flush=f|flush|sync: say what it is, as read=Op or ignore=Op, or if this line is a \
             header, say skip=1{end}"
        )
    );
    let spec = format!("{spec},skip=1");
    for (line, expected) in [
        ("2,r,8", "3:6: 3 columns, separated by commas, where 4 are due"),
        ("2,r,x,8", "3:5: offset is not a number: 'x'"),
        ("2,r,0xg,8", "3:5: offset is no hexadecimal number: '0xg'"),
        ("2,r,-8,8", "3:5: offset is negative: '-8'"),
        ("2,r,,8", "3:5: offset is missing"),
        ("1e3,r,8,8", "3:1: time is not a number: '1e3'"),
        ("2,\"r,8,8", "3:3: a quote that does not end"),
        ("2,\"r\"x,8,8", "3:6: text after a closing quote"),
        ("2,r,8,8.5", "3:7: size is not a number: '8.5'"),
    ] {
        let text = format!("{head}1,r,8,8\n{line}\n3,r,8,8\n");
        assert_eq!(error(&text, &spec), format!("t.csv:{expected}{end}"));
    }
    assert_eq!(error("", "offset=1:byte,size=2:byte"), "t.csv: no request: the trace is empty");
    let both = OpenOptions { format: Some(Format::Msr), ..told("offset=1:byte") };
    let e = read(MSR, both).unwrap_err().to_string();
    assert_eq!(e, "t.csv: --columns and --format msr exclude each other");
    let e = error("\u{1}\0a\0b\0", "offset=1:byte,size=2:byte");
    assert!(e.starts_with("t.csv"), "{e}");
}

#[test]
fn the_help_fits_a_screen_and_its_examples_are_right() {
    assert!(COLUMNS_HELP.lines().count() <= 22);
    // The help of a command is 100 wide and begins at 10.
    assert!(COLUMNS_HELP.lines().all(|l| l.len() <= 90));
    let examples: Vec<&str> =
        COLUMNS_HELP.lines().filter_map(|l| l.trim().strip_prefix("--columns ")).collect();
    let tables = ["10,w,8,8\n", "When,Type,LBA,Bytes,Disk\n100,1,1,4096,a\n"];
    assert_eq!(examples.len(), tables.len());
    for (spec, table) in examples.into_iter().zip(tables) {
        assert_eq!(read(table, told(spec)).unwrap(), [request(0, W, 0, 4096, 4096)]);
    }
}
