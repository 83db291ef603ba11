//! Batches, pair lists, maps and grids whose integers lie in the memory of a device, where only kernels can look at them.
//!
//! What [`crate::batch::Batch`], [`crate::pairs::PairList`] and [`crate::map::Map`] guarantee of their integers when they
//! are made cannot be known here without waiting for the device. So a call checks them there, ahead of its kernels, which
//! do nothing where the check found something; who knows that they are right says so once and is spared the check.

use crate::array::{Array, DType, Place, View};
use crate::grid::DevicePointGrid;
use crate::pairs::Kind;
use crate::{Error, Result};

/// An argument whose integers lie in the memory of a device.
#[derive(Clone, Copy, Debug)]
pub enum DeviceArg<'a> {
    /// A batch.
    Batch(&'a DeviceBatch<'a>),
    /// A pair list.
    Pairs(&'a DevicePairs<'a>),
    /// A map.
    Map(&'a DeviceMap<'a>),
    /// A grid, and room for so many pairs that its search finds.
    Grid {
        /// The grid.
        grid: &'a dyn DevicePointGrid,
        /// Entries of the list that kernels see.
        capacity: usize,
    },
}

impl DeviceArg<'_> {
    /// Where the integers lie.
    pub fn place(&self) -> Place {
        match self {
            Self::Batch(batch) => batch.ptr.place(),
            Self::Pairs(pairs) => pairs.starts.place(),
            Self::Map(map) => map.of.place(),
            Self::Grid { grid, .. } => grid.place(),
        }
    }
}

/// Integers of a type and shape, in the memory of a device.
fn integers(name: &str, view: &View<'_>, dtype: DType, shape: &[usize]) -> Result<()> {
    if view.place() == Place::Host {
        return Err(Error::argument(name, "an array in the memory of a device", "one of the host"));
    }
    if view.dtype() != dtype || view.shape() != shape {
        let got = format!("{} {:?}", view.dtype(), view.shape());
        return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
    }
    Ok(())
}

fn same_place(name: &str, view: &View<'_>, place: Place) -> Result<()> {
    if view.place() != place {
        return Err(Error::argument(
            name,
            format!("an array of {place}"),
            format!("one of {}", view.place()),
        ));
    }
    Ok(())
}

/// At most as many as 32-bit indices can number.
fn addressable(name: &str, count: usize) -> Result<()> {
    if i32::try_from(count).is_err() {
        return Err(Error::argument(name, format!("at most {} entries", i32::MAX), count.to_string()));
    }
    Ok(())
}

/// Which system each atom belongs to, both ways round: [`crate::batch::Batch`] on a device.
#[derive(Clone, Debug)]
pub struct DeviceBatch<'a> {
    of: View<'a>,
    ptr: View<'a>,
    state: State,
}

/// What is known of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Given,
    /// A call writes where systems begin, when it checks the rest.
    Derived,
    Checked,
}

impl<'a> DeviceBatch<'a> {
    /// From the system of each atom, `batch_idx` (N,), and where each system begins, `batch_ptr` (B + 1,); int32.
    ///
    /// # Errors
    /// The one whose dtype, shape or place is another.
    pub fn new(batch_idx: View<'a>, batch_ptr: View<'a>) -> Result<Self> {
        integers("batch_idx", &batch_idx, DType::I32, &[batch_idx.len()])?;
        integers("batch_ptr", &batch_ptr, DType::I32, &[batch_ptr.len().max(1)])?;
        same_place("batch_ptr", &batch_ptr, batch_idx.place())?;
        addressable("batch_idx", batch_idx.len())?;
        addressable("batch_ptr", batch_ptr.len())?;
        Ok(Self { of: batch_idx, ptr: batch_ptr, state: State::Given })
    }

    /// From the system of each atom, `batch_idx` (N,), and room for where each of the systems begins, `batch_ptr`
    /// (B + 1,), which each call with it writes; int32.
    ///
    /// # Errors
    /// As [`DeviceBatch::new`].
    pub fn derived(batch_idx: View<'a>, batch_ptr: &'a mut Array) -> Result<Self> {
        Ok(Self { state: State::Derived, ..Self::new(batch_idx, batch_ptr.view())? })
    }

    /// The same for which nothing is checked any more.
    ///
    /// # Safety
    /// `batch_ptr` rises from 0 to N, and `batch_idx` says the same.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by what is not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { state: State::Checked, ..self }
    }

    /// Whether a call leaves out the check.
    pub fn is_checked(&self) -> bool {
        self.state == State::Checked
    }

    /// Whether a call writes where systems begin.
    pub fn is_derived(&self) -> bool {
        self.state == State::Derived
    }

    /// Number of atoms N, of all systems together.
    pub fn atoms(&self) -> usize {
        self.of.len()
    }

    /// Number of systems B.
    pub fn systems(&self) -> usize {
        self.ptr.len() - 1
    }

    /// The system of each atom, (N,).
    pub fn idx(&self) -> &View<'a> {
        &self.of
    }

    /// Where each system begins, (B + 1,).
    pub fn ptr(&self) -> &View<'a> {
        &self.ptr
    }
}

