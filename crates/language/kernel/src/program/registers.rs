//! Classes of registers, and the registers on lanes that an instruction reads and writes.

use super::{Indices, Instruction, Mask, Term, Vector};

/// A class of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each is the type of its name")]
pub enum Class {
    Scalar,
    Integer,
    Condition,
    /// [`Vector::Each`]
    Each,
    /// [`Vector::One`]
    One,
    Mask,
    Indices,
    Room,
    Shape,
    Table,
}

impl Class {
    /// The number of classes.
    pub const COUNT: usize = Self::Table as usize + 1;
}

/// A register that there is for each vector of the open iterations.
#[derive(Debug)]
pub enum Register<'a> {
    /// A [`Vector::Each`] or [`Vector::One`].
    Vector(&'a mut Vector),
    /// A mask.
    Mask(&'a mut Mask),
    /// Indices.
    Indices(&'a mut Indices),
}

/// How an instruction uses a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Both.
    Update,
}

impl Instruction {
    /// The blocks in the instruction.
    pub fn blocks(&self) -> [&[Self]; 3] {
        match self {
            Self::If { then, otherwise, .. } => [then, otherwise, &[]],
            Self::Strip { before, body, after, .. } => [before, body, after],
            Self::For { body, .. }
            | Self::Loop { body }
            | Self::Segments { body, .. }
            | Self::Lanes { body, .. }
            | Self::Lines { body, .. } => [body, &[], &[]],
            _ => [&[], &[], &[]],
        }
    }

    /// The loop over the pairs of an [`Instruction::Strip`] that takes all channels of one pair after those of another; none
    /// for other instructions.
    pub fn pair_by_pair(&self) -> Option<Self> {
        let Self::Strip { pair, pairs, before, sums, variable, from, to, body, after } = self else {
            return None;
        };
        let mut of_pair = before.clone();
        of_pair.extend(sums.iter().map(|to| Self::Fill { x: 0.0, to: *to }));
        let (body, single, entries) = (body.clone(), false, None);
        of_pair.push(Self::Lanes { variable: *variable, from: *from, to: *to, single, entries, body });
        of_pair.extend_from_slice(after);
        let [from, to] = *pairs;
        Some(Self::For { variable: *pair, from, to, body: of_pair })
    }

    /// Calls `f` on every register on lanes that the instruction itself uses: those that it reads first.
    pub fn lane_registers(&mut self, f: &mut dyn FnMut(Register<'_>, Use)) {
        use Instruction as I;
        use Register as R;
        use Use::{Read, Update, Write};
        match self {
            I::Copy { .. }
            | I::Unary { .. }
            | I::Combine { .. }
            | I::Select { .. }
            | I::ToReal { .. }
            | I::ToInteger { .. }
            | I::CopyInteger { .. }
            | I::Integers { .. }
            | I::Compare { .. }
            | I::CompareIntegers { .. }
            | I::IsFinite { .. }
            | I::Conditions { .. }
            | I::Not { .. }
            | I::SetCondition { .. }
            | I::CopyCondition { .. }
            | I::Attribute { .. }
            | I::IntegerAttribute { .. }
            | I::InCluster { .. }
            | I::Size { .. }
            | I::IsAsked { .. }
            | I::LoadDouble { .. }
            | I::Load { .. }
            | I::LoadInt { .. }
            | I::Entry { .. }
            | I::Shift { .. }
            | I::Put { .. }
            | I::Add { .. }
            | I::ClearChannels { .. }
            | I::Partial { .. }
            | I::SharedLoad { .. }
            | I::SharedStore { .. }
            | I::SharedLoadInt { .. }
            | I::SharedStoreInt { .. }
            | I::Atomic { .. }
            | I::Raise { .. }
            | I::Mesh { .. }
            | I::WaveSystem { .. }
            | I::ShapeNumber { .. }
            | I::Splines { .. }
            | I::Weight { .. }
            | I::Node { .. }
            | I::InPlanes { .. }
            | I::Reaches { .. }
            | I::Wave { .. }
            | I::LineIndex { .. }
            | I::If { .. }
            | I::For { .. }
            | I::Loop { .. }
            | I::Break
            | I::Continue
            | I::NextRow
            | I::Segments { .. }
            | I::Lanes { .. }
            | I::Strip { .. }
            | I::Lines { .. }
            | I::Count { .. }
            | I::Clear { .. }
            | I::Pick { .. }
            | I::AddTo { .. } => {}
            I::Splat { to, .. }
            | I::Fill { to, .. }
            | I::LoadLanes { to, .. }
            | I::LoadChannels { to, .. }
            | I::LoadInts { to, .. }
            | I::Places { to, .. }
            | I::Weights { to, .. }
            | I::NodeLoad { to, .. }
            | I::LineField { to, .. }
            | I::LoadInClusters { to, .. }
            | I::Filled { to, .. } => f(R::Vector(to), Write),
            I::CopyLanes { from, to } => {
                f(R::Vector(from), Read);
                f(R::Vector(to), Write);
            }
            I::UnaryLanes { x, to, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(to), Write);
            }
            I::CombineLanes { x, y, to, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(y), Read);
                f(R::Vector(to), Write);
            }
            I::FusedLanes { x, y, z, to, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(y), Read);
                f(R::Vector(z), Read);
                f(R::Vector(to), Write);
            }
            I::PairLanes { x, to, .. } => {
                f(R::Vector(x), Read);
                to.iter_mut().for_each(|to| f(R::Vector(to), Write));
            }
            I::CompareLanes { x, y, to, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(y), Read);
                f(R::Mask(to), Write);
            }
            I::MaskOf { to, .. } => f(R::Mask(to), Write),
            I::Masks { x, y, to, .. } => {
                f(R::Mask(x), Read);
                f(R::Mask(y), Read);
                f(R::Mask(to), Write);
            }
            I::NotMask { x, to } => {
                f(R::Mask(x), Read);
                f(R::Mask(to), Write);
            }
            I::SelectLanes { mask, x, y, to } => {
                f(R::Mask(mask), Read);
                f(R::Vector(x), Read);
                f(R::Vector(y), Read);
                f(R::Vector(to), Write);
            }
            I::Sum { x, sum, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(sum), Update);
            }
            I::SumOfProduct { x, y, sum, .. } => {
                f(R::Vector(x), Read);
                f(R::Vector(y), Read);
                f(R::Vector(sum), Update);
            }
            I::Best { x, at, best, place } => {
                f(R::Vector(x), Read);
                f(R::Vector(at), Read);
                f(R::Vector(best), Update);
                f(R::Vector(place), Update);
            }
            I::BestOf { lanes, places, .. } => {
                f(R::Vector(lanes), Read);
                f(R::Vector(places), Read);
            }
            I::Total { x, .. } | I::Spill { x, .. } => f(R::Vector(x), Read),
            I::SpillMask { x, .. } => f(R::Mask(x), Read),
            I::LoadLanes3 { to, .. } | I::LoadInts3 { to, .. } => {
                to.iter_mut().for_each(|to| f(R::Vector(to), Write));
            }
            I::Gather { index, to, .. } | I::GatherInts { index, to, .. } => {
                f(R::Indices(index), Read);
                f(R::Vector(to), Write);
            }
            I::Gather3 { index, to, .. } => {
                f(R::Indices(index), Read);
                to.iter_mut().for_each(|to| f(R::Vector(to), Write));
            }
            I::GatherTable { rows, columns, to, .. } => {
                f(R::Indices(rows), Read);
                f(R::Indices(columns), Read);
                f(R::Vector(to), Write);
            }
            I::LoadIndices { to, .. } | I::LoadIndicesInClusters { to, .. } => f(R::Indices(to), Write),
            I::Lookup { index, to, .. } => {
                f(R::Indices(index), Read);
                f(R::Indices(to), Write);
            }
            I::Shifts { entries, to, .. } => {
                entries.iter_mut().for_each(|entries| f(R::Indices(entries), Read));
                to.iter_mut().for_each(|to| f(R::Vector(to), Write));
            }
            I::PlacesIn { rows, entries, to, .. } => {
                f(R::Indices(rows), Read);
                f(R::Indices(entries), Read);
                f(R::Vector(to), Write);
            }
            I::StoreLanes { x, .. }
            | I::AddEntries { x, .. }
            | I::AddConsecutive { x, .. }
            | I::NodeAdd { x, .. } => f(R::Vector(x), Read),
            I::AddChannels { x, y, .. } => {
                f(R::Vector(x), Read);
                y.iter_mut().for_each(|y| f(R::Vector(y), Read));
            }
            I::AddInClusters { terms, .. } => {
                for Term { x, y, .. } in terms {
                    f(R::Vector(x), Read);
                    y.iter_mut().for_each(|y| f(R::Vector(y), Read));
                }
            }
            I::Scatter { index, x, .. } => {
                f(R::Indices(index), Read);
                f(R::Vector(x), Read);
            }
            I::ScatterTable { rows, columns, x, .. } => {
                f(R::Indices(rows), Read);
                f(R::Indices(columns), Read);
                f(R::Vector(x), Read);
            }
        }
    }
}
