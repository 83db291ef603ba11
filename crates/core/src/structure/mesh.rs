//! Periodic meshes, one for each system of a batch, each of its own sizes.

use super::Structure;
use super::sealed::Sealed;
use crate::array::{Place, View};
use crate::backend::Meshes;
use crate::runtime::{MESH_HEADER, MESH_RECORD, SlotArray, StructureKind};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub use crate::runtime::MAX_SPLINE_ORDER;

/// A mesh of K₁ × K₂ × K₃ nodes along the cell vectors of each system, and the order p of the cardinal B-splines that
/// join its atoms to it. Nodes are numbered system by system, the third index fastest; waves of the half spectrum
/// (0 ≤ k₃ ≤ K₃/2) likewise.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// [`SlotArray::MeshShape`], as kernels read it.
    shapes: Arc<[i32]>,
    /// Moduli of waves, axis after axis, for each size and order once.
    moduli: Arc<[f64]>,
    /// First wave of each system, and the number of waves.
    first_waves: Arc<[i32]>,
    /// Systems of one size that follow each other.
    runs: Arc<[Meshes]>,
    nodes: usize,
    planes: usize,
    /// The highest order of splines.
    order: usize,
    part: Part,
}

/// Parts of meshes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All nodes and waves.
    Whole,
    /// The nodes of windows.
    Nodes,
    /// The waves of planes.
    Waves,
}

/// Part of a mesh: the nodes with indices from `origin` on, `extent` of them along each axis and around the end of the
/// cell, as a process of a domain decomposition has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Indices of the first node.
    pub origin: [usize; 3],
    /// Numbers of nodes along the axes.
    pub extent: [usize; 3],
}

impl Window {
    /// All nodes of a mesh.
    pub fn whole(mesh: [usize; 3]) -> Self {
        Self { origin: [0; 3], extent: mesh }
    }
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
    /// Meshes of one size for `systems` systems.
    ///
    /// # Errors
    /// Those of [`Mesh::of_systems`].
    pub fn new(mesh: [usize; 3], spline_order: usize, systems: usize) -> Result<Self> {
        let nodes = mesh.iter().try_fold(systems, |n, k| n.checked_mul(*k));
        if nodes.and_then(|n| i32::try_from(n).ok()).is_none() {
            return Err(too_many(&format!("{mesh:?} for {systems} systems")));
        }
        if systems == 0 {
            // Of no system a mesh is refused, too.
            Self::of_systems(&[(mesh, spline_order)])?;
        }
        Self::of_systems(&vec![(mesh, spline_order); systems])
    }

    /// Meshes of systems: K₁, K₂ and K₃, and p, of each.
    ///
    /// # Errors
    /// `spline_order`, where it is not 2 to 10; `mesh`, where a size is below the order (a spline would meet itself) or
    /// there are more nodes than an i32 can number.
    pub fn of_systems(systems: &[([usize; 3], usize)]) -> Result<Self> {
        let whole = systems.iter().map(|(mesh, order)| (*mesh, *order, Window::whole(*mesh)));
        Self::of_windows(&whole.collect::<Vec<_>>())
    }

