//! Functions of this library that machine code calls, by the calling convention of C.
//!
//! Machine code calls them with the launch, the pointers and the stack slots of the program that it was made of, as the
//! interpreter calls the functions that these stand for; each block of `unsafe` rests on that.
#![expect(unsafe_code, reason = "machine code hands over a launch's pointers")]

use madelung_core::runtime::{self as rt, LaunchAbi, MeshShape, Reason, Spilled, Splines, WaveLine};
use madelung_kernel::program::MAX_ORDERS;

type Table = Splines<MAX_ORDERS>;

macro_rules! scalar {
    ($($f:ident($($x:ident),+);)*) => {
        $(extern "C" fn $f($($x: f64),+) -> f64 {
            rt::scalar::$f($($x),+)
        })*

        fn scalars() -> Vec<(&'static str, usize)> {
            vec![$((concat!("madelung_", stringify!($f)), $f as *const () as usize)),*]
        }
    };
}
scalar! {
    exp(x); ln(x); pow(x, e); erfc(x); exp_neg_sq(x); erf(x); tanh(x); atan2(y, x); asin(x); acos(x); floor(x); sin(x);
    cos(x);
}

macro_rules! shared {
    ($($T:ident: $store:ident $add:ident $max:ident $min:ident;)*) => {$(
        unsafe extern "C" fn $store(a: &LaunchAbi, p: *mut $T, x: i64, param: u32) {
            // SAFETY: see the module.
            unsafe { rt::store_int(a, p, x, param) };
        }
        unsafe extern "C" fn $add(a: &LaunchAbi, p: *mut $T, x: i64, param: u32) -> i64 {
            // SAFETY: see the module.
            unsafe { rt::atomic_add(a, p, x, param) }
        }
        unsafe extern "C" fn $max(a: &LaunchAbi, p: *mut $T, x: i64, param: u32) -> i64 {
            // SAFETY: see the module.
            unsafe { rt::atomic_max(a, p, x, param) }
        }
        unsafe extern "C" fn $min(a: &LaunchAbi, p: *mut $T, x: i64, param: u32) -> i64 {
            // SAFETY: see the module.
            unsafe { rt::atomic_min(a, p, x, param) }
        }
    )*};
}
shared! {
    i32: store_i32 add_i32 max_i32 min_i32;
    i64: store_i64 add_i64 max_i64 min_i64;
}

unsafe extern "C" fn raise(a: &LaunchAbi, reason: u32, param: u32) {
    if let Some(reason) = Reason::ALL.into_iter().find(|r| *r as u32 == reason) {
        // SAFETY: see the module.
        unsafe { rt::raise(a, reason, param) };
    }
}

unsafe extern "C" fn mesh(shapes: *const i32, system: usize, to: *mut MeshShape) {
    // SAFETY: see the module.
    unsafe { to.write(rt::mesh_of(shapes, system)) };
}

unsafe extern "C" fn wave_system(shapes: *const i32, wave: usize) -> usize {
    // SAFETY: see the module.
    unsafe { rt::wave_system(shapes, wave) }
}

