//! Plans of Coulomb sums, made once for every caller: Rust, C, and each framework of Python.
//!
//! A [`Request`] says what a caller gives, and no value of it. [`compose`] makes a [`Plan`] of it: the ops whose energies add
//! up, each with a description of its inputs, in words that any caller can follow ([`Input`]). [`numbers`] chooses what the
//! request leaves open, from cells and numbers of atoms.
//!
//! ```
//! use madelung_electrostatics::plan::{Given, Plan, Request, compose};
//!
//! let given = Given { cell: true, alpha: true, cutoff: true, waves: true, list: true, ..Given::default() };
//! let Plan::Sum(sum) = compose(&Request { given, ..Request::default() })? else { unreachable!() };
//! assert_eq!(sum.terms[0].op, "ewald_summation");
//! assert!(!sum.chooses);
//! # Ok::<(), madelung_core::Error>(())
//! ```

mod boundaries;
mod compose;
mod crowding;
mod known;
mod law;
mod numbers;
pub(crate) mod slabs;
#[cfg(test)]
mod tests;

pub use boundaries::Boundaries;
pub(crate) use boundaries::row;
pub use compose::compose;
pub use crowding::crowding;
pub use law::Law;
pub(crate) use numbers::UNIT;
pub use numbers::{Chosen, Prescription, Systems, extents, kinds, meshes_reach, numbers};
pub use slabs::height as slab_height;

/// A row of periodic axes for each system, or one for all.
pub type Axes = Vec<[bool; 3]>;

pub use crate::gaussians::reach as gaussian_reach;
pub use crate::latent::{all_pairs, all_pairs_ptr};
pub use crate::parameters::accuracy;

/// Cutoff that no pair of a list exceeds.
pub const UNBOUNDED: f64 = 1e30;

/// A splitting parameter at which nothing is split; `narrow`: of float32, in whose range squares of wave numbers stay.
pub fn unsplit(narrow: bool) -> f64 {
    if narrow { 1e-10 } else { 1e-30 }
}

/// Interactions that a sum has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sum {
    /// All of it, the long-range part wave by wave.
    #[default]
    Waves,
    /// All of it, the long-range part on a mesh.
    Mesh,
    /// The short-range part of an Ewald sum.
    RealSpace,
    /// Its long-range part, wave by wave.
    ReciprocalSpace,
    /// Its long-range part on a mesh.
    MeshReciprocalSpace,
    /// Pairs within a cutoff, damped or not.
    Pairs,
    /// Pairs within a cutoff, with shifted forces.
    Shifted,
    /// Gaussian charges without a background: waves of crystals, all pairs of open systems.
    Latent {
        /// Whether with the energy of each charge with itself.
        with_selves: bool,
    },
}

impl Sum {
    /// Whether it is that of all interactions of a system, by its boundaries.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Waves | Self::Mesh)
    }

    /// Whether it has no terms but those of pairs within a cutoff.
    pub fn is_of_pairs(self) -> bool {
        matches!(self, Self::RealSpace | Self::Pairs)
    }
}

/// How pairs of lattices are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Over a neighbour list.
    List,
    /// All pairs and waves in one pass.
    Direct,
}

/// The cheapest sum of a system all of whose parameters are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Over a neighbour list.
    List,
    /// Directly, with the nearest image of each pair.
    Nearest,
    /// Directly, with a second image along some axis.
    More,
}

/// Arguments that a caller gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Given {
    /// A splitting parameter.
    pub alpha: bool,
    /// A radius of the real-space sum, or that of the neighbour list.
    pub cutoff: bool,
    /// Whether each system has a radius of its own.
    pub cutoffs: bool,
    /// A radius of the reciprocal sum.
    pub k_cutoff: bool,
    /// Miller indices.
    pub waves: bool,
    /// Nodes of a mesh.
    pub mesh: bool,
    /// A neighbour list.
    pub list: bool,
    /// Excluded pairs.
    pub exclusions: bool,
    /// Widths of Gaussian charges.
    pub widths: bool,
    /// An accuracy, which given parameters have to meet.
    pub accuracy: bool,
    /// A cell.
    pub cell: bool,
    /// Permission to have slabs: `slab_correction`.
    pub slabs: bool,
    /// The height of the cell of slabs.
    pub slab_height: bool,
    /// Whether arrays are of float32.
    pub narrow: bool,
    /// Whether values of arrays can be read.
    pub readable: bool,
    /// Whether the periodic axes are an array without values, as in a graph: [`Request::pbc`] is then None.
    pub unread_axes: bool,
}

/// Sum that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Its interactions.
    pub sum: Sum,
    /// How pairs are summed; None: whichever way costs less.
    pub method: Option<Method>,
    /// The pair law.
    pub law: Law,
    /// The periodic axes; None: all of a cell, or none without one.
    pub pbc: Option<Axes>,
    /// Arguments that the caller gives.
    pub given: Given,
    /// The cheapest sum of each system, where [`Plan::Ask`] has asked for it.
    pub kinds: Option<Vec<Kind>>,
}

impl Default for Request {
    fn default() -> Self {
        let (sum, method, pbc, kinds) = (Sum::default(), None, None, None);
        Self { sum, method, law: Law::default(), pbc, given: Given::default(), kinds }
    }
}

/// A parameter of each system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Splitting parameter.
    Alpha,
    /// Radius of the real-space sum.
    Cutoff,
    /// Radius of the reciprocal sum.
    KCutoff,
}

/// Kinds of systems by the number of their periodic axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// None.
    Open,
    /// One.
    Wire,
    /// Two.
    Slab,
    /// Three.
    Crystal,
    /// Two or three.
    Lattice,
    /// One or none.
    NoLattice,
}

