//! What is between the two hosts of a network block device.

use wordline_base::{Ctx, Event, Kind, Layer, Slab, Timeline, Why};
use wordline_host::Message;
use wordline_host::config::{NbdConfig, Transport};

pub struct Network {
    /// In the machine.
    number: u8,
    config: NbdConfig,
    /// To the server, and back.
    ways: [Timeline; 2],
    flying: Slab<Message>,
}

impl Network {
    pub fn new(config: &NbdConfig, number: u8) -> Network {
        Network {
            number,
            config: config.clone(),
            ways: Default::default(),
            flying: Slab::default(),
        }
    }

    /// The server says that it takes flushes.
    pub fn takes_flushes(&self) -> bool {
        self.config.flush
    }

    /// A message that is there at once; on an Ethernet it comes with an event.
    pub fn send(&mut self, ctx: &mut Ctx, message: Message) -> Option<Message> {
        if self.config.transport != Transport::Ethernet {
            return Some(message);
        }
        let way = usize::from(message.reply);
        let span = self.config.wire(message.bytes());
        let (start, end) = self.ways[way].reserve(ctx.now, span);
        let there = end + self.config.delay;
        ctx.mark(message.io, Layer::Network, Why::LinkBusy, way as u32, start);
        ctx.mark(message.io, Layer::Network, Why::Data, way as u32, there);
        let slot = self.flying.insert(message);
        ctx.queue.push(there, Event::at(self.number, Kind::Network, slot));
        None
    }

    pub fn arrived(&mut self, slot: u32) -> Message {
        let message = self.flying[slot];
        self.flying.remove(slot);
        message
    }
}
