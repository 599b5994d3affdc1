//! What was read, written or trimmed: amounts, latencies, and where their time went.

use serde::{Serialize, Serializer};
use wordline_base::time::serialize_ns;
use wordline_base::{Histogram, IoClass, Layer, Span, Time, Why};

/// Minimum, maximum, mean and deviation of samples (bandwidth in KiB/s, or IOPS) as fio keeps them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SampleStats {
    /// Samples.
    pub n: u64,
    /// The least, in the unit of the samples; 0 without samples.
    pub min: f64,
    /// The greatest, in the unit of the samples; 0 without samples.
    pub max: f64,
    /// The mean, in the unit of the samples; 0 without samples.
    pub mean: f64,
    /// Sum of squared differences from the mean, in the unit of the samples squared (Welford).
    pub m2: f64,
}

impl SampleStats {
    /// One more sample.
    pub fn add(&mut self, value: f64) {
        if self.n == 0 {
            (self.min, self.max) = (value, value);
        }
        self.n += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let delta = value - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (value - self.mean);
    }
    /// Standard deviation of a sample (n - 1); 0 below two.
    pub fn stddev(&self) -> f64 {
        if self.n < 2 { 0.0 } else { (self.m2 / (self.n - 1) as f64).sqrt() }
    }
}

/// One data direction of one thread.
#[derive(Clone, Default, Serialize)]
pub struct DirResult {
    /// Bytes that came back.
    pub io_bytes: u64,
    /// I/Os that came back after the ramp.
    pub total_ios: u64,
    /// I/Os that came back with less than was asked for: none here.
    pub short_ios: u64,
    /// I/Os that were not issued: none here.
    pub drop_ios: u64,
    /// When it began: with the thread's statistics, or with the phase that has the first I/O of this direction, where a
    /// job writes and verifies by turns.
    #[serde(rename = "began_ns")]
    pub began: Time,
    /// To its last completion of this direction, without phases that have no I/O of it: of several phases (`verify`
    /// with `loops`) it is the sum.
    #[serde(rename = "runtime_ns", serialize_with = "serialize_ns")]
    pub runtime: Span,
    /// Submission, completion and total latency in nanoseconds.
    #[serde(rename = "slat_ns")]
    pub slat: Histogram,
    /// Completion.
    #[serde(rename = "clat_ns")]
    pub clat: Histogram,
    /// Total.
    #[serde(rename = "lat_ns")]
    pub lat: Histogram,
    /// KiB a second, by samples; I/Os a second likewise.
    pub bw_kib: SampleStats,
    /// I/Os a second, by samples.
    pub iops: SampleStats,
    /// By class, in fio's order; empty while all I/Os have the thread's.
    pub classes: Vec<ClassLatency>,
}

/// Completion and total latency of the I/Os of a class, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct ClassLatency {
    /// The class.
    pub class: IoClass,
    /// Completion.
    #[serde(rename = "clat_ns")]
    pub clat: Histogram,
    /// Total.
    #[serde(rename = "lat_ns")]
    pub lat: Histogram,
}

/// Latency of the I/Os of a direction and class, from the application's call to its return.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassRow {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// The class.
    pub class: IoClass,
    /// Its workload attribute ends at a network, whose protocol has no field for it: what serves the drive, and
    /// the drive, take these I/Os for ones without.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends_at_network: bool,
    /// I/Os.
    pub count: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Half of all are as fast or faster, to within 1/128.
    pub p50_ns: u64,
    /// 99 of 100 are as fast or faster, to within 1/128.
    pub p99_ns: u64,
    /// 999 of 1,000 are as fast or faster, to within 1/128.
    pub p99_9_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// Latency by layer for one direction. Every row sums to the latency it splits.
#[derive(Clone, Debug, Serialize)]
pub struct LayerTable {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// I/Os.
    pub count: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// The mean latency split over `Layer::ALL`.
    pub mean_by_layer_ns: Vec<f64>,
    /// What of it was in the way, by layer and reason, in that order.
    #[serde(serialize_with = "by_delay")]
    pub mean_by_delay_ns: Vec<DelayTime>,
    /// At a percentile: the latency, and the mean split of the I/Os in that histogram bucket.
    pub at: Vec<LayerRow>,
}

/// Where the time of the I/Os at a percentile went.
#[derive(Clone, Debug, Serialize)]
pub struct LayerRow {
    /// Percent of the I/Os that are as fast or faster.
    pub percentile: f64,
    /// Latency there.
    pub latency_ns: u64,
    /// The latency split over `Layer::ALL`.
    pub by_layer_ns: Vec<f64>,
    /// What of it was in the way, by layer and reason, in that order.
    #[serde(serialize_with = "by_delay")]
    pub by_delay_ns: Vec<DelayTime>,
}

/// Mean time in a layer that went into one thing which was in the way: a wait, or work that not every
/// I/O has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayTime {
    /// Where.
    pub layer: Layer,
    /// On what.
    pub why: Why,
    /// Nanoseconds.
    pub ns: f64,
}

/// An object of layers, in each an object of reasons, in order.
fn by_delay<S: Serializer>(delays: &[DelayTime], s: S) -> Result<S::Ok, S::Error> {
    struct OfLayer<'a>(&'a [DelayTime]);
    impl Serialize for OfLayer<'_> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_map(self.0.iter().map(|d| (d.why.name(), d.ns)))
        }
    }
    let layers = delays.chunk_by(|a, b| a.layer == b.layer);
    s.collect_map(layers.map(|of| (of[0].layer.name(), OfLayer(of))))
}
