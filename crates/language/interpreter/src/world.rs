//! Differences between lanes of the arrays' type (loops over data) and lanes that are f64 whatever the arrays hold (rows,
//! nodes of a mesh, waves).

use madelung_kernel::program::{Field, MAX_ORDERS};
use madelung_lanes::{self as rt, Lane, SharedReal, Splines, WaveLine};
use std::marker::PhantomData;

/// Arrays and lanes. Functions with a row are for `n` rows from there on, the first lanes; what the others hold is of no
/// use to anybody.
pub(super) trait World {
    /// Element type of arrays of reals.
    type E: SharedReal;
    /// The lanes.
    type L: Lane;
    /// Whether they are those of rows and nodes.
    const WIDE: bool;

    /// # Safety
    /// As for [`rt::row_load`].
    unsafe fn load(p: *const Self::E, row: usize, n: usize, stride: usize, component: usize) -> Self::L;
    /// # Safety
    /// As for [`rt::row_load3`].
    unsafe fn load3(p: *const Self::E, row: usize, n: usize) -> [Self::L; 3];
    /// # Safety
    /// As for [`rt::elements`].
    unsafe fn gather(
        p: *const Self::E,
        index: <Self::L as Lane>::Index,
        stride: usize,
        offset: usize,
    ) -> Self::L;
    /// # Safety
    /// As for [`rt::row_put`].
    unsafe fn put(p: *mut Self::E, at: (usize, usize), of: (usize, usize), x: Self::L, adds: bool);
    /// # Safety
    /// As for [`rt::node_load`].
    unsafe fn node_load(
        p: *const Self::E,
        line: (usize, &Splines<MAX_ORDERS>),
        nodes: (usize, usize),
        of: (usize, usize),
    ) -> Self::L;
    /// # Safety
    /// As for [`rt::node_add`].
    unsafe fn node_add(
        p: *mut f64,
        line: (usize, &Splines<MAX_ORDERS>),
        nodes: (usize, usize),
        of: (usize, usize),
        x: Self::L,
    );
    /// Derivatives at nodes from one on.
    fn weights(table: &Splines<MAX_ORDERS>, derivative: usize, node: usize) -> Self::L;
    /// # Safety
    /// As for [`WaveLine::moduli`].
    unsafe fn wave(line: &WaveLine, field: Field, moduli: *const f64, wave: usize, n: usize) -> Self::L;
}

/// Lanes of the arrays' type.
pub(super) struct Narrow<L>(PhantomData<L>);

/// Lanes of f64 over arrays of `E`.
pub(super) struct Wide<E, L>(PhantomData<(E, L)>);

/// Programs say whether their lanes are those of rows and nodes.
const ONLY_WIDE: &str = "rows, nodes and waves are on lanes of f64";

impl<L: Lane> World for Narrow<L>
where
    L::Elem: SharedReal,
{
    type E = L::Elem;
    type L = L;
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn load(p: *const L::Elem, row: usize, n: usize, stride: usize, component: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe {
            let p = p.add(stride * row);
            if stride > 1 {
                L::gather(p, rt::consecutive::<L>(n), stride, component)
            } else if n == L::N {
                L::load(p)
            } else {
                L::load_first(p, n)
            }
        }
    }

    #[inline(always)]
    unsafe fn load3(p: *const L::Elem, row: usize, n: usize) -> [L; 3] {
        // SAFETY: the caller's promise.
        unsafe {
            let p = p.add(3 * row);
            if n == L::N { L::load3(p) } else { L::load3_first(p, n) }
        }
    }

    #[inline(always)]
    unsafe fn gather(p: *const L::Elem, index: L::Index, stride: usize, offset: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::gather(p, index, stride, offset) }
    }

    #[inline(always)]
    unsafe fn put(p: *mut L::Elem, at: (usize, usize), of: (usize, usize), x: L, adds: bool) {
        // SAFETY: the caller's promise.
        unsafe { rt::put_lanes::<L>(p, at, of, x, adds) };
    }

    unsafe fn node_load(
        _: *const L::Elem,
        _: (usize, &Splines<MAX_ORDERS>),
        _: (usize, usize),
        _: (usize, usize),
    ) -> L {
        unreachable!("{ONLY_WIDE}")
    }

    unsafe fn node_add(
        _: *mut f64,
        _: (usize, &Splines<MAX_ORDERS>),
        _: (usize, usize),
        _: (usize, usize),
        _: L,
    ) {
        unreachable!("{ONLY_WIDE}")
    }

    fn weights(_: &Splines<MAX_ORDERS>, _: usize, _: usize) -> L {
        unreachable!("{ONLY_WIDE}")
    }

    unsafe fn wave(_: &WaveLine, _: Field, _: *const f64, _: usize, _: usize) -> L {
        unreachable!("{ONLY_WIDE}")
    }
}

impl<E: SharedReal, L: Lane<Elem = f64>> World for Wide<E, L> {
    type E = E;
    type L = L;
    const WIDE: bool = true;

    #[inline(always)]
    unsafe fn load(p: *const E, row: usize, n: usize, stride: usize, component: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { rt::row_load(p, row, n, stride, component) }
    }

    #[inline(always)]
    unsafe fn load3(p: *const E, row: usize, n: usize) -> [L; 3] {
        // SAFETY: the caller's promise.
        unsafe { rt::row_load3(p, row, n) }
    }

    #[inline(always)]
    unsafe fn gather(p: *const E, index: L::Index, stride: usize, offset: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { rt::elements::<E, L>(p, index, stride, offset) }
    }

    #[inline(always)]
    unsafe fn put(p: *mut E, at: (usize, usize), of: (usize, usize), x: L, adds: bool) {
        // SAFETY: the caller's promise.
        unsafe { rt::row_put(p, at, of, x, adds) };
    }

    #[inline(always)]
    unsafe fn node_load(
        p: *const E,
        line: (usize, &Splines<MAX_ORDERS>),
        nodes: (usize, usize),
        of: (usize, usize),
    ) -> L {
        // SAFETY: the caller's promise.
        unsafe { rt::node_load(p, line, nodes, of) }
    }

    #[inline(always)]
    unsafe fn node_add(
        p: *mut f64,
        line: (usize, &Splines<MAX_ORDERS>),
        nodes: (usize, usize),
        of: (usize, usize),
        x: L,
    ) {
        // SAFETY: the caller's promise.
        unsafe { rt::node_add(p, line, nodes, of, x) };
    }

    #[inline(always)]
    fn weights(table: &Splines<MAX_ORDERS>, derivative: usize, node: usize) -> L {
        table.weights(derivative, node)
    }

    #[inline(always)]
    unsafe fn wave(line: &WaveLine, field: Field, moduli: *const f64, wave: usize, n: usize) -> L {
        match field {
            Field::Index(axis) if axis < 2 => L::splat(line.index(axis)),
            Field::Index(_) => line.indices(wave),
            Field::Count => line.counts(wave),
            // SAFETY: the caller's promise.
            Field::Modulus(_) => unsafe { line.moduli(moduli, wave, n) },
        }
    }
}
