//! Runs of chains.

use super::BLOCK;
use super::chain::Link;
use super::machine::Machine;
use super::world::World;
use madelung_kernel::program::{Fused, Vector};
use madelung_lanes::Lane;

/// The vectors of a chain's value that registers have room for.
const AT_ONCE: usize = 8;

impl<W: World> Machine<'_, W> {
    /// Runs a chain, for eight vectors at a time. Vectors behind the last open one are computed too; nothing reads them.
    ///
    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    pub(super) unsafe fn chain(&mut self, links: &[Link]) {
        const { assert!(BLOCK.is_multiple_of(AT_ONCE)) };
        // SAFETY: registers have room for the vectors of a block.
        unsafe {
            if self.open.vectors == 1 {
                return self.chain_of::<1>(links, 0);
            }
            for first in (0..self.open.vectors).step_by(AT_ONCE) {
                self.chain_of::<AT_ONCE>(links, first);
            }
        }
    }

    /// # Safety
    /// The processor has the lanes, and a block so many vectors from the first one on.
    #[inline(always)]
    unsafe fn chain_of<const N: usize>(&mut self, links: &[Link], first: usize) {
        let mut value = [W::L::splat(0.0); N];
        macro_rules! each {
            ($v:ident; $($x:ident = $of:expr),*; $e:expr) => {{
                $(let $x = self.vectors_of($of, first);)*
                for $v in 0..N {
                    $(let $x = *$x.0.add($v * $x.1);)*
                    value[$v] = $e;
                }
            }};
        }
        // SAFETY: registers have room for the vectors of a block.
        unsafe {
            for link in links {
                match *link {
                    Link::Load(x) => each!(v; x = x; x),
                    Link::Add(x) => each!(v; x = x; value[v] + x),
                    Link::Sub(x) => each!(v; x = x; value[v] - x),
                    Link::SubtractFrom(x) => each!(v; x = x; x - value[v]),
                    Link::Mul(x) => each!(v; x = x; value[v] * x),
                    Link::Square => each!(v; ; value[v] * value[v]),
                    Link::Neg => each!(v; ; -value[v]),
                    Link::Product(Fused::Add, x, y) => each!(v; x = x, y = y; value[v].mul_add(x, y)),
                    Link::Product(Fused::Subtracted, x, y) => {
                        each!(v; x = x, y = y; (-value[v]).mul_add(x, y))
                    }
                    Link::Product(Fused::Sub, x, y) => each!(v; x = x, y = y; value[v].mul_add(x, -y)),
                    Link::OnProduct(Fused::Add, x, y) => each!(v; x = x, y = y; x.mul_add(y, value[v])),
                    Link::OnProduct(Fused::Subtracted, x, y) => {
                        each!(v; x = x, y = y; (-x).mul_add(y, value[v]))
                    }
                    Link::OnProduct(Fused::Sub, x, y) => each!(v; x = x, y = y; x.mul_add(y, -value[v])),
                    Link::SquareOn(y) => each!(v; y = y; value[v].mul_add(value[v], y)),
                    Link::Where(mask, x) => {
                        let mask = self.mask(mask).add(first);
                        each!(v; x = x; W::L::select(*mask.add(v), value[v], x));
                    }
                    Link::Else(mask, x) => {
                        let mask = self.mask(mask).add(first);
                        each!(v; x = x; W::L::select(*mask.add(v), x, value[v]));
                    }
                    Link::Store(to) => {
                        let to = self.vectors_of(to, first);
                        for (v, value) in value.iter().enumerate() {
                            *to.0.add(v * to.1) = *value;
                        }
                    }
                }
            }
        }
    }

    /// The vectors of a register from one on, and the distance to the next one.
    #[inline(always)]
    fn vectors_of(&mut self, r: Vector, first: usize) -> (*mut W::L, usize) {
        let (p, step) = self.vector(r);
        (p.wrapping_add(first * step), step)
    }
}
