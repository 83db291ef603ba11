//! Launches: a part of a kernel with everything bound to it.

use super::status::Word;
use crate::array::{Array, DType, DataMut, Place, View};
use crate::runtime::{Kernel, LaunchAbi, ParamKind, Part, Role, SlotArray};
use crate::structure::{Batch, Mesh, PairList, Structure, noun};
use crate::{Error, Result};
use std::ops::Deref;

/// Array of a slot or of the target of a reduction.
#[derive(Debug)]
pub enum Bound<'a> {
    /// Read.
    Input(View<'a>),
    /// Written, or added to.
    Output {
        /// The array.
        array: &'a mut Array,
        /// Whether it is added to.
        adds: bool,
    },
    /// Not wanted.
    Unwanted,
}

/// Part of a kernel with its arguments.
#[derive(Debug)]
pub struct LaunchArgs<'a> {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The part.
    pub part: &'static Part,
    /// The element type of its real arrays.
    pub dtype: DType,
    /// Sizes of the kernel's dimensions.
    pub dims: &'a [usize],
    /// Real and integer arrays, by parameter and role.
    pub arrays: Vec<((usize, Role), Bound<'a>)>,
    /// Structured arguments, by parameter; the list that the search of a grid found is one.
    pub structures: Vec<(usize, &'a dyn Structure)>,
    /// Real attributes, in the order of their parameters.
    pub reals: Vec<f64>,
    /// Integer attributes, in the order of their parameters.
    pub ints: Vec<i64>,
    /// Status word of the launch, in the memory of the host.
    pub status: &'a Word,
    /// Status word of the call, in the memory of a device.
    pub word: Option<&'a Array>,
}

impl<'a> LaunchArgs<'a> {
    /// The array of a parameter and role.
    pub fn array(&self, param: usize, role: Role) -> Option<&Bound<'a>> {
        self.arrays.iter().find(|(key, _)| *key == (param, role)).map(|(_, b)| b)
    }

    /// The structured argument of a parameter.
    pub fn structure(&self, param: usize) -> Option<&'a dyn Structure> {
        self.structures.iter().find(|(p, _)| *p == param).map(|(_, structure)| *structure)
    }

    /// The batch of a parameter, in the memory of the host.
    pub fn batch(&self, param: usize) -> Option<&'a Batch<'a>> {
        self.structure(param)?.as_batch()
    }

    /// The pair list of a parameter, in the memory of the host.
    pub fn pair_list(&self, param: usize) -> Option<&'a PairList<'a>> {
        self.structure(param)?.as_pairs()
    }

    /// The meshes of a parameter.
    pub fn mesh(&self, param: usize) -> Option<&'a Mesh> {
        self.structure(param)?.as_mesh()
    }

    /// Integers of a structured argument, or the moduli of a mesh.
    pub fn integers(&self, param: usize, array: SlotArray) -> Option<View<'a>> {
        // A transpose that cannot be made was refused when the call was bound.
        self.structure(param)?.array(array).ok()?
    }

    /// Numbers per row of a real array.
    pub fn components(&self, param: usize) -> usize {
        match self.kernel.params[param].kind {
            ParamKind::Real { components, width, .. } | ParamKind::Output { components, width, .. } => {
                components * width.map_or(1, |w| self.dims[w])
            }
            _ => 1,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.dims[self.part.index]
    }

    /// Attributes, dimensions and the status word, as generated code takes them; without pointers.
    pub fn abi(&self) -> LaunchAbi {
        let mut abi = LaunchAbi { status: self.status.pointer(), ..LaunchAbi::default() };
        abi.reals[..self.reals.len()].copy_from_slice(&self.reals);
        abi.ints[..self.ints.len()].copy_from_slice(&self.ints);
        for (size, dim) in abi.dims.iter_mut().zip(self.dims) {
            *size = *dim as i64;
        }
        abi
    }

    /// The error of a launch that has run, in the kernel's own names.
    pub fn raised(&self) -> Option<Error> {
        self.status.error_of(self.kernel)
    }

    /// Memory of the call.
    fn place(&self) -> Place {
        self.word.map_or(Place::Host, Array::place)
    }

    /// Compares every argument with the kernel's declaration.
    fn check(&self, place: Place) -> Result<()> {
        let of_kernel = |part: &'static Part| std::ptr::eq(part, self.part);
        if !self.kernel.forms.iter().flat_map(|f| f.parts).any(of_kernel) {
            return Err(Error::argument(
                "part",
                format!("a part of {}", self.kernel.name),
                self.part.cuda.name,
            ));
        }
        if !self.dtype.is_computed() {
            return Err(Error::argument("dtype", "float32 or float64", self.dtype.to_string()));
        }
        if self.dims.len() != self.kernel.dims.len() {
            let expected = format!("the sizes of {:?}", self.kernel.dims);
            return Err(Error::argument("dims", expected, format!("{:?}", self.dims)));
        }
        for (n, slot) in self.part.slots.iter().enumerate() {
            match slot.array {
                SlotArray::Values(role) => {
                    self.check_array(slot.param, role, place)?;
                    self.check_access(slot.param, role, self.part.written.contains(&n))?;
                }
                SlotArray::Scratch(_) => {}
                array => self.check_structure(slot.param, Some(array), place)?,
            }
        }
        for r in self.part.reductions {
            self.check_array(r.param, r.role, place)?;
            self.check_access(r.param, r.role, true)?;
        }
        if let Some(batch) = self.part.batch {
            self.check_structure(batch, None, place)?;
        }
        self.check_places()?;
        let count = |kind: ParamKind| self.kernel.params.iter().filter(|p| p.kind == kind).count();
        if self.reals.len() != count(ParamKind::Scalar) || self.ints.len() != count(ParamKind::IntScalar) {
            return Err(Error::argument(
                self.kernel.name,
                format!(
                    "{} real and {} integer attributes",
                    count(ParamKind::Scalar),
                    count(ParamKind::IntScalar)
                ),
                format!("{} and {}", self.reals.len(), self.ints.len()),
            ));
        }
        Ok(())
    }

    fn check_array(&self, param: usize, role: Role, place: Place) -> Result<()> {
        let hidden = role.has(Role::HIDDEN);
        let kind = if hidden {
            ParamKind::Output { dim: Some(self.kernel.index), components: 1, width: role.width() }
        } else {
            self.kernel.params[param].kind
        };
        let name = self.name_of(param, role);
        let bound = self.array(param, role).ok_or_else(|| Error::argument(name, "an array", "none"))?;
        let (dim, components, width, dtype) = match kind {
            ParamKind::Real { dim, components, width, .. } | ParamKind::Output { dim, components, width } => {
                (dim, components, width, self.dtype)
            }
            ParamKind::Ints { dim, components } => (Some(dim), components, None, DType::I32),
            ParamKind::Integers { dim, components, wide, .. } => {
                (dim, components, None, if wide { DType::I64 } else { DType::I32 })
            }
            _ => return Err(Error::argument(name, "a parameter that has arrays", format!("{kind:?}"))),
        };
        let one_element =
            self.part.uniform && role.has(Role::COTANGENT) && matches!(kind, ParamKind::Output { .. });
        let channels = width.map_or(1, |w| self.dims[w]);
        let least = if hidden { 1 } else { self.kernel.params[param].channels };
        if channels < least {
            let expected = format!("a feature width of at least {least}");
            return Err(Error::argument(name, expected, channels.to_string()));
        }
        let rows = if one_element { 1 } else { dim.map_or(1, |d| self.dims[d]) };
        let (len, has, at) = match bound {
            Bound::Input(view) => (view.len(), view.dtype(), view.place()),
            Bound::Output { array, .. } => (array.shape().iter().product(), array.dtype(), array.place()),
            Bound::Unwanted => return Ok(()),
        };
        check_place(name, at, place)?;
        let expected = rows.checked_mul(components).and_then(|n| n.checked_mul(channels));
        if Some(len) != expected || has != dtype {
            return Err(Error::argument(
                name,
                format!("{rows} × {} elements of {dtype}", components * channels),
                format!("{len} elements of {has}"),
            ));
        }
        Ok(())
    }

    /// Written arrays are bound for writing, and read ones are there.
    fn check_access(&self, param: usize, role: Role, written: bool) -> Result<()> {
        let name = self.name_of(param, role);
        match (self.array(param, role), written) {
            (Some(Bound::Input(_)), true) => Err(Error::argument(name, "an output", "an array to read from")),
            // Rows may read what they write to here.
            (Some(Bound::Unwanted), true) if !self.kernel.is_differentiable() => {
                Err(Error::argument(name, "an output", "none"))
            }
            (Some(Bound::Input(_)), false) | (Some(Bound::Unwanted | Bound::Output { .. }), true) => Ok(()),
            (_, false) => Err(Error::argument(name, "an array to read from", "none, or an output")),
            (None, true) => Err(Error::argument(name, "an output", "none")),
        }
    }

    /// A structured argument is of its parameter's kind and sizes, and has the integers that the part reads.
    fn check_structure(&self, param: usize, array: Option<SlotArray>, place: Place) -> Result<()> {
        let p = &self.kernel.params[param];
        let Some((kind, dims)) = p.kind.structure() else {
            return Err(Error::argument(p.name, "a structured argument", format!("{:?}", p.kind)));
        };
        let given = self.structure(param).filter(|structure| structure.kind() == kind);
        let Some(structure) = given else {
            let got = self.structure(param).map_or("none".into(), |structure| structure.describe());
            return Err(Error::argument(p.name, noun(kind), got));
        };
        if let Some(at) = structure.place() {
            check_place(p.name, at, place)?;
        }
        for (dim, size) in dims.iter().zip(structure.sizes()) {
            if let Some(dim) = dim
                && size.map_or(self.counts_by(*dim, param), |size| size != self.dims[*dim])
            {
                let expected = format!("{} for {}", self.dims[*dim], self.kernel.dims[*dim]);
                let got = size.map_or("none".into(), |size| size.to_string());
                return Err(Error::argument(p.name, expected, got));
            }
        }
        let by_column = [SlotArray::ColumnStart, SlotArray::PairRow, SlotArray::PairEntry];
        match array {
            Some(array) if by_column.contains(&array) && structure.array(array)?.is_none() => {
                Err(Error::argument(p.name, "a list with its transpose", "one without"))
            }
            _ => Ok(()),
        }
    }

    /// Whether rows of a dimension are those of the launch, or of a parameter beside a structure that may lack them, as parts of
    /// meshes lack waves or nodes: then they are indexed.
    fn counts_by(&self, dim: usize, beside: usize) -> bool {
        let others = self.kernel.params.iter().enumerate().filter(|(n, _)| *n != beside);
        let mut dims = others.flat_map(|(_, p)| match p.kind.structure() {
            Some((_, dims)) => dims,
            None => [p.kind.dim(), p.kind.width(), None],
        });
        self.kernel.index == dim || dims.any(|other| other == Some(dim))
    }

    /// Places are counted in reals: those of f32 have 24 bits.
    fn check_places(&self) -> Result<()> {
        let lists = self.structures.iter().filter_map(|(_, structure)| structure.as_pairs());
        let longest = || lists.map(PairList::max_row).chain(self.dims.iter().copied()).max();
        if self.part.places && self.dtype == DType::F32 && longest() > Some(1 << 24) {
            return Err(Error::Unsupported(format!(
                "{} looks for the place of a value among more than 2^24, which f32 cannot number: use float64",
                self.kernel.name
            )));
        }
        Ok(())
    }

    fn name_of(&self, param: usize, role: Role) -> &'static str {
        if role.has(Role::HIDDEN) { "an array between launches" } else { self.kernel.params[param].name }
    }
}