impl Edge {
    /// Whether systems with so many periodic axes are of this kind.
    pub fn has(self, axes: usize) -> bool {
        match self {
            Self::Open => axes == 0,
            Self::Wire => axes == 1,
            Self::Slab => axes == 2,
            Self::Crystal => axes == 3,
            Self::Lattice => axes > 1,
            Self::NoLattice => axes < 2,
        }
    }
}

/// Numbers of each system, or of all: one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows<T> {
    /// Rows that follow from the periodic axes of the request.
    Known(Vec<T>),
    /// 1 for systems of a kind and 0 for others, to be computed from the array of periodic axes: one number of a system, or
    /// along each axis 1 for the periodic one of a wire, and for the open one of a slab.
    Of(Edge),
}

impl<T> Rows<T> {
    /// The rows of a request that says the periodic axes.
    pub(crate) fn known(&self) -> &[T] {
        match self {
            Self::Known(rows) => rows,
            Self::Of(_) => unreachable!("callers of Rust have periodic axes"),
        }
    }
}

/// Inputs of an op.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A parameter that the caller gives.
    Argument(Parameter),
    /// A parameter that [`numbers`] chooses.
    Chosen(Parameter),
    /// An input whose rows of some systems hold a number.
    Masked(f64, Rows<bool>, Box<Input>),
    /// A number for every system.
    Number(f64),
    /// A parameter of the caller's pair law.
    OfLaw(String),
    /// A scalar.
    Scalar(f64),
    /// The cutoff that the caller gives, as a scalar.
    Cutoff,
    /// A neighbour list: given, or found by a search.
    Pairs(Pairs),
    /// All pairs of atoms of some systems, each from both sides.
    AllPairs(Rows<bool>),
    /// Excluded pairs and their factors.
    Excluded,
    /// Waves that the caller gives.
    Waves,
    /// Waves within a radius.
    WavesWithin(Parameter, bool),
    /// Images of a direct sum, and lines of its waves; whether of waves that the caller gives.
    Lines(bool),
    /// Nodes and orders of meshes; whether those that the caller gives.
    Mesh(bool),
    /// Integers of each system, or of all: one row.
    Integers(Rows<Vec<i32>>),
    /// Widths of Gaussian charges.
    Widths,
    /// Distance beyond which Gaussian charges of these widths are points.
    ReachOfWidths,
    /// A number of each system, or of all.
    Numbers(Rows<f64>),
}

/// A neighbour list.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// How far a search goes; None: the list is given.
    pub search: Option<Box<Input>>,
    /// Whether without excluded pairs.
    pub without: bool,
}

/// The atoms of a term.
#[derive(Clone, Debug, PartialEq)]
pub struct Atoms {
    /// Whether in the cells of the sum over the lattice, [`Cells`], in place of those that the caller gives.
    pub lattice: bool,
    /// Factors of the charges of each system, or of all; None: 1.
    pub charged: Option<Rows<f64>>,
}

/// One op of a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Its name, without the ending of energies of systems.
    pub op: String,
    /// Its atoms.
    pub atoms: Atoms,
    /// Its real inputs with an element per system.
    pub reals: Vec<Input>,
    /// Its inputs behind the prefactor.
    pub rest: Vec<Input>,
}

/// The height of the cells of slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Height {
    /// The height of the given cells.
    Cell,
    /// The argument `slab_height`.
    Argument,
    /// One that [`numbers`] chooses.
    Chosen,
}

/// The cells of a sum over the lattice.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Systems that are no lattice: their charges count in other terms, and their cell is the unit one.
    pub no_lattice: Rows<bool>,
    /// 1 along the open axis of slabs, whose vector is replaced by the normal times a height; None: no system's is.
    pub upright: Option<Rows<Vec<i32>>>,
    /// Source of the height.
    pub height: Height,
}

/// Terms to be added, in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// The terms.
    pub terms: Vec<Term>,
    /// The cells of those over the lattice.
    pub cells: Cells,
    /// Whether [`numbers`] has to choose.
    pub chooses: bool,
    /// Whether it does so from positions, too: [`Systems::extents`].
    pub by_extents: bool,
    /// Whether the sum over the lattice is a direct one.
    pub is_direct: bool,
    /// Whether there may be slabs that are not permitted: their results are to be NaN.
    pub refuses_slabs: bool,
}

/// Numbers of the inputs of a term among those of all terms: real ones, and those behind the prefactor.
pub type Numbered = (Vec<usize>, Vec<usize>);

impl Terms {
    /// The inputs of all terms, each once, and those of each term by their numbers: lists that terms share are searched for
    /// once.
    pub fn inputs(&self) -> (Vec<&Input>, Vec<Numbered>) {
        fn number<'a>(inputs: &mut Vec<&'a Input>, of: &'a [Input]) -> Vec<usize> {
            let at = |x| {
                let known = inputs.iter().position(|other| *other == x);
                known.unwrap_or_else(|| {
                    inputs.push(x);
                    inputs.len() - 1
                })
            };
            of.iter().map(at).collect()
        }
        let mut inputs = vec![];
        let mut numbered = vec![];
        for Term { reals, rest, .. } in &self.terms {
            numbered.push((number(&mut inputs, reals), number(&mut inputs, rest)));
        }
        (inputs, numbered)
    }
}

/// Ops that a call adds up, and their inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The caller has to say [`Request::kinds`].
    Ask,
    /// A sum of terms.
    Sum(Terms),
    /// Sums of some systems each: the method, and the systems.
    Parts(Vec<(Method, Vec<usize>)>),
}
