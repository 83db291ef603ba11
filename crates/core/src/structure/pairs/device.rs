//! Pair lists in the memory of a device.

use super::super::Structure;
use super::super::integers::{Integers, addressable};
use super::super::sealed::Sealed;
use super::Kind;
use crate::array::{Array, DType, Place, View};
use crate::backend::Check;
use crate::runtime::{SlotArray, StructureKind};
use crate::{Error, Result};

/// Pair list in the memory of a device, with memory for more pairs than it holds. The number of pairs stands at the end
/// of the offsets; results computed from a list that has more pairs than its capacity become NaN.
#[derive(Debug)]
pub struct DevicePairs<'a> {
    offsets: Offsets<'a>,
    /// Offsets (N + 1,), int32, which a call writes to `offsets`.
    narrow: Option<View<'a>>,
    others: Integers<'a>,
    shifts: Integers<'a>,
    columns: usize,
    kind: Kind,
    checked: bool,
}

/// Ranges of the entries of each row.
#[derive(Debug)]
enum Offsets<'a> {
    /// Row i is ptr\[i\]..ptr\[i+1\].
    Csr(Integers<'a>),
    /// The first entry of each row, and the end of its entries, (2, N).
    Ranges(Integers<'a>),
}

impl<'a> DevicePairs<'a> {
    /// From the first entry of each row and the end of its entries, `ranges` (2, N), int64, the columns `others` (capacity,), int32, and the image of each pair: `shifts` (capacity, 3) or, packed as [`super::Shifts`] packs them,
    /// (capacity,), int32.
    ///
    /// # Errors
    /// The array whose dtype, shape or place is another; `neighbor_list`, where there are more rows or columns than 32-bit
    /// indices can number, or a full or half list has not a row for each column.
    pub fn from_ranges(
        ranges: impl Into<Integers<'a>>,
        others: impl Into<Integers<'a>>,
        shifts: impl Into<Integers<'a>>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let ranges = ranges.into();
        let rows = ranges.view().shape().get(1).copied().unwrap_or(0);
        ranges.check("neighbor_ptr", DType::I64, &[2, rows])?;
        Self::assemble(Offsets::Ranges(ranges), others.into(), shifts.into(), columns, kind)
    }

    /// From offsets `neighbor_ptr` (N + 1,), int64; all else as for [`DevicePairs::from_ranges`].
    ///
    /// # Errors
    /// As [`DevicePairs::from_ranges`].
    pub fn from_csr(
        neighbor_ptr: impl Into<Integers<'a>>,
        others: impl Into<Integers<'a>>,
        shifts: impl Into<Integers<'a>>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let ptr = neighbor_ptr.into();
        let count = ptr.view().len();
        ptr.check("neighbor_ptr", DType::I64, &[count.max(1)])?;
        Self::assemble(Offsets::Csr(ptr), others.into(), shifts.into(), columns, kind)
    }

    /// From offsets `neighbor_ptr` (N + 1,), int32, and memory for them in the width of kernels, int64, which each call
    /// with the list writes.
    ///
    /// # Errors
    /// As [`DevicePairs::from_ranges`].
    pub fn widened(
        neighbor_ptr: View<'a>,
        wide: impl Into<Integers<'a>>,
        others: impl Into<Integers<'a>>,
        shifts: impl Into<Integers<'a>>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let (narrow, wide, count) = (Integers::Lent(neighbor_ptr.clone()), wide.into(), neighbor_ptr.len());
        narrow.check("neighbor_ptr", DType::I32, &[count.max(1)])?;
        wide.check("neighbor_ptr", DType::I64, &[count])?;
        wide.check_place("neighbor_ptr", neighbor_ptr.place())?;
        let list = Self::from_csr(wide, others, shifts, columns, kind)?;
        Ok(Self { narrow: Some(neighbor_ptr), ..list })
    }

    fn assemble(
        offsets: Offsets<'a>,
        others: Integers<'a>,
        shifts: Integers<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let list = Self { offsets, narrow: None, others, shifts, columns, kind, checked: false };
        let (rows, capacity, place) = (list.rows(), list.capacity(), list.starts().place());
        list.others.check("neighbor_list", DType::I32, &[capacity])?;
        let shape = [capacity, 3];
        let shape = if list.is_packed() { &shape[..1] } else { &shape };
        list.shifts.check("neighbor_shifts", DType::I32, shape)?;
        Integers::Lent(list.ends()).check_place("neighbor_ptr", place)?;
        list.others.check_place("neighbor_list", place)?;
        list.shifts.check_place("neighbor_shifts", place)?;
        addressable("neighbor_ptr", rows)?;
        addressable("neighbor_list", columns)?;
        if kind != Kind::Directed && rows != columns {
            let expected = format!("one row per atom ({columns}) in a full or half list");
            return Err(Error::argument("neighbor_list", expected, format!("{rows} rows")));
        }
        Ok(list)
    }

    /// The list without its checks.
    ///
    /// # Safety
    /// It is what [`super::PairList`] guarantees, and its pairs are within systems of the batches it is used with; or it has more
    /// pairs than its capacity, which a call checks nevertheless.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by integers that are not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { checked: true, ..self }
    }

    /// Whether a call leaves out the check.
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// Number of rows N.
    pub fn rows(&self) -> usize {
        match &self.offsets {
            Offsets::Csr(ptr) => ptr.view().len() - 1,
            Offsets::Ranges(ranges) => ranges.view().shape()[1],
        }
    }

    /// Number of points that columns index.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of pairs that the list has memory for.
    pub fn capacity(&self) -> usize {
        self.others.view().len()
    }

    /// Full, half or directed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// First entry of each row, (N,).
    pub fn starts(&self) -> View<'_> {
        self.range(0)
    }

    /// End of the entries of each row, (N,).
    pub fn ends(&self) -> View<'_> {
        self.range(1)
    }

    fn range(&self, end: usize) -> View<'_> {
        match &self.offsets {
            Offsets::Csr(ptr) => ptr.view().rows(end, self.rows()).expect("one offset more than rows"),
            Offsets::Ranges(ranges) => {
                let row = ranges.view().rows(end, 1).expect("starts and ends");
                View::new(row.data(), &[self.rows()]).expect("an element for each row")
            }
        }
    }

    /// Offsets (N + 1,), int32, that a call widens, where the list came with them.
    pub fn narrow(&self) -> Option<&View<'a>> {
        self.narrow.as_ref()
    }

    /// Column of each entry, (capacity,).
    pub fn others(&self) -> View<'_> {
        self.others.view()
    }

    fn is_packed(&self) -> bool {
        self.shifts.view().shape().len() == 1
    }

    /// Image of each entry, (capacity, 3), where they are not packed.
    pub fn triples(&self) -> Option<View<'_>> {
        (!self.is_packed()).then(|| self.shifts.view())
    }

    /// Image of each entry, packed, (capacity,).
    pub fn packed(&self) -> Option<View<'_>> {
        self.is_packed().then(|| self.shifts.view())
    }
}