    /// Windows of the meshes of systems: K₁, K₂ and K₃ of the whole mesh, p, and the window. Arrays over nodes have those of
    /// the window; nodes beyond it have no weight, so that what windows without common nodes give adds up to what the whole
    /// mesh gives. Unless all windows are whole meshes there are no waves.
    ///
    /// # Errors
    /// Those of [`Mesh::of_systems`], for the nodes of windows; `mesh`, where a window begins beyond its mesh, is larger, or
    /// smaller than the order.
    pub fn of_windows(systems: &[([usize; 3], usize, Window)]) -> Result<Self> {
        let mut shapes = vec![0; MESH_HEADER];
        [shapes[0], shapes[2]] = [systems.len() as i32, i32::MAX];
        let (mut moduli, mut known) = (vec![], BTreeMap::new());
        let (mut first_waves, mut runs) = (vec![0], Vec::<Meshes>::new());
        let (mut nodes, mut waves, mut planes) = (0, 0, 0);
        let is_whole = systems.iter().all(|(mesh, _, window)| *window == Window::whole(*mesh));
        for (system, (mesh, order, window)) in systems.iter().enumerate() {
            if !(2..=MAX_SPLINE_ORDER).contains(order) {
                let expected = format!("2 to {MAX_SPLINE_ORDER}");
                return Err(Error::argument("spline_order", expected, order.to_string()));
            }
            let named = || if systems.len() == 1 { String::new() } else { format!(" of system {system}") };
            if mesh.iter().any(|k| k < order) {
                let expected = format!("three sizes ≥ the spline order, {order}");
                return Err(Error::argument("mesh", expected, format!("{mesh:?}{}", named())));
            }
            let Window { origin, extent } = *window;
            let is_part = (0..3).all(|a| origin[a] < mesh[a] && (*order..=mesh[a]).contains(&extent[a]));
            if mesh.iter().any(|k| i32::try_from(*k).is_err()) {
                return Err(too_many(&format!("{mesh:?}{}", named())));
            }
            if !is_part {
                let expected = format!("a window of {mesh:?}, no extent below the spline order, {order}");
                let got = format!("{extent:?} nodes from {origin:?} on{}", named());
                return Err(Error::argument("mesh", expected, got));
            }
            // With the order at least 2, there are no more waves and planes than nodes.
            let more = extent.iter().try_fold(1usize, |n, k| n.checked_mul(*k));
            let sum = more.and_then(|n| n.checked_add(nodes)).filter(|n| i32::try_from(*n).is_ok());
            let Some(sum) = sum else { return Err(too_many(&format!("more, with {extent:?}{}", named()))) };
            let along = if is_whole { [mesh[0], mesh[1], mesh[2] / 2 + 1] } else { [0; 3] };
            let first_modulus = *known.entry((mesh, order)).or_insert_with(|| {
                let first = moduli.len();
                let axes = mesh.iter().zip(along);
                moduli.extend(axes.flat_map(|(size, waves)| self::moduli(*size, *order, waves)));
                first
            });
            let ([k1, k2, k3], [o1, o2, o3], [e1, e2, e3]) = (*mesh, origin, extent);
            let record: [usize; MESH_RECORD] =
                [k1, k2, k3, *order, nodes, waves, planes, first_modulus, o1, o2, o3, e1, e2, e3];
            shapes.extend(record.map(|n| n as i32));
            match runs.last_mut().filter(|run| run.sizes == *mesh) {
                Some(run) => run.systems += 1,
                None => runs.push(Meshes { sizes: *mesh, systems: 1 }),
            }
            (nodes, planes) = (sum, planes + e1);
            waves += along.iter().product::<usize>();
            first_waves.push(waves as i32);
        }
        Ok(Self {
            shapes: shapes.into(),
            moduli: moduli.into(),
            first_waves: first_waves.into(),
            runs: runs.into(),
            nodes,
            planes,
            order: systems.iter().map(|(_, order, _)| *order).max().unwrap_or(0),
            part: if is_whole { Part::Whole } else { Part::Nodes },
        })
    }

    /// The waves of one system whose first indices are those of some planes, as a process has them that shares a mesh with
    /// others: arrays over waves have these. There are no nodes.
    ///
    /// # Errors
    /// Those of [`Mesh::of_systems`]; `mesh`, where it has fewer planes.
    pub fn of_waves(mesh: [usize; 3], spline_order: usize, planes: Range<usize>) -> Result<Self> {
        let whole = Self::of_systems(&[(mesh, spline_order)])?;
        if planes.start > planes.end || planes.end > mesh[0] {
            let expected = format!("planes of the {} along its first axis", mesh[0]);
            return Err(Error::argument("mesh", expected, format!("{planes:?}")));
        }
        // No more than nodes, which an i32 can number.
        let [first, last] = [planes.start, planes.end].map(|k| (k * mesh[1] * (mesh[2] / 2 + 1)) as i32);
        let mut shapes = whole.shapes.to_vec();
        shapes[MESH_HEADER + 5] = -first;
        let first_waves = [0, last - first].into();
        Ok(Self { shapes: shapes.into(), first_waves, part: Part::Waves, ..whole })
    }

    /// K₁, K₂ and K₃ of systems that follow each other.
    pub fn runs(&self) -> &[Meshes] {
        &self.runs
    }

