//! Steps that are linear maps: the derivative along a direction is the map itself, the gradient its transpose, and
//! derivatives of second order are zero.

use super::arrays::Arrays;
use super::call::Call;
use super::declare::{ArgKind, Op};
use super::size::Size;
use crate::array::{Array, View};
use crate::backend::Waves;
use crate::runtime::{Member, Param, ParamKind, Role, SlotArray};
use crate::{Error, Result};

/// A linear map between buffers, with the parameters that [`super::OpBuilder::linear`] binds, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// `mesh`, `values` (nodes,) → `re` and `im` (waves,): the Fourier transform of each system's mesh, half spectrum,
    /// no factor. See [`crate::backend::Context::real_fft`].
    RealFft,
    /// `mesh`, `re` and `im` (waves,) → `values` (nodes,): K₁·K₂·K₃ times its inverse. Of waves that are their own
    /// partners only the real part counts.
    InverseRealFft,
    /// `batch`, `values` (rows, …) → `sums` (systems, …): sums over each system's rows.
    SegmentedSum,
    /// `batch`, `values` (systems, …) → `rows` (rows, …): each system's element to all of its rows.
    SegmentedBroadcast,
    /// `values` (rows, …) → `sum` (…): the sum of all rows.
    Sum,
    /// `value` (…) → `rows` (rows, …): one element to all rows.
    Broadcast,
    /// An argument → the output or scratch array of its name, of reals or integers: where an in-out parameter begins. Ops
    /// have it without being told.
    Copy,
}

const fn real(name: &'static str) -> Param {
    let kind = ParamKind::Real { dim: Some(0), components: 1, zero: false, width: None };
    Param { name, kind, axes: &[], channels: 0, in_out: false }
}

const fn output(name: &'static str) -> Param {
    let kind = ParamKind::Output { dim: Some(1), components: 1, width: None };
    Param { name, kind, axes: &[], channels: 0, in_out: false }
}

const MESH: Param = structure("mesh", ParamKind::Mesh { systems: 2, nodes: 0, waves: None });
const BATCH: Param = structure("batch", ParamKind::Batch { rows: 0, systems: 1 });

const fn structure(name: &'static str, kind: ParamKind) -> Param {
    Param { name, kind, axes: &[], channels: 0, in_out: false }
}

