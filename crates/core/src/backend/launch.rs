//! A launch with everything bound to it, checked before any backend sees it.

use super::status::Word;
use crate::array::{Array, DType, Place, View};
use crate::batch::Batch;
use crate::device::DeviceArg;
use crate::map::Map;
use crate::mesh::Mesh;
use crate::pairs::PairList;
use crate::runtime::{Kernel, LaunchAbi, ParamKind, Part, Role, SlotArray};
use crate::{Error, Result};

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

/// A part of a kernel with its arguments.
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
    /// Batches, by parameter.
    pub batches: Vec<(usize, &'a Batch<'a>)>,
    /// Pair lists, by parameter; what a grid's query found is one.
    pub pairs: Vec<(usize, &'a PairList<'a>)>,
    /// Maps, by parameter.
    pub maps: Vec<(usize, &'a Map<'a>)>,
    /// Meshes, by parameter.
    pub meshes: Vec<(usize, &'a Mesh)>,
    /// Batches, lists and maps in the memory of a device, by parameter.
    pub device: Vec<(usize, DeviceArg<'a>)>,
    /// Real attributes, in the order of their parameters.
    pub reals: Vec<f64>,
    /// Integer attributes, in the order of their parameters.
    pub ints: Vec<i64>,
    /// What the kernel says about the run, once it is over.
    pub status: &'a Word,
    /// The same in the memory of a device: the call's word, which no kernel goes on after.
    pub word: Option<&'a Array>,
}

impl<'a> LaunchArgs<'a> {
    /// The array of a parameter and role.
    pub fn array(&self, param: usize, role: Role) -> Option<&Bound<'a>> {
        self.arrays.iter().find(|(key, _)| *key == (param, role)).map(|(_, b)| b)
    }

    /// The batch bound to a parameter.
    pub fn batch(&self, param: usize) -> Option<&'a Batch<'a>> {
        self.batches.iter().find(|(p, _)| *p == param).map(|(_, b)| *b)
    }

    /// The pair list bound to a parameter.
    pub fn pair_list(&self, param: usize) -> Option<&'a PairList<'a>> {
        self.pairs.iter().find(|(p, _)| *p == param).map(|(_, b)| *b)
    }

    /// What is bound to a parameter in the memory of a device.
    pub fn on_device(&self, param: usize) -> Option<DeviceArg<'a>> {
        self.device.iter().find(|(p, _)| *p == param).map(|(_, arg)| *arg)
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

    /// The map bound to a parameter.
    pub fn map(&self, param: usize) -> Option<&'a Map<'a>> {
        self.maps.iter().find(|(p, _)| *p == param).map(|(_, b)| *b)
    }

    /// The mesh bound to a parameter.
    pub fn mesh(&self, param: usize) -> Option<&'a Mesh> {
        self.meshes.iter().find(|(p, _)| *p == param).map(|(_, m)| *m)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.dims[self.part.index]
    }

    /// Its layout in memory, without pointers: attributes, dimensions and the status word.
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

    /// Compares every argument with the kernel's declaration. What passes is safe to hand to generated code: every
    /// index that it can form lies within the array it indexes (on a device, behind the call's own checks).
    pub fn check(&self) -> Result<()> {
        self.check_at(Place::Host)
    }

    /// [`LaunchArgs::check`] for a backend whose arrays lie elsewhere.
    pub fn check_at(&self, place: Place) -> Result<()> {
        self.check_places_of_arrays(place)?;
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
                    self.check_array(slot.param, role)?;
                    self.check_access(slot.param, role, self.part.written.contains(&n))?;
                }
                SlotArray::SystemOf | SlotArray::Members => self.check_batch(slot.param)?,
                SlotArray::Scratch(_) => {}
                SlotArray::MapOf => self.check_map(slot.param)?,
                SlotArray::MeshShape => self.check_mesh(slot.param)?,
                array => self.check_pairs(slot.param, array)?,
            }
        }
        for r in self.part.reductions {
            self.check_array(r.param, r.role)?;
            self.check_access(r.param, r.role, true)?;
        }
        if let Some(batch) = self.part.batch {
            self.check_batch(batch)?;
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

    fn check_places_of_arrays(&self, place: Place) -> Result<()> {
        let of_arrays = self.arrays.iter().filter_map(|((param, role), bound)| match bound {
            Bound::Input(view) => Some((self.name_of(*param, *role), view.place())),
            Bound::Output { array, .. } => Some((self.name_of(*param, *role), array.place())),
            Bound::Unwanted => None,
        });
        let of_device = self.device.iter().map(|(p, arg)| (self.kernel.params[*p].name, arg.place()));
        match of_arrays.chain(of_device).find(|(_, at)| *at != place) {
            Some((name, at)) => Err(Error::argument(
                name,
                format!("memory of {place}, where the kernel runs"),
                at.to_string(),
            )),
            None => Ok(()),
        }
    }

    fn check_array(&self, param: usize, role: Role) -> Result<()> {
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
        if channels == 0 {
            return Err(Error::argument(name, "a feature width of at least 1", "0"));
        }
        let rows = if one_element { 1 } else { dim.map_or(1, |d| self.dims[d]) };
        let (len, has) = match bound {
            Bound::Input(view) => (view.len(), view.dtype()),
            Bound::Output { array, .. } => (array.shape().iter().product(), array.dtype()),
            Bound::Unwanted => return Ok(()),
        };
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

    /// What is written is bound for writing, and what is read is there.
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

    fn check_batch(&self, param: usize) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Batch { rows, systems } = p.kind else {
            return Err(Error::argument(p.name, "a batch", format!("{:?}", p.kind)));
        };
        let have = match (self.batch(param), self.on_device(param)) {
            (Some(batch), _) => (batch.atoms(), batch.systems()),
            (None, Some(DeviceArg::Batch(batch))) => (batch.atoms(), batch.systems()),
            _ => return Err(Error::argument(p.name, "a batch", "none")),
        };
        let want = (self.dims[rows], self.dims[systems]);
        if want != have {
            let show = |(r, s): (usize, usize)| format!("{r} rows in {s} systems");
            return Err(Error::argument(p.name, show(want), show(have)));
        }
        Ok(())
    }

    fn check_mesh(&self, param: usize) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Mesh { systems, nodes } = p.kind else {
            return Err(Error::argument(p.name, "a mesh", format!("{:?}", p.kind)));
        };
        let mesh = self.mesh(param).ok_or_else(|| Error::argument(p.name, "a mesh", "none"))?;
        let (want, have) = ((self.dims[nodes], self.dims[systems]), (mesh.nodes(), mesh.systems()));
        if want != have {
            let show = |(n, s): (usize, usize)| format!("{n} nodes in {s} systems");
            return Err(Error::argument(p.name, show(want), show(have)));
        }
        Ok(())
    }

    fn check_pairs(&self, param: usize, array: SlotArray) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Pairs { rows, columns, entries } = p.kind else {
            return Err(Error::argument(p.name, "a pair list", format!("{:?}", p.kind)));
        };
        let (have, room) = match (self.pair_list(param), self.on_device(param)) {
            (Some(list), _) => ((list.rows(), list.columns()), list.others().len()),
            (None, Some(DeviceArg::Pairs(list))) => ((list.rows(), list.columns()), list.capacity()),
            _ => return Err(Error::argument(p.name, "a pair list", "none")),
        };
        let want = (self.dims[rows], self.dims[columns]);
        if want != have {
            let show = |(r, c): (usize, usize)| format!("a list between {r} and {c} rows");
            return Err(Error::argument(p.name, show(want), show(have)));
        }
        if let Some(entries) = entries.filter(|e| self.dims[*e] != room) {
            let expected = format!("{} entries ({})", self.dims[entries], self.kernel.dims[entries]);
            return Err(Error::argument(p.name, expected, room.to_string()));
        }
        if matches!(array, SlotArray::ColumnStart | SlotArray::PairRow | SlotArray::PairEntry) {
            match (self.pair_list(param), self.on_device(param)) {
                (Some(list), _) => _ = list.transpose()?,
                (None, Some(DeviceArg::Pairs(list))) if list.transpose().is_some() => {}
                _ => return Err(Error::argument(p.name, "a list with its transpose", "one without")),
            }
        }
        Ok(())
    }

    fn check_map(&self, param: usize) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Map { rows, into } = p.kind else {
            return Err(Error::argument(p.name, "a map", format!("{:?}", p.kind)));
        };
        let have = match (self.map(param), self.on_device(param)) {
            (Some(map), _) => (map.rows(), map.into_len()),
            (None, Some(DeviceArg::Map(map))) => (map.rows(), map.into_len()),
            _ => return Err(Error::argument(p.name, "a map", "none")),
        };
        let want = (self.dims[rows], self.dims[into]);
        if want != have {
            let show = |(r, c): (usize, usize)| format!("a map of {r} rows into {c}");
            return Err(Error::argument(p.name, show(want), show(have)));
        }
        Ok(())
    }

    /// Places are counted in reals: those of f32 have 24 bits.
    fn check_places(&self) -> Result<()> {
        let longest =
            || self.pairs.iter().map(|(_, list)| list.max_row()).chain(self.dims.iter().copied()).max();
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
