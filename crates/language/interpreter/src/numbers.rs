//! Instructions on numbers: scalars and lanes. Memory is in `memory.rs`.

use super::machine::Machine;
use super::world::World;
use crate::by_name;
use madelung_kernel::program::{Combine, Compare, Fused, Instruction as I, IntegerOp, Pair, Unary, Vector};
use madelung_lanes::{self as rt, Lane};

fn unary(op: Unary, x: f64) -> f64 {
    macro_rules! call {
        ($f:ident) => {
            rt::scalar::$f(x)
        };
    }
    match op {
        Unary::Neg => -x,
        Unary::Recip => 1.0 / x,
        Unary::Sqrt => x.sqrt(),
        Unary::Abs => x.abs(),
        Unary::Nearest | Unary::NearestOfAny => x.round_ties_even(),
        Unary::Call(f) => by_name!(f, call),
    }
}

fn combine(op: Combine, x: f64, y: f64) -> f64 {
    match op {
        Combine::Add => x + y,
        Combine::Sub => x - y,
        Combine::Mul => x * y,
        Combine::Div => x / y,
        Combine::Pow => rt::scalar::pow(x, y),
        Combine::Atan2 => rt::scalar::atan2(x, y),
    }
}

fn integers(op: IntegerOp, x: i64, y: i64) -> i64 {
    match op {
        IntegerOp::Add => x.wrapping_add(y),
        IntegerOp::Sub => x.wrapping_sub(y),
        IntegerOp::Mul => x.wrapping_mul(y),
        IntegerOp::Div => x.wrapping_div(y),
        IntegerOp::Rem => x.wrapping_rem(y),
        IntegerOp::And => x & y,
        IntegerOp::Or => x | y,
        IntegerOp::Xor => x ^ y,
        IntegerOp::Shl => x.wrapping_shl(y as u32),
        IntegerOp::Shr => x.wrapping_shr(y as u32),
    }
}

fn conditions(op: IntegerOp, x: bool, y: bool) -> bool {
    integers(op, i64::from(x), i64::from(y)) != 0
}

fn compare<T: PartialOrd>(op: Compare, x: T, y: T) -> bool {
    match op {
        Compare::Lt => x < y,
        Compare::Le => x <= y,
        Compare::Eq => x == y,
        Compare::Ne => x != y,
    }
}

/// An expression of vectors, for each vector that is open.
macro_rules! each {
    ($m:ident, $to:expr; $($x:ident = $of:expr),*; $e:expr) => {{
        let to = $m.vector($to);
        $(let $x = $m.vector($of);)*
        for v in 0..$m.open.vectors {
            // Registers have room for the vectors of a block.
            $(let $x = *$x.0.add(v * $x.1);)*
            *to.0.add(v * to.1) = $e;
        }
    }};
}

