//! Lane types whose value is one register, from a table that has a column for each of them.
//!
//! An instruction set is one file: its `table!`, a `register!` for each column, and an `impl Lane` that consists of
//! `lane!`, what the instruction set does in its own way, and what the one type does in its own way.

/// Modules, one for each column, in which things have the names that stand before the rows: intrinsics, but also types,
/// constants and functions of the file, as far as the file imports or defines them.
///
/// Rows that `register!` and `lane!` use:
/// - `Register`, `Mask`, `Ints`: of the elements, of a comparison, of one i32 for each lane.
/// - `masked_load`, `masked_store`, `masked_load_ints`: only the elements that a mask names, zeros elsewhere; and
///   `before(n, start)`, `ints_before(n, start)`: such masks, of the lanes l with l + start < n.
/// - `repeat_last(v, n)`: `v`, whose lanes from `n` on become copies of the last before.
/// - `columns([a, b, c])`, `int_columns([a, b, c])`: the columns of rows of three that lie in three registers.
/// - All others: the intrinsic of that name.
macro_rules! table {
    ([] $($row:ident:;)*) => {};
    ([$column:ident $($columns:ident)*] $($row:ident: $first:ident $($others:ident)*;)*) => {
        mod $column {
            pub(super) use super::{$($first as $row),*};
        }
        table! { [$($columns)*] $($row: $($others)*;)* }
    };
}

/// Intrinsics that touch registers only.
macro_rules! arch {
    ($($body:tt)*) => {{
        // SAFETY: a lane type is used only where its features are enabled (see the module), and nothing here
        // touches memory.
        unsafe { $($body)* }
    }};
}

/// A lane type with its operators, each one intrinsic. The negative is a subtraction from −0, which the compiler knows as
/// a negation and folds into fused operations.
macro_rules! register {
    ($(#[$doc:meta])* $L:ident: $column:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $L($column::Register);

        register!(@operator $L $column Add add);
        register!(@operator $L $column Sub sub);
        register!(@operator $L $column Mul mul);
        register!(@operator $L $column Div div);

        impl core::ops::Neg for $L {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self(arch!($column::sub($column::set1(-0.0), self.0)))
            }
        }

        impl $L {
            /// The lanes from `n` on become copies of the last before.
            #[inline(always)]
            fn repeat_last([x, y, z]: [$column::Register; 3], n: usize) -> [Self; 3] {
                [
                    Self($column::repeat_last(x, n)),
                    Self($column::repeat_last(y, n)),
                    Self($column::repeat_last(z, n)),
                ]
            }

            #[inline(always)]
            fn reals([x, y, z]: [$column::Ints; 3]) -> [$column::Register; 3] {
                arch!([$column::of_ints(x), $column::of_ints(y), $column::of_ints(z)])
            }

            /// The three integers [packed](crate::lanes::packed) into each.
            #[inline(always)]
            fn unpacked(v: $column::Ints) -> [$column::Ints; 3] {
                use crate::lanes::packed::{BIAS, BITS, HALF, MASK};
                arch!(
                    let (mask, bias) = ($column::set1_ints(MASK), $column::set1_ints(HALF));
                    let v = $column::add_ints(v, $column::set1_ints(BIAS));
                    let y = $column::and_ints($column::shift_right::<{ BITS[0] as _ }>(v), mask);
                    let z = $column::and_ints(v, mask);
                    [
                        $column::shift_right_signed::<{ BITS[1] as _ }>(v),
                        $column::sub_ints(y, bias),
                        $column::sub_ints(z, bias),
                    ]
                )
            }
        }
    };
    (@operator $L:ident $column:ident $Op:ident $op:ident) => {
        impl core::ops::$Op for $L {
            type Output = Self;
            #[inline(always)]
            fn $op(self, o: Self) -> Self {
                Self(arch!($column::$op(self.0, o.0)))
            }
        }
    };
}