    /// The highest order of splines: one of p covers p nodes of each axis.
    pub fn spline_order(&self) -> usize {
        self.order
    }

    /// Meshes as kernels read them, for a call that adds to some planes of the first axis, numbered through all systems.
    pub fn with_planes(&self, planes: Range<usize>) -> Vec<i32> {
        let mut shapes = self.shapes.to_vec();
        // There are no more planes than nodes, which an i32 can number.
        [shapes[1], shapes[2]] = [planes.start, planes.end].map(|plane| plane as i32);
        shapes
    }

    /// The first node of a plane.
    pub fn first_node_of(&self, plane: usize) -> usize {
        let (records, _) = self.shapes[MESH_HEADER..].as_chunks::<MESH_RECORD>();
        let system = records.partition_point(|record| record[6] as usize <= plane).checked_sub(1);
        system.map_or(0, |system| {
            let [.., node, _, first, _, _, _, _, _, e2, e3] = records[system].map(|n| n as usize);
            node + (plane - first) * e2 * e3
        })
    }

    /// B.
    pub fn systems(&self) -> usize {
        self.first_waves.len() - 1
    }

    /// The waves of a system.
    pub fn waves_of(&self, system: usize) -> Range<usize> {
        self.first_waves[system] as usize..self.first_waves[system + 1] as usize
    }

    /// K₁ · K₂ · K₃, or the nodes of the window, of all systems together.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Planes along the first axis of all systems together.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// K₁ · K₂ · (K₃/2 + 1) of all systems together, or the waves of planes; none of windows.
    pub fn waves(&self) -> usize {
        self.first_waves[self.systems()] as usize
    }
}

fn too_many(got: &str) -> Error {
    Error::argument("mesh", format!("at most {} nodes in all", i32::MAX), got)
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
        let has = |other: Part| self.part != other;
        let nodes = has(Part::Waves).then(|| self.nodes());
        [Some(self.systems()), nodes, has(Part::Nodes).then(|| self.waves())]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::MeshShape => Some(self.shapes[..].into()),
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
    fn systems_follow_each_other() {
        let mesh = Mesh::of_systems(&[([4, 5, 6], 4), ([4, 5, 6], 3), ([3, 3, 7], 3)]).unwrap();
        assert_eq!((mesh.systems(), mesh.nodes(), mesh.waves(), mesh.planes()), (3, 303, 196, 11));
        assert_eq!([0, 1, 2].map(|b| mesh.waves_of(b)), [0..80, 80..160, 160..196]);
        assert_eq!([0, 3, 4, 8, 10, 11].map(|plane| mesh.first_node_of(plane)), [0, 90, 120, 240, 282, 303]);
        let runs: Vec<_> = mesh.runs().iter().map(|run| (run.sizes, run.systems)).collect();
        assert_eq!(runs, [([4, 5, 6], 2), ([3, 3, 7], 1)]);
        assert_eq!(mesh.spline_order(), 4);
        assert_eq!(mesh.with_planes(2..9)[..4], [3, 2, 9, 0]);
        // Of another order, moduli are others.
        assert_eq!(mesh.moduli.len(), 13 + 13 + 10);
    }

    #[test]
    fn sizes_are_checked() {
        let mesh = Mesh::new([4, 5, 6], 4, 3).unwrap();
        assert_eq!((mesh.nodes(), mesh.waves()), (360, 240));
        assert_eq!(Mesh::new([4, 4, 4], 4, 0).unwrap().nodes(), 0);
        for (sizes, order, systems, name) in [
            ([4, 4, 3], 4, 1, "`mesh`"),
            ([0, 4, 4], 4, 1, "`mesh`"),
            ([1 << 11; 3], 4, 1, "`mesh`"),
            ([1 << 10; 3], 4, 2, "`mesh`"),
            ([4; 3], 4, usize::MAX, "`mesh`"),
            ([usize::MAX; 3], 4, 1, "`mesh`"),
            ([4, 4, 4], 1, 1, "`spline_order`"),
            ([20, 20, 20], 11, 1, "`spline_order`"),
        ] {
            let error = Mesh::new(sizes, order, systems).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
