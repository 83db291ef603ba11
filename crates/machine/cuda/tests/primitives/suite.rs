//! The suite of all backends, on the device.

use crate::device::{Buffer, bytes, numbers, queue, same_each_time, scratch};
use crate::primitives::{Number, Primitives, array};
use crate::{scan, sort};
use madelung_core::array::{Array, DType};
use madelung_core::backend::{Scan, Waves, half_spectrum};
use madelung_core::runtime::Reason;
use madelung_cpu::{Count, Key};
use madelung_cuda::primitives::{
    Integer, Length, Segments, fft_scratch, inverse_real_fft, real_fft, reduce_scratch, segmented_broadcast,
    segmented_sum,
};

crate::primitives::suite!(OnDevice);

struct OnDevice;

/// A result in which nothing is a useful number yet.
fn empty(dtype: DType, n: usize) -> Buffer<u8> {
    Buffer::of(&vec![0xa5; n * dtype.size()])
}

fn sums(values: &Array, sums: usize, segments: impl Fn(&Buffer<i32>) -> Segments, offsets: &[i32]) -> Array {
    let (dtype, rows, width) = (values.dtype(), values.shape()[0], values.shape()[1]);
    let found = same_each_time(
        || {
            let room = scratch(reduce_scratch(rows, width));
            (Buffer::of(&bytes(values)), Buffer::of(offsets), empty(dtype, sums * width), room)
        },
        |queue, (values, offsets, sums, room)| {
            let (from, to) = (values.address(), sums.address());
            segmented_sum(queue, dtype, from, width, segments(offsets), to, room.scratch())
        },
        |(_, _, sums, _)| sums.read(),
    );
    array(dtype, &[sums, width], &numbers(dtype, &found))
}

impl Primitives for OnDevice {
    const LONG: usize = 100_000;
    const MESHES: &[[usize; 3]] =
        &[[1, 1, 1], [4, 3, 5], [2, 6, 4], [3, 5, 1], [5, 4, 2], [1, 7, 3], [6, 1, 8]];

    /// A few ulp of the RMS for each of the axes.
    fn tolerance(dtype: DType, n: usize) -> f64 {
        let eps = if dtype == DType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
        16.0 * eps * n as f64
    }

    fn scan<T: Number + Count>(&self, kind: Scan, counts: &[T]) -> Option<Vec<T>> {
        let (sums, bits) = scan::sums(kind, counts, None);
        assert!([0, Reason::Overflow.bit()].contains(&bits));
        (bits == 0).then_some(sums)
    }

    fn sort_by_key<K: Number + Key>(&self, keys: &[K], bits: usize, payload: &[u32]) -> (Vec<K>, Vec<u32>) {
        sort::sorted(keys, bits, payload, None)
    }

    fn segment_bounds<K: Number + Key>(&self, keys: &[K], segments: usize) -> Option<Vec<i32>> {
        let (offsets, bits) = sort::bounds::<_, i32>(keys, Integer::I32, segments);
        let (wide, wide_bits) = sort::bounds::<_, i64>(keys, Integer::I64, segments);
        assert!(bits == wide_bits && [0, Reason::Index.bit()].contains(&bits));
        assert!(bits != 0 || wide == offsets.iter().copied().map(i64::from).collect::<Vec<_>>());
        (bits == 0).then_some(offsets)
    }

    fn sum(&self, values: &Array) -> Array {
        let rows = values.shape()[0];
        let sum = sums(values, 1, |_| Segments::All(Length::new(rows)), &[]);
        array(sum.dtype(), &values.shape()[1..], &sum.to_f64().unwrap())
    }

    fn segmented_sum(&self, values: &Array, offsets: &[i32]) -> Array {
        let (count, rows) = (offsets.len() - 1, values.shape()[0]);
        let segments = |offsets: &Buffer<i32>| Segments::Offsets { offsets: offsets.address(), count, rows };
        sums(values, count, segments, offsets)
    }

    fn segmented_broadcast(&self, values: &Array, offsets: &[i32]) -> Array {
        let (dtype, count, width) = (values.dtype(), offsets.len() - 1, values.shape()[1]);
        let rows = offsets[count] as usize;
        let found = same_each_time(
            || (Buffer::of(&bytes(values)), Buffer::of(offsets), empty(dtype, rows * width)),
            |queue, (values, offsets, to)| {
                let segments = Segments::Offsets { offsets: offsets.address(), count, rows };
                segmented_broadcast(queue, dtype, values.address(), width, segments, to.address())
            },
            |(.., to)| to.read(),
        );
        array(dtype, &[rows, width], &numbers(dtype, &found))
    }

    fn real_fft(&self, mesh: [usize; 3], waves: Waves, values: &Array) -> [Array; 2] {
        let dtype = values.dtype();
        let systems = values.shape()[0] / mesh.iter().product::<usize>();
        let kept = systems * half_spectrum(mesh).unwrap();
        let parts = same_each_time(
            || {
                let room = scratch(fft_scratch(&queue(), dtype, mesh, systems).unwrap());
                (Buffer::of(&bytes(values)), [(); 2].map(|()| empty(dtype, kept)), room)
            },
            |queue, (values, [re, im], room)| {
                let (from, to) = ((dtype, values.address()), [re.address(), im.address()]);
                real_fft(queue, waves, from, mesh, systems, to, room.scratch())
            },
            |(_, spectrum, _)| spectrum.each_ref().map(Buffer::read),
        );
        parts.map(|part| array(dtype, &[kept], &numbers(dtype, &part)))
    }

    fn inverse_real_fft(&self, mesh: [usize; 3], waves: Waves, spectrum: &[Array; 2]) -> Array {
        let dtype = spectrum[0].dtype();
        let systems = spectrum[0].shape()[0] / half_spectrum(mesh).unwrap();
        let nodes = systems * mesh.iter().product::<usize>();
        let found = same_each_time(
            || {
                let room = scratch(fft_scratch(&queue(), dtype, mesh, systems).unwrap());
                (spectrum.each_ref().map(|part| Buffer::of(&bytes(part))), empty(dtype, nodes), room)
            },
            |queue, ([re, im], values, room)| {
                let (from, to) = ([re.address(), im.address()], (dtype, values.address()));
                inverse_real_fft(queue, waves, from, mesh, systems, to, room.scratch())
            },
            |(_, values, _)| values.read(),
        );
        array(dtype, &[nodes], &numbers(dtype, &found))
    }
}
