//! A SATA drive: one link for both directions, commands that are not queued, and what it cannot have.

use super::*;
use crate::SataConfig;
use wordline_base::{Layer, Why};

fn sata_config() -> DeviceConfig {
    let mut d = device_config();
    d.sata = Some(SataConfig { generation: 3, fis_bytes: 8192, way_dwords: 20 });
    d.queues =
        QueueConfig { count: 1, depth: 33, weighted_urgent: false, in_flight: 32, ..d.queues };
    d
}

fn drive() -> Host {
    let mut h = Host::with_ftl(&nand_config(), &sata_config(), &ftl_config());
    h.queue(0, 33, QueuePriority::Medium);
    h
}

fn fill(h: &mut Host) {
    for i in 0..32 {
        h.submit(0, Opcode::Write, i * 4096, 4096);
    }
    h.settle();
    h.submit(0, Opcode::Flush, 0, 0);
    h.settle();
    h.done.clear();
}

/// Commands in the order in which they came back.
fn order(h: &Host) -> Vec<u16> {
    h.done.iter().map(|done| done.posted.cqe.cid).collect()
}

#[test]
fn a_read_takes_the_sum_of_its_stages() {
    let mut h = drive();
    fill(&mut h);
    let begin = h.ctx.now;
    let io = h.submit_io(0, Opcode::Read, 0, 4096);
    h.settle();
    let d = sata_config();
    let times = d.sata.as_ref().unwrap().times(d.link.t_round_trip);
    let data = d.sata.as_ref().unwrap().data(4096);
    // The doorbell, the two reads of the adapter, and the command.
    let there = d.link.t_post + times.tables + times.command;
    // The FTL has it in its buffer.
    let back = times.setup + data + times.over + d.firmware.t_complete + d.link.t_post;
    let cost = &ftl_config().cost;
    let all = there + d.firmware.t_read + cost.read_command + cost.read_sector + back;
    assert_eq!(h.done[0].at.since(begin), all);
    // The way of the doorbell is told apart from the adapter's reads.
    let life = h.ctx.lives.of(io).unwrap();
    let of = |why| {
        let steps = life.times().filter(|(step, _)| (step.layer, step.why) == (Layer::Link, why));
        steps.map(|(_, span)| span).sum::<Span>()
    };
    assert_eq!(of(Why::Doorbell), d.link.t_post);
    assert_eq!(of(Why::Fetch), times.tables + times.command);
}

/// With all that NCQ has at a time the link has no time left, whichever way it carries, and reads take what they hold it for.
#[test]
fn the_link_is_what_bounds_many_commands() {
    for opcodes in [[Opcode::Read; 2], [Opcode::Read, Opcode::Write]] {
        let mut h = drive();
        fill(&mut h);
        let (begin, before) = (h.ctx.now, h.drive.stats(h.ctx.now));
        let (mut sent, all) = (0, 3_000u64);
        while sent < all || !h.drive.idle() {
            while sent < all && h.drive.in_flight() + 4 < 32 {
                let opcode = opcodes[sent as usize % 2];
                if h.put(0, opcode, sent * 7 % 32 * 4096, 4096).is_err() {
                    break;
                }
                h.drive.doorbell(&mut h.ctx, 0);
                sent += 1;
            }
            h.step();
        }
        let d = sata_config();
        let held = |opcode| {
            d.sata.as_ref().unwrap().held(d.link.t_round_trip, opcode == Opcode::Write, 4096).0
        };
        let wanted = opcodes.map(held).iter().sum::<u64>() * all / 2;
        let took = h.ctx.now.since(begin).0;
        assert!((wanted..wanted * 102 / 100).contains(&took), "{took} ns, not {wanted}");
        let now = h.drive.stats(h.ctx.now);
        let busy = now.link_to_device_busy_ns + now.link_to_host_busy_ns
            - before.link_to_device_busy_ns
            - before.link_to_host_busy_ns;
        assert!(busy <= took, "one direction at a time: {busy} of {took} ns");
    }
}

/// On an idle link nothing waits for it.
#[test]
fn a_command_alone_does_not_wait_for_the_link() {
    let mut h = drive();
    fill(&mut h);
    let before = h.drive.stats(h.ctx.now).waits.link;
    for opcode in [Opcode::Write, Opcode::Read, Opcode::Flush] {
        let bytes = if opcode == Opcode::Flush { 0 } else { 32 * 4096 };
        h.submit(0, opcode, 0, bytes);
        h.settle();
    }
    assert_eq!(h.drive.stats(h.ctx.now).waits.link, before);
}

#[test]
fn a_flush_waits_for_all_before_it_and_those_behind_it_wait() {
    for alone in [Opcode::Flush, Opcode::Deallocate] {
        let mut h = drive();
        fill(&mut h);
        let reads: Vec<u16> = (0..8).map(|i| h.submit(0, Opcode::Read, i * 4096, 4096)).collect();
        let bytes = if alone == Opcode::Flush { 0 } else { 4096 };
        let flush = h.submit(0, alone, 31 * 4096, bytes);
        let behind: Vec<u16> = (0..8).map(|i| h.submit(0, Opcode::Read, i * 4096, 4096)).collect();
        let mut most_beside = 0;
        while h.done.len() < 17 {
            h.step();
            let over = order(&h);
            if reads.iter().all(|cid| over.contains(cid)) && !over.contains(&flush) {
                most_beside = most_beside.max(h.drive.in_flight());
            }
        }
        let over = order(&h);
        let place = |cid: &u16| over.iter().position(|of| of == cid).unwrap();
        assert!(reads.iter().all(|cid| place(cid) < place(&flush)), "{over:?}");
        assert!(behind.iter().all(|cid| place(cid) > place(&flush)), "{over:?}");
        assert_eq!(most_beside, 1, "nothing is beside it");
    }
    // Two of them follow each other.
    let mut h = drive();
    fill(&mut h);
    let cids = [Opcode::Flush, Opcode::Flush, Opcode::Deallocate]
        .map(|op| h.submit(0, op, 0, if op == Opcode::Flush { 0 } else { 4096 }));
    h.settle();
    assert_eq!(order(&h), cids);
}

#[test]
fn what_a_sata_drive_cannot_have_is_refused() {
    let refused = |change: &dyn Fn(&mut DeviceConfig)| {
        let mut d = sata_config();
        change(&mut d);
        let nand = Nand::new(&nand_config(), Seed(1)).unwrap();
        Controller::check_config(&d, &nand, true).unwrap_err().key
    };
    assert_eq!(refused(&|d| d.queues.count = 2), "queues.count");
    assert_eq!(refused(&|d| d.queues.depth = 34), "queues.depth");
    assert_eq!(refused(&|d| d.queues.in_flight = 64), "queues.in_flight");
    assert_eq!(refused(&|d| d.queues.weighted_urgent = true), "queues.weighted_urgent");
    assert_eq!(refused(&|d| d.interrupt.threshold = 2), "interrupt.threshold");
    assert_eq!(refused(&|d| d.link.turn_bytes = Some(4096)), "link.turn_bytes");
    assert_eq!(refused(&|d| d.sata.as_mut().unwrap().generation = 0), "sata.generation");
    let nand = Nand::new(&nand_config(), Seed(1)).unwrap();
    assert_eq!(Controller::check_config(&sata_config(), &nand, false).unwrap_err().key, "sata");
}