/// The pairs of each column: [`crate::pairs::Transpose`] on a device.
#[derive(Clone, Debug)]
pub struct DeviceTranspose<'a> {
    /// Where the pairs of each column begin, int64 (columns + 1,).
    pub starts: View<'a>,
    /// The row of each pair, int32 (capacity,).
    pub rows: View<'a>,
    /// Where each pair stands in the list, int32 (capacity,).
    pub entries: View<'a>,
}

/// A pair list on a device, with room for more pairs than it holds: [`crate::pairs::PairList`]. How many there are stands
/// at the end of its offsets, and a list that has passed its capacity makes what is computed from it to NaN.
#[derive(Clone, Debug)]
pub struct DevicePairs<'a> {
    starts: View<'a>,
    ends: View<'a>,
    others: View<'a>,
    triples: Option<View<'a>>,
    packed: Option<View<'a>>,
    columns: usize,
    kind: Kind,
    transpose: Option<DeviceTranspose<'a>>,
    /// Offsets (N + 1,), int32, that a call writes as `starts` and `ends`.
    narrow: Option<View<'a>>,
    checked: bool,
}

impl<'a> DevicePairs<'a> {
    /// From the first entry of each row and the end of its entries, `starts` and `ends` (N,), int64 (for offsets
    /// `neighbor_ptr`, all but the last and all but the first), the columns `others` (capacity,), int32, and the image of
    /// each pair: `shifts` (capacity, 3) or, packed as [`crate::pairs::Shifts`] packs them, (capacity,), int32.
    ///
    /// # Errors
    /// The one whose dtype, shape or place is another; `neighbor_list`, where there are more rows or columns than 32-bit
    /// indices can number, or a full or half list has not a row for each column.
    pub fn new(
        starts: View<'a>,
        ends: View<'a>,
        others: View<'a>,
        shifts: View<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let (rows, capacity) = (starts.len(), others.len());
        integers("neighbor_ptr", &starts, DType::I64, &[rows])?;
        integers("neighbor_ptr", &ends, DType::I64, &[rows])?;
        integers("neighbor_list", &others, DType::I32, &[capacity])?;
        let packed = shifts.shape().len() == 1;
        let shape = [capacity, 3];
        integers("neighbor_shifts", &shifts, DType::I32, if packed { &shape[..1] } else { &shape })?;
        for (name, view) in
            [("neighbor_ptr", &ends), ("neighbor_list", &others), ("neighbor_shifts", &shifts)]
        {
            same_place(name, view, starts.place())?;
        }
        addressable("neighbor_ptr", rows)?;
        addressable("neighbor_list", columns)?;
        if kind != Kind::Directed && rows != columns {
            let expected = format!("one row per atom ({columns}) in a full or half list");
            return Err(Error::argument("neighbor_list", expected, format!("{rows} rows")));
        }
        let (triples, packed) = if packed { (None, Some(shifts)) } else { (Some(shifts), None) };
        let (transpose, narrow) = (None, None);
        Ok(Self { starts, ends, others, triples, packed, columns, kind, transpose, narrow, checked: false })
    }

    /// The same from offsets `neighbor_ptr` (N + 1,), int32, and room for them in the width of kernels, int64, which each
    /// call with the list writes.
    ///
    /// # Errors
    /// As [`DevicePairs::new`].
    pub fn widened(
        neighbor_ptr: View<'a>,
        room: &'a mut Array,
        others: View<'a>,
        shifts: View<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let rows = neighbor_ptr.len().saturating_sub(1);
        integers("neighbor_ptr", &neighbor_ptr, DType::I32, &[rows + 1])?;
        let room = room.view();
        integers("neighbor_ptr", &room, DType::I64, &[rows + 1])?;
        same_place("neighbor_ptr", &room, neighbor_ptr.place())?;
        let list = Self::new(room.rows(0, rows)?, room.rows(1, rows)?, others, shifts, columns, kind)?;
        Ok(Self { narrow: Some(neighbor_ptr), ..list })
    }