impl<W: World> Machine<'_, W> {
    /// An instruction on scalars.
    #[inline(always)]
    pub(super) fn of_scalars(&mut self, i: &I) {
        match *i {
            I::Copy { from, to } => *self.scalar(to) = *self.scalar(from),
            I::Unary { op, x, to } => *self.scalar(to) = unary(op, *self.scalar(x)),
            I::Combine { op, x, y, to } => {
                *self.scalar(to) = combine(op, *self.scalar(x), *self.scalar(y));
            }
            I::Select { condition, x, y, to } => {
                *self.scalar(to) = if *self.condition(condition) { *self.scalar(x) } else { *self.scalar(y) };
            }
            I::ToReal { x, to } => *self.scalar(to) = *self.int(x) as f64,
            I::ToInteger { x, to } => *self.int(to) = *self.scalar(x) as i64,
            I::CopyInteger { from, to } => *self.int(to) = *self.int(from),
            I::Integers { op, x, y, to } => *self.int(to) = integers(op, *self.int(x), *self.int(y)),
            I::Compare { op, x, y, to } => {
                *self.condition(to) = compare(op, *self.scalar(x), *self.scalar(y));
            }
            I::CompareIntegers { op, x, y, to } => {
                *self.condition(to) = compare(op, *self.int(x), *self.int(y));
            }
            I::IsFinite { x, to } => *self.condition(to) = self.scalar(x).is_finite(),
            I::Conditions { op, x, y, to } => {
                *self.condition(to) = conditions(op, *self.condition(x), *self.condition(y));
            }
            I::Not { x, to } => *self.condition(to) = !*self.condition(x),
            I::SetCondition { value, to } => *self.condition(to) = value,
            I::CopyCondition { from, to } => *self.condition(to) = *self.condition(from),
            I::Attribute { n, to } => *self.scalar(to) = self.a.reals[n],
            I::IntegerAttribute { n, to } => *self.int(to) = self.a.ints[n],
            I::InCluster { cluster, lane, width, component, to } => {
                let place = *self.int(cluster) as usize * width + component;
                *self.int(to) = (place * W::L::N) as i64 + *self.int(lane);
            }
            I::Size { dim, to } => *self.int(to) = self.a.dims[dim],
            I::Count { to } => *self.int(to) = self.open.rest as i64,
            ref other => unreachable!("not of scalars: {other:?}"),
        }
    }

    /// An instruction on lanes.
    ///
    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    pub(super) unsafe fn of_lanes(&mut self, i: &I) {
        // SAFETY: registers have room for all vectors that are open.
        unsafe {
            match *i {
                I::Splat { x, to } => {
                    let x = W::L::splat(*self.scalar(x));
                    each!(self, to; ; x);
                }
                I::Fill { x, to } => {
                    let x = W::L::splat(x);
                    each!(self, to; ; x);
                }
                I::CopyLanes { from, to } => each!(self, to; x = from; x),
                I::UnaryLanes { op, x, to } => self.unary_lanes(op, x, to),
                I::CombineLanes { op, x, y, to } => match op {
                    Combine::Add => each!(self, to; x = x, y = y; x + y),
                    Combine::Sub => each!(self, to; x = x, y = y; x - y),
                    Combine::Mul => each!(self, to; x = x, y = y; x * y),
                    Combine::Div => each!(self, to; x = x, y = y; x / y),
                    Combine::Pow => each!(self, to; x = x, y = y; x.pow(y)),
                    Combine::Atan2 => each!(self, to; x = x, y = y; x.atan2(y)),
                },
                I::FusedLanes { op, x, y, z, to } => match op {
                    Fused::Add => each!(self, to; x = x, y = y, z = z; x.mul_add(y, z)),
                    Fused::Subtracted => each!(self, to; x = x, y = y, z = z; (-x).mul_add(y, z)),
                    Fused::Sub => each!(self, to; x = x, y = y, z = z; x.mul_add(y, -z)),
                },
                I::PairLanes { of, x, to } => self.pair_lanes(of, x, to),
                I::CompareLanes { op, x, y, to } => {
                    let (to, x, y) = (self.mask(to), self.vector(x), self.vector(y));
                    macro_rules! compared {
                        ($x:ident, $y:ident; $e:expr) => {
                            for v in 0..self.open.vectors {
                                let ($x, $y) = (*x.0.add(v * x.1), *y.0.add(v * y.1));
                                *to.add(v) = $e;
                            }
                        };
                    }
                    match op {
                        Compare::Lt => compared!(x, y; x.lt(y)),
                        Compare::Le => compared!(x, y; x.le(y)),
                        Compare::Eq => compared!(x, y; x.eq(y)),
                        Compare::Ne => compared!(x, y; W::L::not(x.eq(y))),
                    }
                }
                I::MaskOf { condition, to } => {
                    let (x, to) = (W::L::mask(*self.condition(condition)), self.mask(to));
                    for v in 0..self.open.vectors {
                        *to.add(v) = x;
                    }
                }
                I::Masks { op, x, y, to } => {
                    let (x, y, to) = (self.mask(x), self.mask(y), self.mask(to));
                    for v in 0..self.open.vectors {
                        let (x, y) = (*x.add(v), *y.add(v));
                        *to.add(v) = if op == IntegerOp::And { W::L::and(x, y) } else { W::L::or(x, y) };
                    }
                }
                I::NotMask { x, to } => {
                    let (x, to) = (self.mask(x), self.mask(to));
                    for v in 0..self.open.vectors {
                        *to.add(v) = W::L::not(*x.add(v));
                    }
                }
                I::SelectLanes { mask, x, y, to } => {
                    let (mask, x, y, to) = (self.mask(mask), self.vector(x), self.vector(y), self.vector(to));
                    for v in 0..self.open.vectors {
                        *to.0.add(v * to.1) =
                            W::L::select(*mask.add(v), *x.0.add(v * x.1), *y.0.add(v * y.1));
                    }
                }
                I::Sum { x, minus: false, sum } => self.sum(sum, x, None, false),
                I::Sum { x, minus: true, sum } => self.sum(sum, x, None, true),
                I::SumOfProduct { x, y, minus: false, sum } => self.sum(sum, x, Some(y), false),
                I::SumOfProduct { x, y, minus: true, sum } => self.sum(sum, x, Some(y), true),
                I::Best { x, at, best, place } => {
                    let (x, at, best, place) =
                        (self.vector(x), self.vector(at), self.vector(best), self.vector(place));
                    for v in 0..self.open.vectors {
                        let (x, at) = (*x.0.add(v * x.1), *at.0.add(v * at.1));
                        let (best, place) = (best.0.add(v * best.1), place.0.add(v * place.1));
                        let larger = W::L::and(self.active(v), (*best).lt(x));
                        (*best, *place) = (W::L::select(larger, x, *best), W::L::select(larger, at, *place));
                    }
                }
                I::BestOf { lanes, places, best, place } => {
                    let (lanes, places) = (*self.vector(lanes).0, *self.vector(places).0);
                    (*self.scalar(best), *self.scalar(place)) =
                        rt::best(*self.scalar(best), *self.scalar(place), lanes, places);
                }
                I::Total { x, to } => *self.scalar(to) = (*self.vector(x).0).sum(),
                I::Spill { x, to } => {
                    let x = *self.vector(x).0;
                    for l in 0..W::L::N {
                        self.room(to)[l] = x.lane(l);
                    }
                }
                I::SpillMask { x, to } => {
                    let x = W::L::select(*self.mask(x), W::L::splat(1.0), W::L::splat(0.0));
                    for l in 0..W::L::N {
                        self.room(to)[l] = x.lane(l);
                    }
                }
                I::Clear { to: room } => self.room(room).fill(0.0),
                I::Pick { room, at, to } => {
                    let at = *self.int(at) as usize;
                    *self.scalar(to) = self.room(room)[at];
                }
                I::AddTo { sum: room, at, x } => {
                    let (at, x) = (*self.int(at) as usize, *self.scalar(x));
                    self.room(room)[at] += x;
                }
                I::Filled { room, to } => {
                    let x: W::L = rt::filled(self.room(room));
                    each!(self, to; ; x);
                }
                ref other => unreachable!("not of lanes: {other:?}"),
            }
        }
    }

    /// The lanes of a vector that have an iteration.
    ///
    /// # Safety
    /// The vector is open.
    #[inline(always)]
    pub(super) unsafe fn active(&self, v: usize) -> <W::L as Lane>::Mask {
        if !self.open.entries.is_null() {
            // SAFETY: open vectors are entries of the list.
            return W::L::bits(unsafe { (*self.open.entries.add(self.open.k + v)).mask });
        }
        W::L::first(if v + 1 < self.open.vectors { W::L::N } else { self.open.rest })
    }

    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    unsafe fn unary_lanes(&mut self, op: Unary, x: Vector, to: Vector) {
        macro_rules! call {
            ($f:ident) => {
                each!(self, to; x = x; x.$f())
            };
        }
        // SAFETY: registers have room for all vectors that are open.
        unsafe {
            match op {
                Unary::Neg => each!(self, to; x = x; -x),
                Unary::Recip => call!(recip),
                Unary::Sqrt => call!(sqrt),
                Unary::Abs => call!(abs),
                Unary::Nearest => each!(self, to; x = x; rt::nearest(x)),
                // Lanes of f64 alone have rows; the lanes of others take the one that they have.
                Unary::NearestOfAny => {
                    let bound = W::L::splat(2_251_799_813_685_248.0);
                    each!(self, to; x = x; W::L::select(x.abs().lt(bound), rt::nearest(x), x));
                }
                Unary::Call(f) => by_name!(f, call),
            }
        }
    }

    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    unsafe fn pair_lanes(&mut self, pair: Pair, x: Vector, to: [Vector; 2]) {
        let (x, [first, second]) = (self.vector(x), to.map(|to| self.vector(to)));
        macro_rules! both {
            ($f:ident) => {
                for v in 0..self.open.vectors {
                    let (a, b) = (*x.0.add(v * x.1)).$f();
                    *first.0.add(v * first.1) = a;
                    *second.0.add(v * second.1) = b;
                }
            };
        }
        // SAFETY: registers have room for all vectors that are open.
        unsafe {
            match pair {
                Pair::ErfcExpNegSq => both!(erfc_exp_neg_sq),
                Pair::SinCos => both!(sin_cos),
                Pair::SqrtRecip => both!(sqrt_recip),
            }
        }
    }

    /// Adds x, or a fused product, to a sum, or subtracts it: vector by vector.
    ///
    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    unsafe fn sum(&mut self, sum: Vector, x: Vector, y: Option<Vector>, minus: bool) {
        let (to, x, y) = (self.vector(sum), self.vector(x), y.map(|y| self.vector(y)));
        let last = self.open.vectors - 1;
        // All vectors are whole, but the last one, and entries of clusters.
        let whole = if !self.open.entries.is_null() {
            0
        } else if self.open.rest < W::L::N {
            last
        } else {
            last + 1
        };
        macro_rules! summed {
            ($x:ident $(, $y:ident = $of:ident)?; $sum:ident; $e:expr) => {{
                // A sum through all vectors stays in a register.
                let mut $sum = *to.0;
                for v in 0..=last {
                    let $x = *x.0.add(v * x.1);
                    $(let $y = *$of.0.add(v * $of.1);)?
                    if to.1 > 0 {
                        $sum = *to.0.add(v);
                    }
                    let new = $e;
                    $sum = if v < whole { new } else { W::L::select(self.active(v), new, $sum) };
                    if to.1 > 0 {
                        *to.0.add(v) = $sum;
                    }
                }
                if to.1 == 0 {
                    *to.0 = $sum;
                }
            }};
        }
        // SAFETY: registers have room for all vectors that are open.
        unsafe {
            match (y, minus) {
                (None, false) => summed!(x; sum; sum + x),
                (None, true) => summed!(x; sum; sum - x),
                (Some(y), false) => summed!(x, y = y; sum; x.mul_add(y, sum)),
                (Some(y), true) => summed!(x, y = y; sum; (-x).mul_add(y, sum)),
            }
        }
    }
}
