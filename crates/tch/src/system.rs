//! Charges as tensors.

use crate::memory::Dense;
use madelung::Result;
use madelung::batch::Batch;
use std::sync::Arc;
use tch::Tensor;

/// Point charges: one system, or a batch of them, each a crystal, a slab, a wire or a molecule. Energies have
/// gradients by each of its tensors.
#[derive(Debug)]
pub struct System<'t> {
    pub(crate) positions: &'t Tensor,
    pub(crate) charges: &'t Tensor,
    pub(crate) cell: &'t Tensor,
    pub(crate) strain: Option<&'t Tensor>,
    pub(crate) pbc: Vec<[bool; 3]>,
    pub(crate) batch: Option<Arc<Batch<'static>>>,
    pub(crate) exclusions: Option<(Vec<[i32; 2]>, &'t Tensor)>,
    pub(crate) widths: Option<&'t Tensor>,
}

impl<'t> System<'t> {
    /// A crystal:
    /// - `positions` (N, 3) in L, float64 or float32
    /// - `charges` (N,) in e
    /// - `cell` (3, 3), for all systems of a batch, or (B, 3, 3): rows are lattice vectors, of either handedness
    pub fn new(positions: &'t Tensor, charges: &'t Tensor, cell: &'t Tensor) -> Self {
        let (strain, batch, exclusions, widths) = (None, None, None, None);
        Self { positions, charges, cell, strain, pbc: vec![[true; 3]], batch, exclusions, widths }
    }

    /// The systems of a batch.
    pub fn with_batch(mut self, batch: Batch<'static>) -> Self {
        self.batch = Some(Arc::new(batch));
        self
    }

    /// Periodic axes, one row for all systems or one for each: three make a crystal; two a slab, which gets the
    /// correction for slabs; one a wire, and none an open system, which are summed over all of their pairs.
    pub fn with_boundaries(mut self, pbc: &[[bool; 3]]) -> Self {
        self.pbc = pbc.to_vec();
        self
    }

    /// A strain ε (B, 3, 3) of zeros: the gradient by it is −virial.
    pub fn with_strain(mut self, strain: &'t Tensor) -> Self {
        self.strain = Some(strain);
        self
    }

    /// The system without pairs of atoms: the energy of pair p, in its nearest image, is multiplied by
    /// `factors`\[p\].
    pub fn excluding(mut self, pairs: &[[i32; 2]], factors: &'t Tensor) -> Self {
        self.exclusions = Some((pairs.to_vec(), factors));
        self
    }

    /// The system with Gaussian charges of widths σ (N,) in L, in place of points.
    pub fn with_widths(mut self, widths: &'t Tensor) -> Self {
        self.widths = Some(widths);
        self
    }

    /// Its tensors and its batch, checked one by one.
    pub(crate) fn read(&self) -> Result<Read> {
        let positions = Dense::new("positions", self.positions)?;
        let rows = positions.view()?.shape().first().copied().unwrap_or(0);
        let batch = match &self.batch {
            Some(batch) => batch.clone(),
            None => Arc::new(Batch::single(rows)?),
        };
        Ok(Read {
            positions,
            charges: Dense::new("charges", self.charges)?,
            cell: Dense::new("cell", self.cell)?,
            widths: self.widths.map(|widths| Dense::new("widths", widths)).transpose()?,
            factors: self
                .exclusions
                .as_ref()
                .map(|(_, factors)| Dense::new("exclusions", factors))
                .transpose()?,
            batch,
        })
    }
}

/// Values of a system.
pub(crate) struct Read {
    positions: Dense,
    charges: Dense,
    cell: Dense,
    widths: Option<Dense>,
    factors: Option<Dense>,
    pub(crate) batch: Arc<Batch<'static>>,
}

impl Read {
    /// The system of the facade, checked.
    pub(crate) fn system(&self, of: &System<'_>) -> Result<madelung::System<'_>> {
        let batch = Batch::from_ptr(self.batch.ptr())?;
        let (positions, charges) = (self.positions.view()?, self.charges.view()?);
        let cell = self.cell.view()?;
        let mut system = madelung::System::with_boundaries(positions, charges, cell, &of.pbc, batch)?;
        if let (Some((pairs, _)), Some(factors)) = (&of.exclusions, &self.factors) {
            system = system.excluding(pairs, &factors.view()?.to_f64()?)?;
        }
        match &self.widths {
            Some(widths) => system.with_widths(widths.view()?),
            None => Ok(system),
        }
    }
}
