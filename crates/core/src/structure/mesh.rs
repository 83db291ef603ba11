//! Periodic meshes, one for each system of a batch, all of the same sizes.

use super::Structure;
use super::sealed::Sealed;
use crate::array::{Place, View};
use crate::backend::half_spectrum;
use crate::runtime::{SlotArray, StructureKind};
use crate::{Error, Result};
use std::sync::Arc;

pub use crate::runtime::MAX_SPLINE_ORDER;

/// A mesh of K₁ × K₂ × K₃ nodes along the cell vectors of each system, and the order p of the cardinal B-splines that
/// join atoms to it. Nodes are numbered system by system, the third index fastest; waves of the half spectrum
/// (0 ≤ k₃ ≤ K₃/2) likewise.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// K₁, K₂, K₃ and p, and all planes, as kernels read them.
    shape: [i32; 6],
    systems: usize,
    /// Moduli of waves, axis after axis.
    moduli: Arc<[f64]>,
    /// First wave of each system, and the number of waves.
    first_waves: Arc<[i32]>,
}

/// Moduli û²(k) / [Σₘ û²(k + mK)]² of the waves k of one axis with `size` nodes, where û is the Fourier transform of
/// the spline of order p, sinc(k/K)ᵖ: the factors that make the energy of a mesh, over phases of points, closest to
/// that of the points themselves (the energy-optimal influence function: Ballenegger, Cerdà and Holm, J. Chem. Theory
/// Comput. 8, 936 (2012)). The sum over aliases is the Fourier sum of the spline of order 2p at whole numbers.
fn moduli(size: usize, order: usize, waves: usize) -> impl Iterator<Item = f64> {
    let spline = central_spline(2 * order);
    (0..waves).map(move |k| {
        let k = if 2 * k > size { size - k } else { k };
        let half = std::f64::consts::PI * k as f64 / size as f64;
        let sinc = if k == 0 { 1.0 } else { half.sin() / half };
        let terms = spline.iter().enumerate().skip(1).map(|(j, m)| 2.0 * m * (2.0 * half * j as f64).cos());
        let aliases = spline[0] + terms.sum::<f64>();
        sinc.powi(2 * order as i32) / (aliases * aliases)
    })
}

/// The cardinal B-spline M_n of even order at n/2, n/2 + 1, …, n − 1: around its maximum it is even.
fn central_spline(n: usize) -> Vec<f64> {
    // At whole numbers, (n − 1) M_n(j) = j M_{n−1}(j) + (n − j) M_{n−1}(j − 1) (Essmann et al., eq. 4.1).
    let mut m = vec![0.0; n + 1];
    m[1] = 1.0;
    for order in 3..=n {
        for j in (1..order).rev() {
            m[j] = (j as f64 * m[j] + (order - j) as f64 * m[j - 1]) / (order - 1) as f64;
        }
    }
    m[n / 2..n].to_vec()
}

impl Mesh {
    /// Meshes for `systems` systems.
    ///
    /// # Errors
    /// `spline_order`, where it is not 2 to 10; `mesh`, where a size is below the order (a spline would meet itself) or
    /// there are more nodes than an i32 can number.
    pub fn new(mesh: [usize; 3], spline_order: usize, systems: usize) -> Result<Self> {
        if !(2..=MAX_SPLINE_ORDER).contains(&spline_order) {
            let expected = format!("2 to {MAX_SPLINE_ORDER}");
            return Err(Error::argument("spline_order", expected, spline_order.to_string()));
        }
        if mesh.iter().any(|k| *k < spline_order) {
            let expected = format!("three sizes ≥ the spline order, {spline_order}");
            return Err(Error::argument("mesh", expected, format!("{mesh:?}")));
        }
        // With the order at least 2, there are no more waves than nodes.
        let nodes = mesh.iter().try_fold(systems.max(1), |n, k| n.checked_mul(*k));
        if nodes.and_then(|n| i32::try_from(n).ok()).is_none() {
            let expected = format!("at most {} nodes in all", i32::MAX);
            return Err(Error::argument("mesh", expected, format!("{mesh:?} for {systems} systems")));
        }
        let shape = [mesh[0], mesh[1], mesh[2], spline_order].map(i32::try_from);
        let [Ok(k1), Ok(k2), Ok(k3), Ok(p)] = shape else {
            return Err(Error::argument(
                "mesh",
                format!("sizes of at most {}", i32::MAX),
                format!("{mesh:?}"),
            ));
        };
        let along = [mesh[0], mesh[1], mesh[2] / 2 + 1];
        let waves: usize = along.iter().product();
        let axes = mesh.into_iter().zip(along);
        Ok(Self {
            shape: [k1, k2, k3, p, 0, i32::MAX],
            systems,
            moduli: axes.flat_map(|(size, waves)| moduli(size, spline_order, waves)).collect(),
            first_waves: (0..=systems).map(|b| (b * waves) as i32).collect(),
        })
    }

    /// K₁, K₂, K₃.
    pub fn dimensions(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.shape[axis] as usize)
    }

    /// p: a spline covers p nodes of each axis.
    pub fn spline_order(&self) -> usize {
        self.shape[3] as usize
    }

    /// K₁, K₂, K₃ and p, as kernels read them, and the range of planes that a launch adds to: all.
    pub fn shape(&self) -> &[i32; 6] {
        &self.shape
    }

    /// B.
    pub fn systems(&self) -> usize {
        self.systems
    }

    /// The waves of a system.
    pub fn waves_of(&self, system: usize) -> std::ops::Range<usize> {
        self.first_waves[system] as usize..self.first_waves[system + 1] as usize
    }

    /// B · K₁ · K₂ · K₃
    pub fn nodes(&self) -> usize {
        self.dimensions().iter().fold(self.systems, |n, k| n * k)
    }

    /// B · K₁ · K₂ · (K₃/2 + 1)
    pub fn waves(&self) -> usize {
        self.systems * half_spectrum(self.dimensions()).unwrap_or(0)
    }
}

impl Sealed for Mesh {}

impl Structure for Mesh {
    fn kind(&self) -> StructureKind {
        StructureKind::Mesh
    }

    fn place(&self) -> Option<Place> {
        None
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [self.systems, self.nodes(), self.waves()].map(Some)
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::MeshShape => Some(self.shape[..].into()),
            SlotArray::MeshModuli => Some(self.moduli[..].into()),
            SlotArray::Members => Some(self.first_waves[..].into()),
            _ => None,
        })
    }

    fn as_mesh(&self) -> Option<&Mesh> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let mesh = Mesh::new([4, 5, 6], 4, 3).unwrap();
        assert_eq!((mesh.nodes(), mesh.waves()), (360, 240));
        assert_eq!(Mesh::new([4, 4, 4], 4, 0).unwrap().nodes(), 0);
        for (sizes, order, systems, name) in [
            ([4, 4, 3], 4, 1, "`mesh`"),
            ([0, 4, 4], 4, 1, "`mesh`"),
            ([1 << 11; 3], 4, 1, "`mesh`"),
            ([usize::MAX; 3], 4, 1, "`mesh`"),
            ([4, 4, 4], 1, 1, "`spline_order`"),
            ([20, 20, 20], 11, 1, "`spline_order`"),
        ] {
            let error = Mesh::new(sizes, order, systems).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