/// The items of an `impl Lane` that differ by the names in the table only. The elements are numbered.
macro_rules! lane {
    ($column:ident: $T:ident [$($l:literal)*]) => {
        type Elem = $T;
        type Mask = $column::Mask;
        type Index = [i32; [$($l),*].len()];
        const N: usize = [$($l),*].len();

        #[inline(always)]
        fn splat(x: f64) -> Self {
            Self(arch!($column::set1(x as $T)))
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            Self(arch!($column::mul_add(self.0, b.0, c.0)))
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            Self(arch!($column::sqrt(self.0)))
        }
        #[inline(always)]
        fn lt(self, o: Self) -> Self::Mask {
            arch!($column::compare::<_CMP_LT_OQ>(self.0, o.0))
        }
        #[inline(always)]
        fn le(self, o: Self) -> Self::Mask {
            arch!($column::compare::<_CMP_LE_OQ>(self.0, o.0))
        }
        #[inline(always)]
        fn eq(self, o: Self) -> Self::Mask {
            arch!($column::compare::<_CMP_EQ_OQ>(self.0, o.0))
        }
        #[inline(always)]
        fn at_most(self, bound: Self) -> Self {
            // The instruction returns its second operand where one is NaN.
            Self(arch!($column::min(bound.0, self.0)))
        }
        #[inline(always)]
        fn at_least(self, bound: Self) -> Self {
            Self(arch!($column::max(bound.0, self.0)))
        }
        #[inline(always)]
        fn lane(self, l: usize) -> f64 {
            let mut v = [0.0; Self::N];
            // SAFETY: the array has room for N elements.
            unsafe { self.store(v.as_mut_ptr()) };
            v[l].to_f64()
        }

        #[inline(always)]
        unsafe fn load(p: *const $T) -> Self {
            // SAFETY: the caller gives N elements.
            Self(unsafe { $column::load(p) })
        }
        #[inline(always)]
        unsafe fn load_first(p: *const $T, n: usize) -> Self {
            // SAFETY: the caller gives n elements, and no other is touched.
            Self($column::repeat_last(unsafe { $column::masked_load(p, $column::before(n, 0)) }, n))
        }
        #[inline(always)]
        unsafe fn load_some(p: *const $T, n: usize) -> Self {
            // SAFETY: the caller gives n elements, and no other is touched.
            Self(unsafe { $column::masked_load(p, $column::before(n, 0)) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $T) {
            // SAFETY: the caller gives room for N elements.
            unsafe { $column::store(p, self.0) }
        }
        #[inline(always)]
        unsafe fn store_first(self, p: *mut $T, n: usize) {
            // SAFETY: the caller gives room for n elements, and no other is touched.
            unsafe { $column::masked_store(p, $column::before(n, 0), self.0) }
        }
        #[inline(always)]
        unsafe fn load3(p: *const $T) -> [Self; 3] {
            // SAFETY: the caller gives 3N elements.
            let v = unsafe { [$column::load(p), $column::load(p.add(Self::N)), $column::load(p.add(2 * Self::N))] };
            let [x, y, z] = $column::columns(v);
            [Self(x), Self(y), Self(z)]
        }
        #[inline(always)]
        unsafe fn load3_first(p: *const $T, n: usize) -> [Self; 3] {
            // SAFETY: the caller gives 3n elements, and no other is touched.
            let v = unsafe {
                [
                    $column::masked_load(p, $column::before(3 * n, 0)),
                    $column::masked_load(p.wrapping_add(Self::N), $column::before(3 * n, Self::N)),
                    $column::masked_load(p.wrapping_add(2 * Self::N), $column::before(3 * n, 2 * Self::N)),
                ]
            };
            Self::repeat_last($column::columns(v), n)
        }
        #[inline(always)]
        unsafe fn gather(p: *const $T, i: Self::Index, stride: usize, offset: usize) -> Self {
            // SAFETY: the caller vouches for the indices.
            Self(unsafe { $column::set($(*p.add(i[$l] as usize * stride + offset)),*) })
        }
        #[inline(always)]
        unsafe fn int3(p: *const i32) -> [Self; 3] {
            let p = p.cast();
            // SAFETY: the caller gives 3N integers.
            let v = unsafe { [$column::load_ints(p), $column::load_ints(p.add(1)), $column::load_ints(p.add(2))] };
            let [x, y, z] = Self::reals($column::int_columns(v));
            [Self(x), Self(y), Self(z)]
        }
        #[inline(always)]
        unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
            // SAFETY: the caller gives 3n integers, and no other is touched.
            let v = unsafe {
                [
                    $column::masked_load_ints(p, $column::ints_before(3 * n, 0)),
                    $column::masked_load_ints(p.wrapping_add(Self::N), $column::ints_before(3 * n, Self::N)),
                    $column::masked_load_ints(p.wrapping_add(2 * Self::N), $column::ints_before(3 * n, 2 * Self::N)),
                ]
            };
            Self::repeat_last(Self::reals($column::int_columns(v)), n)
        }
        #[inline(always)]
        unsafe fn packed3(p: *const i32) -> [Self; 3] {
            // SAFETY: the caller gives N integers.
            let [x, y, z] = Self::reals(Self::unpacked(unsafe { $column::load_ints(p.cast()) }));
            [Self(x), Self(y), Self(z)]
        }
        #[inline(always)]
        unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
            // SAFETY: the caller gives n integers, and no other is touched.
            let v = unsafe { $column::masked_load_ints(p, $column::ints_before(n, 0)) };
            Self::repeat_last(Self::reals(Self::unpacked(v)), n)
        }
        #[inline(always)]
        unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self {
            // SAFETY: the caller vouches for the indices.
            Self(unsafe { $column::of_ints($column::set_ints($(*p.add(i[$l] as usize * stride + offset)),*)) })
        }
    };
}

pub(super) use {arch, lane, register, table};
