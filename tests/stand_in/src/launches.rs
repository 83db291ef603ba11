//! Backends of tests: their own launches, and the CPU for all else.

/// Implements `Backend` for a type whose launches are `$launch`; all other work is the CPU's.
#[macro_export]
macro_rules! launches_by {
    ($type:ty, |$this:ident, $context:ident, $args:ident| $launch:expr) => {
        impl $crate::core::backend::Backend for $type {
            fn name(&self) -> &'static str {
                "test"
            }
            fn launch(
                &self,
                $context: &$crate::core::backend::Context<'_>,
                $args: &mut $crate::core::backend::Launch<'_>,
            ) -> $crate::core::Result<()> {
                let $this = self;
                $launch
            }
            $crate::launches_by! { @cpu
                as_any(&self) -> &dyn std::any::Any;
                place(&self) -> $crate::core::array::Place;
                begin(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    checks: &[(usize, $crate::core::backend::Check<'_>)],
                    fills: &mut [(&mut $crate::core::array::Array, f64)],
                ) -> $crate::core::Result<Option<$crate::core::array::Array>>;
                end(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    word: $crate::core::array::Array,
                    results: &mut [&mut $crate::core::array::Array],
                    call: &str,
                    arguments: &dyn Fn() -> Vec<String>,
                ) -> $crate::core::Result<()>;
                fill(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    array: &mut $crate::core::array::Array,
                    x: f64,
                ) -> $crate::core::Result<()>;
                add(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    to: &mut $crate::core::array::Array,
                    from: &$crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                cast(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    from: &$crate::core::array::View<'_>,
                    to: &mut $crate::core::array::Array,
                    name: &str,
                    word: Option<(&$crate::core::array::Array, Option<usize>)>,
                ) -> $crate::core::Result<()>;
                scale_rows(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    unit: &$crate::core::array::View<'_>,
                    weights: &$crate::core::backend::Weights<'_>,
                    rows: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                transpose(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    list: &dyn $crate::core::structure::Structure,
                ) -> $crate::core::Result<[$crate::core::array::Array; 3]>;
                segmented_sum(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    values: &$crate::core::array::View<'_>,
                    offsets: &$crate::core::array::View<'_>,
                    sums: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                segmented_broadcast(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    values: &$crate::core::array::View<'_>,
                    offsets: &$crate::core::array::View<'_>,
                    rows: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                sum(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    values: &$crate::core::array::View<'_>,
                    sum: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                broadcast(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    value: &$crate::core::array::View<'_>,
                    rows: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
                real_fft(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    meshes: &[$crate::core::backend::Meshes],
                    waves: $crate::core::backend::Waves,
                    values: &$crate::core::array::View<'_>,
                    spectrum: [&mut $crate::core::array::Array; 2],
                ) -> $crate::core::Result<()>;
                inverse_real_fft(
                    &self,
                    context: &$crate::core::backend::Context<'_>,
                    meshes: &[$crate::core::backend::Meshes],
                    waves: $crate::core::backend::Waves,
                    spectrum: [&$crate::core::array::View<'_>; 2],
                    values: &mut $crate::core::array::Array,
                ) -> $crate::core::Result<()>;
            }
        }
    };
    (@cpu $($method:ident(&self $(, $x:ident: $t:ty)* $(,)?) -> $r:ty;)*) => {
        $(fn $method(&self $(, $x: $t)*) -> $r {
            const CPU: &$crate::cpu::Cpu = &$crate::cpu::Cpu::new();
            $crate::core::backend::Backend::$method(CPU $(, $x)*)
        })*
    };
}
