use crate::device::{Buffer, captured, queue, refusing, same_each_time, scratch};
use crate::{reals, refused};
use madelung_core::array::{Array, DType, Data};
use madelung_core::backend::{Waves, half_spectrum};
use madelung_cuda::primitives::{Scratch, fft_scratch, inverse_real_fft, real_fft};

const MESHES: [[usize; 3]; 7] = [[1, 1, 1], [4, 3, 5], [2, 6, 4], [3, 5, 1], [5, 4, 2], [1, 7, 3], [6, 1, 8]];
const KINDS: [Waves; 2] = [Waves::Kept, Waves::All];

/// A few ulp of the RMS of n numbers below 1 for each of the axes.
fn tolerance(dtype: DType, nodes: usize) -> f64 {
    let eps = if dtype == DType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
    16.0 * eps * nodes as f64
}

fn bytes(array: &Array) -> Vec<u8> {
    match array.view().data() {
        Data::F32(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Data::F64(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        _ => unreachable!("no mesh of other numbers"),
    }
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x).into()).collect(),
        _ => bytes.as_chunks().0.iter().map(|x| f64::from_ne_bytes(*x)).collect(),
    }
}

#[track_caller]
fn close(dtype: DType, nodes: usize, found: &[u8], expected: &Array) {
    let (found, expected) = (numbers(dtype, found), expected.view().to_f64().unwrap());
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(&expected) {
        assert!((a - b).abs() <= tolerance(dtype, nodes), "{a} {b}");
    }
}

fn array(dtype: DType, data: &[f64]) -> Array {
    Array::from_f64(dtype, &[data.len()], data).unwrap()
}

#[test]
fn transforms_are_those_of_the_cpu() {
    for mesh in MESHES {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        for (dtype, systems) in [(DType::F64, 1), (DType::F64, 3), (DType::F32, 2), (DType::F32, 0)] {
            let values = array(dtype, &reals(systems * nodes));
            for kind in KINDS {
                let mut expected = [(); 2].map(|()| Array::zeros(dtype, &[systems * waves]));
                let [re, im] = &mut expected;
                madelung_cpu::context().real_fft(mesh, kind, &values.view(), [re, im]).unwrap();
                let empty = vec![0u8; systems * waves * dtype.size()];
                let parts = same_each_time(
                    || {
                        let bytes_needed = fft_scratch(&queue(), dtype, mesh, systems).unwrap();
                        let spectrum = [(); 2].map(|()| Buffer::of(&empty));
                        (Buffer::of(&bytes(&values)), spectrum, scratch(bytes_needed))
                    },
                    |queue, (values, [re, im], room)| {
                        let (from, to) = ((dtype, values.address()), [re.address(), im.address()]);
                        real_fft(queue, kind, from, mesh, systems, to, room.scratch())
                    },
                    |(_, spectrum, _)| spectrum.each_ref().map(Buffer::read),
                );
                parts.iter().zip(&expected).for_each(|(a, b)| close(dtype, nodes, a, b));
            }
        }
    }
}

/// Arbitrary spectra: the waves that stand for themselves alone need not be consistent.
#[test]
fn inverses_are_those_of_the_cpu() {
    for mesh in MESHES {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        for (dtype, systems) in [(DType::F64, 3), (DType::F32, 2)] {
            let all = reals(2 * systems * waves);
            let (re, im) = all.split_at(systems * waves);
            let spectrum = [re, im].map(|part| array(dtype, part));
            for kind in KINDS {
                let mut expected = Array::zeros(dtype, &[systems * nodes]);
                let parts = spectrum.each_ref().map(Array::view);
                madelung_cpu::context()
                    .inverse_real_fft(mesh, kind, parts.each_ref(), &mut expected)
                    .unwrap();
                let found = same_each_time(
                    || {
                        let bytes_needed = fft_scratch(&queue(), dtype, mesh, systems).unwrap();
                        let parts = spectrum.each_ref().map(|part| Buffer::of(&bytes(part)));
                        let values = Buffer::of(&vec![0u8; systems * nodes * dtype.size()]);
                        (parts, values, scratch(bytes_needed))
                    },
                    |queue, ([re, im], values, room)| {
                        let (from, to) = ([re.address(), im.address()], (dtype, values.address()));
                        inverse_real_fft(queue, kind, from, mesh, systems, to, room.scratch())
                    },
                    |(_, values, _)| values.read(),
                );
                close(dtype, 2 * nodes, &found, &expected);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    refusing(|queue| {
        let call = |dtype, mesh, values| {
            real_fft(queue, Waves::Kept, (dtype, values), mesh, 1, [0, 0], Scratch::EMPTY)
        };
        refused(call(DType::F16, [1, 1, 1], 0), "dtype");
        refused(call(DType::F32, [1, 0, 1], 0), "mesh");
        refused(call(DType::F32, [usize::MAX; 3], 0), "mesh");
        refused(call(DType::F32, [3, 3, 3], 0), "scratch");
        let room = scratch(fft_scratch(queue, DType::F64, [3, 3, 3], 1).unwrap());
        let values = (DType::F64, 8);
        refused(real_fft(queue, Waves::Kept, values, [3, 3, 3], 1, [0, 0], room.scratch()), "values");
    });
}

#[test]
fn plans_are_made_ahead_of_captures() {
    let call = |queue: &_| fft_scratch(queue, DType::F32, [9, 11, 2], 1).map(drop);
    let text = captured(call).unwrap_err().to_string();
    assert!(text.contains("[9, 11, 2]") && text.contains("before the capture"), "{text}");
    call(&queue()).unwrap();
    captured(call).unwrap();
}
