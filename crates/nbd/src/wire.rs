//! Numbers of the protocol. All integers on the wire are big-endian.

/// The first word of a server: `NBDMAGIC`.
pub const GREETING: u64 = 0x4e42_444d_4147_4943; // "NBDMAGIC"
/// Before each option: `IHAVEOPT`.
pub const OPTION: u64 = 0x4948_4156_454f_5054; // "IHAVEOPT"
/// Before each reply to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const CHUNK: u32 = 0x668e_33ef;

/// Handshake flags, the server's and the client's alike.
pub const FIXED_NEWSTYLE: u16 = 1;
/// `NBD_FLAG_NO_ZEROES`: no padding behind an export's size.
pub const NO_ZEROES: u16 = 2;

/// Options of the handshake.
pub mod opt {
    /// `NBD_OPT_EXPORT_NAME`.
    pub const EXPORT_NAME: u32 = 1;
    /// `NBD_OPT_ABORT`.
    pub const ABORT: u32 = 2;
    /// `NBD_OPT_LIST`.
    pub const LIST: u32 = 3;
    /// `NBD_OPT_STARTTLS`.
    pub const STARTTLS: u32 = 5;
    /// `NBD_OPT_INFO`.
    pub const INFO: u32 = 6;
    /// `NBD_OPT_GO`.
    pub const GO: u32 = 7;
    /// `NBD_OPT_STRUCTURED_REPLY`.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// `NBD_OPT_LIST_META_CONTEXT`.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// `NBD_OPT_SET_META_CONTEXT`.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options; those above 2^31 are errors.
pub mod rep {
    /// `NBD_REP_ACK`.
    pub const ACK: u32 = 1;
    /// `NBD_REP_SERVER`.
    pub const SERVER: u32 = 2;
    /// `NBD_REP_INFO`.
    pub const INFO: u32 = 3;
    /// `NBD_REP_META_CONTEXT`.
    pub const META_CONTEXT: u32 = 4;
    /// `NBD_REP_ERR`.
    pub const ERR: u32 = 1 << 31;
    /// `NBD_REP_ERR_UNSUP`.
    pub const ERR_UNSUP: u32 = ERR | 1;
    /// `NBD_REP_ERR_POLICY`.
    pub const ERR_POLICY: u32 = ERR | 2;
    /// `NBD_REP_ERR_INVALID`.
    pub const ERR_INVALID: u32 = ERR | 3;
    /// `NBD_REP_ERR_TLS_REQD`.
    pub const ERR_TLS_REQD: u32 = ERR | 5;
    /// `NBD_REP_ERR_UNKNOWN`.
    pub const ERR_UNKNOWN: u32 = ERR | 6;
    /// `NBD_REP_ERR_TOO_BIG`.
    pub const ERR_TOO_BIG: u32 = ERR | 9;
}

/// Kinds of information of an export.
pub mod info {
    /// `NBD_INFO_EXPORT`.
    pub const EXPORT: u16 = 0;
    /// `NBD_INFO_NAME`.
    pub const NAME: u16 = 1;
    /// `NBD_INFO_DESCRIPTION`.
    pub const DESCRIPTION: u16 = 2;
    /// `NBD_INFO_BLOCK_SIZE`.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod flag {
    /// `NBD_FLAG_HAS_FLAGS`.
    pub const HAS_FLAGS: u16 = 1;
    /// `NBD_FLAG_READ_ONLY`.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_FLAG_SEND_FLUSH`.
    pub const FLUSH: u16 = 1 << 2;
    /// `NBD_FLAG_SEND_FUA`.
    pub const FUA: u16 = 1 << 3;
    /// `NBD_FLAG_SEND_TRIM`.
    pub const TRIM: u16 = 1 << 5;
    /// `NBD_FLAG_SEND_WRITE_ZEROES`.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_FLAG_SEND_DF`.
    pub const DF: u16 = 1 << 7;
    /// `NBD_FLAG_CAN_MULTI_CONN`.
    pub const MULTI_CONN: u16 = 1 << 8;
    /// `NBD_FLAG_SEND_CACHE`.
    pub const CACHE: u16 = 1 << 10;
    /// `NBD_FLAG_SEND_FAST_ZERO`.
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Commands of requests, and their flags.
pub mod cmd {
    /// `NBD_CMD_READ`.
    pub const READ: u16 = 0;
    /// `NBD_CMD_WRITE`.
    pub const WRITE: u16 = 1;
    /// `NBD_CMD_DISC`.
    pub const DISC: u16 = 2;
    /// `NBD_CMD_FLUSH`.
    pub const FLUSH: u16 = 3;
    /// `NBD_CMD_TRIM`.
    pub const TRIM: u16 = 4;
    /// `NBD_CMD_CACHE`.
    pub const CACHE: u16 = 5;
    /// `NBD_CMD_WRITE_ZEROES`.
    pub const WRITE_ZEROES: u16 = 6;
    /// `NBD_CMD_BLOCK_STATUS`.
    pub const BLOCK_STATUS: u16 = 7;