    /// The same for which nothing is checked any more.
    ///
    /// # Safety
    /// It is what [`crate::pairs::PairList`] guarantees, and its pairs are within systems of the batches it is used with;
    /// or it has passed its capacity, which a call looks at nevertheless.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by what is not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { checked: true, ..self }
    }

    /// A directed list that a backend has just found around a grid, and that is as a list should be, or refused: offsets
    /// (M + 1,), columns (capacity,) and images (capacity, 3).
    ///
    /// # Errors
    /// A dtype, shape or place that is another.
    ///
    /// # Safety
    /// Offsets are sums of counts from 0 on, or pass the capacity; entries are below `points`.
    #[expect(unsafe_code, reason = "kernels index by what is not checked")]
    pub unsafe fn found([ptr, others, shifts]: [&'a Array; 3], points: usize) -> Result<Self> {
        let (ptr, rows) = (ptr.view(), ptr.shape()[0] - 1);
        let (starts, ends) = (ptr.rows(0, rows)?, ptr.rows(1, rows)?);
        let list = Self::new(starts, ends, others.view(), shifts.view(), points, Kind::Directed)?;
        // Offsets are sums of counts from 0 on, or pass the capacity; entries are below the number of points.
        Ok(Self { checked: true, ..list })
    }

    /// The same with its transpose, which a backend has just made.
    pub(crate) fn transposed<'b>(&self, [starts, rows, entries]: [View<'b>; 3]) -> DevicePairs<'b>
    where
        'a: 'b,
    {
        DevicePairs { transpose: Some(DeviceTranspose { starts, rows, entries }), ..self.clone() }
    }

    /// The same with its transpose, which gradients by columns are gathered through; without one every call makes it.
    ///
    /// # Safety
    /// It is the transpose of this list, or the list is one that the check of a call refuses.
    ///
    /// # Errors
    /// `transpose`, where a dtype, shape or place is another.
    #[expect(unsafe_code, reason = "kernels index by what is not checked")]
    pub unsafe fn with_transpose(self, transpose: DeviceTranspose<'a>) -> Result<Self> {
        let (place, capacity) = (self.starts.place(), self.capacity());
        integers("transpose", &transpose.starts, DType::I64, &[self.columns + 1])?;
        for view in [&transpose.rows, &transpose.entries] {
            integers("transpose", view, DType::I32, &[capacity])?;
        }
        for view in [&transpose.starts, &transpose.rows, &transpose.entries] {
            same_place("transpose", view, place)?;
        }
        Ok(Self { transpose: Some(transpose), ..self })
    }

    /// Whether a call leaves out the check.
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// Number of rows N.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// Number of points that columns index.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Room for so many pairs.
    pub fn capacity(&self) -> usize {
        self.others.len()
    }

    /// Full, half or directed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// First entry of each row, (N,).
    pub fn starts(&self) -> &View<'a> {
        &self.starts
    }

    /// End of the entries of each row, (N,).
    pub fn ends(&self) -> &View<'a> {
        &self.ends
    }

    /// Offsets (N + 1,), int32, that a call widens, where they came so.
    pub fn narrow(&self) -> Option<&View<'a>> {
        self.narrow.as_ref()
    }

    /// Column of each entry, (capacity,).
    pub fn others(&self) -> &View<'a> {
        &self.others
    }

    /// Image of each entry, (capacity, 3), where they are not packed.
    pub fn triples(&self) -> Option<&View<'a>> {
        self.triples.as_ref()
    }

    /// Image of each entry, packed, (capacity,).
    pub fn packed(&self) -> Option<&View<'a>> {
        self.packed.as_ref()
    }

    /// The pairs of each column, where it was given.
    pub fn transpose(&self) -> Option<&DeviceTranspose<'a>> {
        self.transpose.as_ref()
    }
}

/// For each row the element it refers to: [`crate::map::Map`] on a device.
#[derive(Clone, Debug)]
pub struct DeviceMap<'a> {
    of: View<'a>,
    into: usize,
    checked: bool,
}

impl<'a> DeviceMap<'a> {
    /// From the element of each row, (N,), int32, below `into`.
    ///
    /// # Errors
    /// `map`, where its dtype, shape or place is another, or a size is more than an i32 counts.
    pub fn new(of: View<'a>, into: usize) -> Result<Self> {
        integers("map", &of, DType::I32, &[of.len()])?;
        addressable("map", of.len().max(into))?;
        Ok(Self { of, into, checked: false })
    }

    /// The same for which nothing is checked any more.
    ///
    /// # Safety
    /// Every element lies from 0 to below `into`.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by what is not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { checked: true, ..self }
    }

    /// Whether a call leaves out the check.
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.of.len()
    }

    /// The number of elements that rows may refer to.
    pub fn into_len(&self) -> usize {
        self.into
    }

    /// The element of each row, (N,).
    pub fn of(&self) -> &View<'a> {
        &self.of
    }
}
