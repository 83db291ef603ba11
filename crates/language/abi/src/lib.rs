//! The binary interface of kernels: the words that the compiler of the kernel language and its generated code share.

#![forbid(unsafe_code)]

mod reason;

pub use reason::Reason;

/// Pointers of a launch: one for each slot, and behind them that of its records, or those of its cluster form.
pub const MAX_POINTERS: usize = 64;

/// Array of the first phase of a cluster form, whose pointers stand behind those of the part's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterArray {
    /// Components of the atoms, in the type of the launch's arrays: of each cluster each component for all its lanes.
    Packed,
    /// Sums of the columns, of the same type and order.
    Columns,
    /// Sums of the rows, f64, of the same order: for f64 the array of the columns.
    Sums,
    /// Runs: one atom against clusters at one image.
    Runs,
    /// Entries of all runs: clusters that hold neighbours.
    Entries,
}

impl ClusterArray {
    /// The number of these arrays.
    pub const COUNT: usize = Self::Entries as usize + 1;

    /// The place of the pointer in the launch of a part with so many slots.
    pub const fn behind(self, slots: usize) -> usize {
        slots + self as usize
    }
}

/// One component of an array over atoms; or the elements of a map of atoms, as 32-bit integers side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Packed {
    /// The parameter.
    pub param: usize,
    /// The role of the array: its values, or a derivative.
    pub role: Role,
    /// The component.
    pub component: usize,
}

/// Field of a run, one atom against clusters at one image, by its place among the 32-bit integers of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunField {
    /// The atom.
    Row = 0,
    /// The cluster of the atom.
    Cluster = 1,
    /// The lane of the atom in its cluster.
    Lane = 2,
    /// The image: three integers.
    Shift = 3,
    /// The run's first entry.
    Start = 6,
    /// The one after its last.
    End = 7,
}

impl RunField {
    /// The number of integers of a run.
    pub const COUNT: usize = 8;
}

/// The largest order of a cardinal B-spline.
pub const MAX_SPLINE_ORDER: usize = 10;

/// Numbers ahead of the systems in [`SlotArray::MeshShape`].
pub const MESH_HEADER: usize = 4;

/// Numbers of each system there.
pub const MESH_RECORD: usize = 14;

/// Set of bits that names one array of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Role(pub u8);

impl Role {
    /// The value.
    pub const VALUE: Self = Self(0);
    /// Derivative along the first direction.
    pub const FIRST: Self = Self(1);
    /// Derivative along the second direction.
    pub const SECOND: Self = Self(2);
    /// Cotangent of an output, which is read, or gradient by an input, which is added to.
    pub const COTANGENT: Self = Self(4);
    /// Array of the form's own, with an element for each row of the kernel: its first launch writes it, the later ones
    /// read it. The parameter is its number.
    pub const HIDDEN: Self = Self(8);

    /// A hidden array with a value for each channel of a dimension.
    #[must_use]
    pub const fn hidden_channels(width: usize) -> Self {
        Self(Self::HIDDEN.0 | (width as u8 + 1) << 4)
    }

    /// The dimension of a hidden array's channels, if it has them.
    pub fn width(self) -> Option<usize> {
        (self.0 >> 4).checked_sub(1).map(usize::from)
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any bit of `other` is set.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Kind of a parameter. Dimensions are positions in the kernel's list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Differentiable array.
    Real {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// The numbers of an element: 1, those of a vector, or of a square matrix.
        components: usize,
        /// Zero in every call: only its derivatives matter (the strain).
        zero: bool,
        /// Each element has a value for each channel of this dimension, side by side.
        width: Option<usize>,
    },
    /// Real array that the kernel writes.
    Output {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// The numbers of an element: 1, those of a vector, or of a square matrix.
        components: usize,
        /// Each element has a value for each channel of this dimension, side by side.
        width: Option<usize>,
    },
    /// Integer array.
    Ints {
        /// Elements per row of this dimension.
        dim: usize,
        /// 1 or 3.
        components: usize,
    },
    /// Integer array of a kernel that is not differentiated; [`ParamKind::Ints`] are the others'.
    Integers {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// 1 or 3.
        components: usize,
        /// Elements of 64 bits, not 32.
        wide: bool,
        /// The kernel writes it.
        output: bool,
    },
    /// Real attribute.
    Scalar,
    /// Integer attribute.
    IntScalar,
    /// System of each row, and rows of each system.
    Batch {
        /// The rows.
        rows: usize,
        /// The systems.
        systems: usize,
    },
    /// Pair list, or grid whose [`Query`] finds one.
    Pairs {
        /// Its rows.
        rows: usize,
        /// The partners of the rows.
        columns: usize,
        /// The dimension of arrays that have an element per pair.
        entries: Option<usize>,
    },
    /// Element of another dimension for each row, in any order.
    Map {
        /// The rows.
        rows: usize,
        /// The other dimension.
        into: usize,
    },
    /// Periodic mesh for each system, and the order of its splines.
    Mesh {
        /// The systems.
        systems: usize,
        /// Their nodes.
        nodes: usize,
        /// The waves of their half spectra.
        waves: Option<usize>,
    },
}

/// Kind of a structured argument: integers that say how the rows of arrays belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StructureKind {
    /// Batch, over rows and systems.
    Batch,
    /// Pair list, over rows, columns and entries.
    Pairs,
    /// Map, of rows into the elements of another dimension.
    Map,
    /// Meshes, over systems, nodes and waves.
    Mesh,
}

impl ParamKind {
    /// The dimension of an array's rows; none for an array of one element.
    pub fn dim(self) -> Option<usize> {
        match self {
            Self::Real { dim, .. } | Self::Output { dim, .. } | Self::Integers { dim, .. } => dim,
            Self::Ints { dim, .. } => Some(dim),
            _ => None,
        }
    }