impl Linear {
    /// Parameters.
    pub fn params(self) -> &'static [Param] {
        match self {
            Self::RealFft => const { &[MESH, real("values"), output("re"), output("im")] },
            Self::InverseRealFft => const { &[MESH, real("re"), real("im"), output("values")] },
            Self::SegmentedSum => const { &[BATCH, real("values"), output("sums")] },
            Self::SegmentedBroadcast => const { &[BATCH, real("values"), output("rows")] },
            Self::Sum => const { &[real("values"), output("sum")] },
            Self::Broadcast => const { &[real("value"), output("rows")] },
            Self::Copy => const { &[real("argument"), output("array")] },
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RealFft => "real_fft",
            Self::InverseRealFft => "inverse_real_fft",
            Self::SegmentedSum => "segmented_sum",
            Self::SegmentedBroadcast => "segmented_broadcast",
            Self::Sum => "sum",
            Self::Broadcast => "broadcast",
            Self::Copy => "copy",
        }
    }

    /// The shapes of the buffers fit each other.
    pub(super) fn check(self, op: &Op, buffers: &[usize]) -> Result<()> {
        let shape = |n: usize| op.shape_of(buffers[n]).unwrap_or(&[]);
        let wrong = |n: usize, expected: String| {
            let got = match op.args.get(buffers[n]) {
                Some(arg) => format!("{:?}", arg.kind),
                None => format!("an array {:?}", shape(n)),
            };
            let param = format!("{}::{}::{}", op.full_name(), self.name(), self.params()[n].name);
            Err(Error::argument(param, expected, got))
        };
        for (n, param) in self.params().iter().enumerate() {
            let arg = op.args.get(buffers[n]).map(|a| &a.kind);
            match param.kind {
                ParamKind::Output { .. } if arg.is_some() => {
                    return wrong(n, "an output or scratch array".into());
                }
                ParamKind::Real { .. }
                    if self != Self::Copy
                        && !matches!(arg, None | Some(ArgKind::Real { zero: false, .. })) =>
                {
                    return wrong(n, "a real array".into());
                }
                _ => {}
            }
        }
        let first = op.args.get(buffers[0]).map(|a| &a.kind);
        // What each buffer's shape begins with, where the rest is that of the first array.
        let (heads, arrays): (Vec<Option<Size>>, _) = match (self, first) {
            (Self::RealFft, Some(ArgKind::Mesh { nodes, waves, .. })) => {
                let [n, w] = [nodes, waves].map(|d| Some(Size::Dim(d.clone())));
                (vec![n, w.clone(), w], 1)
            }
            (Self::InverseRealFft, Some(ArgKind::Mesh { nodes, waves, .. })) => {
                let [n, w] = [nodes, waves].map(|d| Some(Size::Dim(d.clone())));
                (vec![w.clone(), w, n], 1)
            }
            (Self::SegmentedSum, Some(ArgKind::Batch { rows, systems })) => {
                (vec![Some(Size::Dim(rows.clone())), Some(Size::Dim(systems.clone()))], 1)
            }
            (Self::SegmentedBroadcast, Some(ArgKind::Batch { rows, systems })) => {
                (vec![Some(Size::Dim(systems.clone())), Some(Size::Dim(rows.clone()))], 1)
            }
            (Self::Sum, _) => (vec![shape(0).first().cloned(), None], 0),
            (Self::Broadcast, _) => (vec![None, shape(1).first().cloned()], 0),
            (Self::Copy, _) => {
                let [from, to] = [0, 1].map(|n| (op.integer(buffers[n]), shape(n)));
                let expected = || format!("an array {:?}, as the output of this name", to.1);
                return if from == to { Ok(()) } else { wrong(0, expected()) };
            }
            (Self::RealFft | Self::InverseRealFft, _) => return wrong(0, "a mesh".into()),
            (Self::SegmentedSum | Self::SegmentedBroadcast, _) => return wrong(0, "a batch".into()),
        };
        let rest = |n: usize| {
            let skip = usize::from(heads[n].is_some());
            shape(arrays + n).get(skip..).unwrap_or(&[])
        };
        for (n, head) in heads.iter().enumerate() {
            let is_mesh = matches!(self, Self::RealFft | Self::InverseRealFft);
            let head_fits = head.as_ref().is_none_or(|h| shape(arrays + n).first() == Some(h));
            let lacks_rows = head.is_none() && matches!((self, n), (Self::Sum, 0) | (Self::Broadcast, 1));
            if !head_fits || lacks_rows || rest(n) != rest(0) || (is_mesh && !rest(n).is_empty()) {
                let rest = if is_mesh { &[] } else { rest(0) };
                return wrong(
                    arrays + n,
                    format!("the shape {:?}", head.iter().chain(rest).collect::<Vec<_>>()),
                );
            }
        }
        Ok(())
    }

    /// The buffers whose values or tangents a member reads.
    pub(super) fn reads(self, member: Member, buffers: &[usize]) -> Vec<usize> {
        match member {
            Member::Gradient | Member::GradientTangent => vec![],
            _ => self.sides(buffers).0,
        }
    }

    /// The buffer of rows and that of their sums, where every row goes to one sum as it is.
    pub(super) fn rows_and_sums(self, buffers: &[usize]) -> Option<(usize, usize)> {
        let (inputs, outputs) = self.sides(buffers);
        matches!(self, Self::SegmentedSum | Self::Sum).then(|| (inputs[0], outputs[0]))
    }

    /// Buffers that the map reads, and buffers that it writes.
    fn sides(self, buffers: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let of = |output: bool| {
            let fits = move |kind: ParamKind| match kind {
                ParamKind::Real { .. } => !output,
                ParamKind::Output { .. } => output,
                _ => false,
            };
            self.params().iter().zip(buffers).filter(|(p, _)| fits(p.kind)).map(|(_, b)| *b).collect()
        };
        (of(false), of(true))
    }

    /// Applies a linear step, forwards to values and tangents, transposed to cotangents.
    pub(super) fn apply(
        self,
        call: &Call<'_, '_>,
        arrays: &mut Arrays<'_>,
        buffers: &[usize],
        member: Member,
        wanted: &dyn Fn(usize, Role) -> bool,
    ) -> Result<()> {
        let (inputs, outputs) = self.sides(buffers);
        let roles: &[Role] = match member {
            Member::Value => &[Role::VALUE],
            Member::Tangent => &[Role::VALUE, Role::FIRST],
            Member::SecondTangent => {
                &[Role::VALUE, Role::FIRST, Role::SECOND, const { Role::FIRST.with(Role::SECOND) }]
            }
            Member::Gradient => &[Role::VALUE, Role::COTANGENT],
            Member::GradientTangent => &[Role::COTANGENT, const { Role::COTANGENT.with(Role::FIRST) }],
        };
        for r in roles {
            let transposed = r.has(Role::COTANGENT);
            let (from, to) = if transposed { (&outputs, &inputs) } else { (&inputs, &outputs) };
            if *r == Role::COTANGENT && arrays.is_handed_down(inputs[0]) {
                continue;
            }
            // What is absent is zero, and so is what a linear map makes of it.
            if !to.iter().any(|b| wanted(*b, *r)) || !from.iter().any(|b| arrays.has(*b, *r)) {
                continue;
            }
            for b in from {
                arrays.make_readable(call, *b, *r, false)?;
            }
            // The first addend of a result lies where the result is wanted.
            let first = |b: usize| wanted(b, *r) && !arrays.has(b, *r);
            let place = |b: &usize| if first(*b) { call.made(*b, *r, false) } else { call.room(*b) };
            let mut made = to.iter().map(place).collect::<Result<Vec<_>>>()?;
            let views: Vec<View<'_>> = from.iter().map(|b| arrays.readable(*b, *r, false)).collect();
            self.map(call, transposed, buffers[0], &views, &mut made)?;
            for (b, array) in to.iter().zip(made) {
                if !wanted(*b, *r) {
                    call.context.allocator.recycle(array);
                    continue;
                }
                arrays.add_to(call, *b, *r, array)?;
            }
        }
        Ok(())
    }

    fn map(
        self,
        call: &Call<'_, '_>,
        transposed: bool,
        first: usize,
        from: &[View<'_>],
        to: &mut [Array],
    ) -> Result<()> {
        let context = call.context;
        match (self, call.structure(first), from, to) {
            (Self::RealFft | Self::InverseRealFft, Some(meshes), from, to) => {
                let Some(mesh) = meshes.as_mesh() else { unreachable!("checked when the op was called") };
                // Transposing exchanges the two transforms and keeps how waves count.
                let waves = if self == Self::RealFft { Waves::Kept } else { Waves::All };
                match (from, to) {
                    ([values], [re, im]) => context.real_fft(mesh.runs(), waves, values, [re, im]),
                    ([re, im], [values]) => context.inverse_real_fft(mesh.runs(), waves, [re, im], values),
                    _ => unreachable!("a transform has three arrays"),
                }
            }
            (Self::SegmentedSum | Self::SegmentedBroadcast, Some(batch), [from], [to]) => {
                let Some(ptr) = batch.array(SlotArray::Members)? else {
                    unreachable!("checked when the op was called")
                };
                if (self == Self::SegmentedSum) != transposed {
                    context.segmented_sum(from, ptr, to)
                } else {
                    context.segmented_broadcast(from, ptr, to)
                }
            }
            (Self::Sum | Self::Broadcast, _, [from], [to]) => {
                if (self == Self::Sum) != transposed {
                    return context.sum(from, to);
                }
                context.broadcast(from, to)
            }
            (Self::Copy, _, [from], [to]) => context.copy_to(from, to),
            _ => unreachable!("checked when the op was built, and its arguments when it was called"),
        }
    }
}