    /// `NBD_CMD_FLAG_FUA`.
    pub const FLAG_FUA: u16 = 1;
    /// `NBD_CMD_FLAG_NO_HOLE`.
    pub const FLAG_NO_HOLE: u16 = 1 << 1;
    /// `NBD_CMD_FLAG_DF`.
    pub const FLAG_DF: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_REQ_ONE`.
    pub const FLAG_REQ_ONE: u16 = 1 << 3;
    /// `NBD_CMD_FLAG_FAST_ZERO`.
    pub const FLAG_FAST_ZERO: u16 = 1 << 4;
    /// `NBD_CMD_FLAG_PAYLOAD_LEN`.
    pub const FLAG_PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of a structured reply's chunks, and the flag of the last one.
pub mod chunk {
    /// `NBD_REPLY_FLAG_DONE`.
    pub const DONE: u16 = 1;
    /// `NBD_REPLY_TYPE_NONE`.
    pub const NONE: u16 = 0;
    /// `NBD_REPLY_TYPE_OFFSET_DATA`.
    pub const OFFSET_DATA: u16 = 1;
    /// `NBD_REPLY_TYPE_OFFSET_HOLE`.
    pub const OFFSET_HOLE: u16 = 2;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`.
    pub const BLOCK_STATUS: u16 = 5;
    /// `NBD_REPLY_TYPE_ERROR`.
    pub const ERROR: u16 = 1 << 15 | 1;
    /// `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// Errors of a reply: Linux' numbers, on every system.
pub mod errno {
    /// `NBD_EPERM`.
    pub const EPERM: u32 = 1;
    /// `NBD_EIO`.
    pub const EIO: u32 = 5;
    /// `NBD_ENOMEM`.
    pub const ENOMEM: u32 = 12;
    /// `NBD_EINVAL`.
    pub const EINVAL: u32 = 22;
    /// `NBD_ENOSPC`.
    pub const ENOSPC: u32 = 28;
    /// `NBD_EOVERFLOW`.
    pub const EOVERFLOW: u32 = 75;
    /// `NBD_ENOTSUP`.
    pub const ENOTSUP: u32 = 95;
    /// `NBD_ESHUTDOWN`.
    pub const ESHUTDOWN: u32 = 108;
}

/// `base:allocation`: a range that is not allocated.
pub const STATE_HOLE: u32 = 1;
/// `base:allocation`: a range that reads as zeroes.
pub const STATE_ZERO: u32 = 2;

/// The one metadata context.
pub const ALLOCATION: &str = "base:allocation";
/// The number of that context on a connection.
pub const ALLOCATION_ID: u32 = 1;

/// Longest string of the protocol.
pub const STRING_MAX: usize = 4096;

pub(crate) fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}
pub(crate) fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(b[at..at + 4].try_into().expect("four bytes"))
}
pub(crate) fn be64(b: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}
