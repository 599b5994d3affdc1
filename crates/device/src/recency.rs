//! The order in which the few of a fixed number were used last: a ring, in which one is moved and the
//! oldest found in a few steps.
//!
//! The ring lies in a slice of one entry more than there are members. The last entry closes it: before
//! it is the member used last, after it the one used longest ago.

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    before: u16,
    after: u16,
}

/// The ring of so many, at most 65535, of which none was used: in order of their numbers.
pub(crate) fn unused(members: u32) -> impl Iterator<Item = Used> {
    let ring = members + 1;
    let of =
        move |at| Used { before: ((at + members) % ring) as u16, after: ((at + 1) % ring) as u16 };
    (0..ring).map(of)
}

/// A member is used.
#[inline]
pub(crate) fn touch(ring: &mut [Used], member: usize) {
    let close = ring.len() - 1;
    let Used { before, after } = ring[member];
    ring[usize::from(before)].after = after;
    ring[usize::from(after)].before = before;
    let last = std::mem::replace(&mut ring[close].before, member as u16);
    ring[usize::from(last)].after = member as u16;
    ring[member] = Used { before: last, after: close as u16 };
}

/// The members, that used longest ago first.
#[inline]
pub(crate) fn by_age(ring: &[Used]) -> impl Iterator<Item = usize> + use<'_> {
    let close = ring.len() - 1;
    let mut at = close;
    std::iter::from_fn(move || {
        at = usize::from(ring[at].after);
        (at != close).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    #[test]
    fn members_come_in_the_order_of_their_last_use() {
        let mut rng = Rng::from_seed(1);
        for members in [1, 2, 3, 16, 32, 300] {
            let mut ring: Vec<Used> = unused(members).collect();
            let mut plain: Vec<usize> = (0..members as usize).collect();
            for _ in 0..1000 {
                assert!(by_age(&ring).eq(plain.iter().copied()));
                let member = rng.below(members.into()) as usize;
                touch(&mut ring, member);
                plain.retain(|&other| other != member);
                plain.push(member);
            }
        }
    }
}