impl Sealed for DevicePairs<'_> {}

impl Structure for DevicePairs<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Pairs
    }

    fn place(&self) -> Option<Place> {
        Some(self.others.view().place())
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [self.rows(), self.columns, self.capacity()].map(Some)
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::Start => Some(self.starts()),
            SlotArray::End => Some(self.ends()),
            SlotArray::Column => Some(self.others()),
            SlotArray::Shift => self.triples(),
            SlotArray::PackedShift => self.packed(),
            _ => None,
        })
    }

    fn check<'s>(&'s self, batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        let mut checks = vec![];
        // Every search can find more pairs than there is memory for.
        if let Some(narrow) = &self.narrow {
            let (narrow, wide) = (narrow.clone(), self.starts());
            checks.push(Check::Widened { narrow, wide, limit: self.capacity() });
        } else if self.checked {
            checks.push(Check::AtMost(self.ends(), self.capacity()));
        }
        if !self.checked {
            // One system has no border to cross.
            let batches = batches.first().filter(|of| of.iter().any(|batch| batch.sizes()[1] != Some(1)));
            let idx = |batch: &'s dyn Structure| {
                Ok(batch.array(SlotArray::SystemOf)?.unwrap_or_else(|| View::from(&[0i32; 0])))
            };
            let systems = batches.map(|[rows, columns]| Ok([idx(*rows)?, idx(*columns)?])).transpose()?;
            checks.push(Check::Pairs { list: self, systems });
        }
        Ok(checks)
    }

    fn list_kind(&self) -> Option<Kind> {
        Some(self.kind)
    }

    fn into_arrays(self: Box<Self>) -> Vec<Array> {
        let (Offsets::Csr(ptr) | Offsets::Ranges(ptr)) = self.offsets;
        let ptr = ptr.into_array();
        let own = [self.others, self.shifts].into_iter().filter_map(Integers::into_array);
        ptr.into_iter().chain(own).collect()
    }
}

/// List with a transpose that was made for a call: where the pairs of each column begin, int64 (columns + 1,), the row of
/// each pair, and where each pair stands in the list, int32 (capacity,).
#[derive(Debug)]
pub(crate) struct Transposed<'a> {
    pub(crate) list: &'a dyn Structure,
    pub(crate) transpose: &'a [Array; 3],
}

impl Sealed for Transposed<'_> {}

impl Structure for Transposed<'_> {
    fn kind(&self) -> StructureKind {
        self.list.kind()
    }

    fn place(&self) -> Option<Place> {
        self.list.place()
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        self.list.sizes()
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        match array {
            SlotArray::ColumnStart => Ok(Some(self.transpose[0].view())),
            SlotArray::PairRow => Ok(Some(self.transpose[1].view())),
            SlotArray::PairEntry => Ok(Some(self.transpose[2].view())),
            array => self.list.array(array),
        }
    }

    fn list_kind(&self) -> Option<Kind> {
        self.list.list_kind()
    }
}
