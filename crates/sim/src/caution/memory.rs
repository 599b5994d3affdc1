//! What the memory of a host or a server answered in place of a drive.

use super::part_of;

/// Of bytes written into files, so many went on to the drive. A page that is written again before it goes there
/// is written once. `journal`: a file system has data in its journal, so that writes with `direct=1` go through
/// pages, too.
pub(crate) fn in_page_cache(written: u64, to_drive: u64, journal: bool) -> Option<String> {
    let left = written.saturating_sub(to_drive);
    let direct = if journal { "" } else { "direct=1, " };
    (left > written / 10).then(|| {
        format!(
            "{} written did not reach the drive: they are in the page cache of the host or were overwritten there, so \
             that writes were as fast as its memory. {direct}fsync or a longer run shows the drive",
            part_of(left, written)
        )
    })
}

/// Of bytes that clients wrote to a server, so many went on to its drive.
pub(crate) fn in_servers_pages(written: u64, to_drive: u64) -> Option<String> {
    let left = written.saturating_sub(to_drive);
    (left > written / 10).then(|| {
        format!(
            "{} that clients wrote did not reach the drive: they are in the page cache of the server, or were \
             overwritten or trimmed there, so that writes were as fast as network and memory. A longer run, fsync with \
             stack.nbd.flush=true, or stack.nbd.page_cache=false shows the drive",
            part_of(left, written)
        )
    })
}

/// Of bytes that a server read for clients, so many came from its drive.
pub(crate) fn out_of_servers_pages(read: u64, from_drive: u64) -> Option<String> {
    let left = read.saturating_sub(from_drive);
    (left > read / 10).then(|| {
        format!(
            "{} that clients read came out of the page cache of the server and not from the drive: those reads were as \
             fast as network and memory. stack.nbd.page_cache=false shows the drive",
            part_of(left, read)
        )
    })
}

/// Of bytes read from files, so many came from the drive.
pub(crate) fn out_of_page_cache(read: u64, from_drive: u64) -> Option<String> {
    let left = read.saturating_sub(from_drive);
    (left > read / 10).then(|| {
        format!(
            "{} read came out of the page cache of the host and not from the drive: those reads were as fast as its \
             memory. direct=1 shows the drive",
            part_of(left, read)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_stay_in_the_hosts_memory_are_told() {
        assert_eq!(in_page_cache(0, 0, false), None);
        assert_eq!(
            in_page_cache(1_000_000_000, 900_000_000, false),
            None,
            "a tenth, of a long run"
        );
        assert_eq!(in_page_cache(1_000, 4_096, false), None, "a part of a page");
        let told =
            in_page_cache(20_000_000_000, 12_000_000_000, false).expect("two fifths are left");
        assert!(told.starts_with("8000 of 20000 MB written did not reach the drive"), "{told}");
        let told = in_page_cache(8_192, 0, true).expect("all are left");
        assert!(!told.contains("direct=1"), "{told}");
    }

    #[test]
    fn reads_that_the_hosts_memory_answers_are_told() {
        assert_eq!(out_of_page_cache(0, 0), None);
        assert_eq!(out_of_page_cache(1_000_000_000, 900_000_000), None, "a tenth");
        assert_eq!(out_of_page_cache(1_000, 4_096), None, "a part of a page");
        let told = out_of_page_cache(20_000_000_000, 8_000_000_000).expect("three fifths");
        assert!(told.starts_with("12000 of 20000 MB read came out of the page cache"), "{told}");
    }

    #[test]
    fn what_a_servers_memory_has_for_clients_is_told() {
        assert_eq!((in_servers_pages(0, 0), out_of_servers_pages(0, 0)), (None, None));
        assert_eq!(in_servers_pages(1_000_000, 900_000), None, "a tenth");
        let told = in_servers_pages(5_000_000, 1_000_000).expect("most are there");
        assert!(told.starts_with("4.0 of 5.0 MB that clients wrote"), "{told}");
        let told = out_of_servers_pages(400_000, 0).expect("all were there");
        assert!(told.starts_with("400 of 400 kB that clients read"), "{told}");
    }
}