    /// The dimension of an array's channels.
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Real { width, .. } | Self::Output { width, .. } => width,
            _ => None,
        }
    }

    /// Whether kernels write it.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Output { .. } | Self::Integers { output: true, .. })
    }

    /// The dimension whose rows lie system by system: that of a batch, or the waves of meshes.
    pub fn rows_in_systems(self) -> Option<usize> {
        match self {
            Self::Batch { rows, .. } => Some(rows),
            Self::Mesh { waves, .. } => waves,
            _ => None,
        }
    }

    /// Kind and dimensions of a structured argument, the dimensions in the order that [`StructureKind`] names them.
    pub fn structure(self) -> Option<(StructureKind, [Option<usize>; 3])> {
        Some(match self {
            Self::Batch { rows, systems } => (StructureKind::Batch, [Some(rows), Some(systems), None]),
            Self::Pairs { rows, columns, entries } => {
                (StructureKind::Pairs, [Some(rows), Some(columns), entries])
            }
            Self::Map { rows, into } => (StructureKind::Map, [Some(rows), Some(into), None]),
            Self::Mesh { systems, nodes, waves } => {
                (StructureKind::Mesh, [Some(systems), Some(nodes), waves])
            }
            _ => return None,
        })
    }
}

/// Radius query that comes before the kernel runs, around each row's own position. The launch is given the pairs that
/// it finds, as the list of the grid's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The parameter that is the grid, a [`ParamKind::Pairs`].
    pub grid: usize,
    /// The parameter with the positions, a vector for each row.
    pub positions: usize,
    /// The parameter with the radius, an attribute.
    pub radius: usize,
}

/// Member of the closed family of an op's derivatives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// The outputs.
    Value,
    /// The outputs and their derivative along one direction.
    Tangent,
    /// The outputs, their derivatives along two directions, and the mixed second derivative.
    SecondTangent,
    /// The outputs, and the gradient of ⟨cotangent, outputs⟩ by every input.
    Gradient,
    /// Outputs and gradient with their derivatives along a direction: Hessian-vector products.
    GradientTangent,
}

/// Pair lists that a form serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// Any list: gradients of partners are gathered through the list's transpose.
    Any,
    /// Full lists only: gradients of partners are gathered by symmetry.
    Full,
    /// Any list, without its transpose: gradients are added to the partners' elements.
    Scatter,
}

/// Array of a parameter that a launch has a pointer to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum SlotArray {
    /// Real or integer array, by role.
    Values(Role),
    /// Batch: system of each row.
    SystemOf,
    /// Batch: first row of each system, and the number of rows.
    Members,
    /// Pair list: first entry of each row (64-bit).
    Start,
    /// Pair list: end of each row's entries (64-bit).
    End,
    /// Pair list: column of each entry.
    Column,
    /// Pair list: image shift of each entry, three integers; null where shifts are packed.
    Shift,
    /// Pair list: image shift of each entry, packed; null where shifts are triples.
    PackedShift,
    /// Transpose of a pair list: first pair of each column, and the number of pairs (64-bit).
    ColumnStart,
    /// Transpose of a pair list: row of each pair.
    PairRow,
    /// Transpose of a pair list: entry of each pair.
    PairEntry,
    /// Map: element of each row.
    MapOf,
    /// Mesh: the number of systems and the range of planes (numbered through all systems, first axis) that a call adds to;
    /// from [`MESH_HEADER`] on [`MESH_RECORD`] numbers for each system: its three sizes, the order of its splines, its first
    /// node, wave (below zero where waves are a part of the half spectrum) and plane, where its moduli begin, and the window's
    /// three origins and extents. With a wave: the system of
    /// that wave.
    MeshShape,
    /// Mesh: moduli of waves (f64), for k₁, then for k₂ and for k₃ of the half spectrum, of each size and order.
    MeshModuli,
    /// Scratch memory for sums over the channels of this dimension: once per thread that runs rows one after the other
    /// (CPU code, in the launch's type), or once per row (CUDA text, in `ACC`). The number of the sum stands in place
    /// of the parameter.
    Scratch(usize),
}

impl SlotArray {
    /// Whether it is one of the integers of a structured argument.
    pub fn is_of_structure(self) -> bool {
        !matches!(self, Self::Values(_) | Self::Scratch(_))
    }

    /// Whether it holds 64-bit integers.
    pub fn is_long(self) -> bool {
        matches!(self, Self::Start | Self::End | Self::ColumnStart)
    }
}

/// Pointer of a launch: one array of one parameter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Slot {
    /// The parameter.
    pub param: usize,
    /// The array.
    pub array: SlotArray,
}

impl Slot {
    /// Slot of a parameter's array.
    pub const fn new(param: usize, array: SlotArray) -> Self {
        Self { param, array }
    }
}

/// Sum over rows that ends in an element they share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reduction {
    /// The parameter.
    pub param: usize,
    /// Its array.
    pub role: Role,
    /// The component.
    pub component: usize,
    /// The batch whose system gets the sum; `None`: the array's one element.
    pub batch: Option<usize>,
}

/// Work that the threads of a row divide in CUDA text, where `LANES` of them share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Division {
    /// None: a row has one thread, whatever `LANES` is.
    #[default]
    None,
    /// The iterations of loops over pairs, members of systems or integers: as many lanes pay as a row has of them.
    Loops,
    /// The nodes along the third axis of a mesh around a point: as many lanes pay as the splines have nodes.
    Nodes,
    /// The channels of this dimension, side by side in memory: as many lanes pay as there are channels.
    Channels(usize),
}
