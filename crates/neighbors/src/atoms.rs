//! The arguments that searches have in common.

use crate::lattice::Precision;
use madelung_core::array::{Data, Numbers, View};
use madelung_core::op::{Arg, OpBuilder};
use madelung_core::structure::{Batch, Structure};
use madelung_core::{Error, Result};

/// The periodic axes.
#[derive(Clone, Debug)]
pub enum Periodic<'a> {
    /// Axes that all systems share.
    All([bool; 3]),
    /// The axes of each cell whose vectors are not zero.
    OfCells,
    /// The axes of each system, int32 (B, 3) on the device, or (1, 3) for all: 0 for open axes.
    Each(View<'a>),
}

/// Points of the systems of a batch, in their cells.
#[derive(Debug)]
pub(crate) struct Atoms<'a> {
    pub(crate) positions: &'a View<'a>,
    pub(crate) cell: Option<&'a View<'a>>,
    pub(crate) pbc: Periodic<'a>,
    pub(crate) batch: &'a dyn Structure,
    pub(crate) cutoff: f64,
}

/// Positions, cells and periodic axes in the memory of the host.
pub(crate) struct OnHost<'a> {
    pub(crate) positions: Numbers<'a, f64>,
    pub(crate) cells: Option<Vec<[[f64; 3]; 3]>>,
    pub(crate) axes: Vec<[bool; 3]>,
    pub(crate) batch: &'a Batch<'a>,
}

impl<'a> Atoms<'a> {
    /// Atoms with a name, whose periodic axes are rows of integers, or without a row the bits of `axes`; the fourth bit
    /// says that vectors of zero are open axes. Without a cutoff.
    pub(crate) fn new(
        (name, positions): (&str, &'a View<'a>),
        cell: &'a View<'a>,
        pbc: &'a View<'a>,
        batch: &'a dyn Structure,
        axes: i64,
    ) -> Result<Self> {
        for (name, view, inner) in [(name, positions, &[3][..]), ("cell", cell, &[3, 3]), ("pbc", pbc, &[3])]
        {
            if view.shape().get(1..) != Some(inner) {
                let got = format!("{:?}", view.shape());
                return Err(Error::argument(name, format!("rows of shape {inner:?}"), got));
            }
        }
        let cell = (cell.shape()[0] > 0).then_some(cell);
        // Without a system there is no cell.
        let is_open = cell.is_none() && batch.sizes()[1] == Some(0);
        let pbc = match pbc.shape()[0] {
            0 if cell.is_some() && axes >> 3 & 1 != 0 => Periodic::OfCells,
            rows if rows == 0 || is_open => {
                Periodic::All(std::array::from_fn(|k| !is_open && axes >> k & 1 != 0))
            }
            _ => Periodic::Each(pbc.clone()),
        };
        Ok(Self { positions, cell, pbc, batch, cutoff: 0.0 })
    }

    /// The precision of the positions.
    pub(crate) fn precision(&self) -> Precision {
        Precision::of(self.positions.dtype())
    }

    pub(crate) fn batch_on_host(&self) -> Result<&'a Batch<'a>> {
        self.batch.as_batch().ok_or_else(|| self.positions.place().elsewhere("positions"))
    }

    pub(crate) fn on_host(&self) -> Result<OnHost<'a>> {
        let batch = self.batch_on_host()?;
        let positions = match self.positions.data() {
            Data::F64(elements) => elements.into(),
            _ if self.positions.dtype().is_real() => self.positions.to_f64()?.into(),
            _ => {
                let got = self.positions.dtype().to_string();
                return Err(Error::argument("positions", "real numbers", got));
            }
        };
        let (cells, axes) = self.lattices()?;
        Ok(OnHost { positions, cells, axes, batch })
    }

    /// Cells and periodic axes.
    #[expect(clippy::type_complexity, reason = "as searches take them")]
    pub(crate) fn lattices(&self) -> Result<(Option<Vec<[[f64; 3]; 3]>>, Vec<[bool; 3]>)> {
        let cells = self.cell.map(View::to_f64).transpose()?;
        let axes = match &self.pbc {
            Periodic::All(axes) => vec![*axes],
            Periodic::OfCells => {
                let rows = cells.as_deref().unwrap_or_default().as_chunks::<3>().0.as_chunks::<3>().0;
                rows.iter().map(|rows| rows.map(|row| row != [0.0; 3])).collect()
            }
            Periodic::Each(rows) => rows
                .to_i32("pbc")?
                .as_chunks()
                .0
                .iter()
                .map(|row: &[i32; 3]| row.map(|axis| axis != 0))
                .collect(),
        };
        Ok((cells.map(|cells| cells.as_chunks().0.as_chunks().0.to_vec()), axes))
    }
}

/// The arguments themselves, in the declaration of a search.
pub(crate) fn atoms(op: OpBuilder) -> OpBuilder {
    op.real("positions", &["Atom", "3"])
        .real("cell", &["Cell", "3", "3"])
        .ints("pbc", &["Axes", "3"])
        .batch("batch_idx", "Atom", "System")
        .scalar("cutoff")
        .int_scalar("axes")
}

/// The common arguments, with numbers of shapes that belong to them, and the others.
pub(crate) fn read<'a, const N: usize>(args: &'a [Arg<'a>]) -> Result<(Atoms<'a>, [i64; N])> {
    let [Arg::Array(positions), Arg::Array(cell), Arg::Array(pbc), Arg::Structure(batch), rest @ ..] = args
    else {
        return Err(wrong());
    };
    let [Arg::Real(cutoff), Arg::Int(axes), rest @ ..] = rest else { return Err(wrong()) };
    let numbers: Vec<i64> =
        rest.iter().filter_map(|arg| if let Arg::Int(number) = arg { Some(*number) } else { None }).collect();
    let atoms = Atoms::new(("positions", positions), cell, pbc, *batch, *axes)?;
    Ok((Atoms { cutoff: *cutoff, ..atoms }, numbers.try_into().map_err(|_| wrong())?))
}

/// The error of a call with the arguments of another op.
pub(crate) fn wrong() -> Error {
    Error::argument("arguments", "those of the search", "others")
}