/// Launch that is safe to hand to generated code: every index that it can form lies within the array it indexes (on a
/// device, behind the call's own checks). Only its outputs can be written, and none of its arguments exchanged.
#[derive(Debug)]
pub struct Launch<'a>(LaunchArgs<'a>);

impl<'a> Launch<'a> {
    /// With arguments from anywhere, for a backend whose arrays lie in `place`.
    ///
    /// # Errors
    /// The parameter whose argument does not fit the kernel's declaration.
    pub fn new(args: LaunchArgs<'a>, place: Place) -> Result<Self> {
        args.check(place)?;
        Ok(Self(args))
    }

    /// With arguments that were bound by an op, whose declaration fits its kernels.
    pub(crate) fn bound(args: LaunchArgs<'a>) -> Result<Self> {
        args.check_places()?;
        debug_assert_eq!(args.check(args.place()), Ok(()), "{}", args.kernel.name);
        Ok(Self(args))
    }

    /// An array that is written, by parameter and role; `None`, where it is not wanted.
    pub fn output(&mut self, param: usize, role: Role) -> Option<OutputArray<'_>> {
        match self.0.arrays.iter_mut().find(|(key, _)| *key == (param, role)) {
            Some((_, Bound::Output { array, adds })) => Some(OutputArray { array, adds: *adds }),
            _ => None,
        }
    }
}

impl<'a> Deref for Launch<'a> {
    type Target = LaunchArgs<'a>;

    fn deref(&self) -> &LaunchArgs<'a> {
        &self.0
    }
}

/// Array that a launch writes, or adds to.
#[derive(Debug)]
pub struct OutputArray<'a> {
    array: &'a mut Array,
    /// Whether it is added to.
    pub adds: bool,
}

impl OutputArray<'_> {
    /// A view of the array.
    pub fn view(&self) -> View<'_> {
        self.array.view()
    }

    /// Real elements in the memory of the host, for writing.
    pub fn data_mut(&mut self) -> Option<DataMut<'_>> {
        self.array.data_mut()
    }

    /// The first element in the memory of the host, for writing.
    pub fn pointer_mut(&mut self) -> *mut u8 {
        self.array.pointer_mut()
    }
}

fn check_place(name: &str, at: Place, place: Place) -> Result<()> {
    if at == place {
        return Ok(());
    }
    Err(Error::argument(name, format!("memory of {place}, where the kernel runs"), at.to_string()))
}