macro_rules! splines {
    ($($f:ident on $L:ty $(, $features:literal)?;)*) => {$(
        $(#[target_feature(enable = $features)])?
        unsafe extern "C" fn $f(shape: &MeshShape, axis: usize, at: f64, to: *mut Table) {
            // SAFETY: see the module.
            unsafe { to.write(Table::new::<$L>(shape, axis, at)) };
        }
    )*};
}
splines! { splines_portable on f64; }
#[cfg(target_arch = "x86_64")]
splines! {
    splines_avx2 on rt::lanes::Avx2F64, "avx2,fma";
    splines_avx512 on rt::lanes::Avx512F64, "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma";
}

extern "C" fn weight(table: &Table, derivative: usize, node: i64) -> f64 {
    table.weight(derivative, node)
}

extern "C" fn weights(table: &Table, derivative: usize, node: usize, n: usize, to: &mut Spilled<f64>) {
    for (l, to) in to.iter_mut().enumerate().take(n) {
        *to = table.weight(derivative, (node + l) as i64);
    }
}

extern "C" fn node_index(table: &Table, node: i64) -> usize {
    table.index(node)
}

extern "C" fn node(shape: &MeshShape, x: usize, y: usize, z: usize) -> usize {
    rt::mesh_node(shape, [x, y, z])
}

extern "C" fn in_planes(shape: &MeshShape, index: usize) -> usize {
    rt::in_planes(shape, index).into()
}

extern "C" fn reaches(shape: &MeshShape, at: f64) -> usize {
    rt::reaches(shape, at).into()
}

macro_rules! node_loads {
    ($($f:ident: $E:ty;)*) => {$(
        unsafe extern "C" fn $f(
            p: *const $E, line: usize, along: &Table, node: usize, n: usize, stride: usize, component: usize,
            to: &mut Spilled<f64>,
        ) {
            *to = Spilled::default();
            for (l, to) in to.iter_mut().enumerate().take(n) {
                // SAFETY: see the module.
                *to = unsafe { rt::node_load(p, (line, along), (node + l, 1), (stride, component)) };
            }
        }
    )*};
}
node_loads! { node_load_float: f32; node_load_double: f64; }

unsafe extern "C" fn node_add(
    p: *mut f64,
    line: usize,
    along: &Table,
    node: usize,
    n: usize,
    stride: usize,
    component: usize,
    x: &Spilled<f64>,
) {
    for (l, x) in x.iter().enumerate().take(n) {
        // SAFETY: see the module.
        unsafe { rt::node_add(p, (line, along), (node + l, 1), (stride, component), *x) };
    }
}

/// `field`: a component of the index; 3: the count; 4: the modulus.
unsafe extern "C" fn wave(shape: &MeshShape, wave: usize, field: usize, moduli: *const f64) -> f64 {
    match field {
        0..3 => rt::wave_index(shape, wave, field),
        3 => rt::wave_count(shape, wave),
        // SAFETY: see the module.
        _ => unsafe { rt::wave_modulus(shape, moduli, wave) },
    }
}

unsafe extern "C" fn line(shape: &MeshShape, wave: usize, to: *mut WaveLine) {
    // SAFETY: see the module.
    unsafe { to.write(WaveLine::new(*shape, wave)) };
}

extern "C" fn line_end(line: &WaveLine) -> usize {
    line.end()
}

extern "C" fn line_step(line: &mut WaveLine) {
    line.step();
}

extern "C" fn line_index(line: &WaveLine, axis: usize) -> f64 {
    line.index(axis)
}

/// A field of `n` waves, as for [`wave`].
unsafe extern "C" fn line_field(
    line: &WaveLine,
    wave: usize,
    n: usize,
    field: usize,
    moduli: *const f64,
    to: &mut Spilled<f64>,
) {
    for (l, to) in to.iter_mut().enumerate() {
        let wave = wave + l.min(n - 1);
        *to = match field {
            0..2 => line.index(field),
            2 => line.indices(wave),
            3 => line.counts(wave),
            // SAFETY: see the module.
            _ => unsafe { line.moduli(moduli, wave, 1) },
        };
    }
}

macro_rules! named {
    ($($f:ident)*) => {
        [$((concat!("madelung_", stringify!($f)), $f as *const () as usize)),*]
    };
}

/// The functions that the text calls: names and addresses.
pub fn symbols() -> Vec<(&'static str, usize)> {
    let mut all = scalars();
    all.extend(named![
        store_i32 add_i32 max_i32 min_i32 store_i64 add_i64 max_i64 min_i64 raise mesh wave_system splines_portable weight
        weights node_index node in_planes reaches node_load_float node_load_double node_add wave line line_end line_step
        line_index line_field
    ]);
    #[cfg(target_arch = "x86_64")]
    all.extend(named![splines_avx2 splines_avx512]);
    all
}
