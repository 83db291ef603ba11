//! A launch with everything bound to it, checked before any backend sees it.

use super::context::Context;
use super::kernel::{Array as ArrayOf, Kernel, ParamKind, Part, role};
use crate::array::{Array, DType, View};
use crate::batch::Batch;
use crate::pairs::{Kind, PairList};
use crate::{Error, Result};

/// Runs parts of kernels on some hardware.
pub trait Backend: Sync {
    /// Its name: `cpu`, `cuda`.
    fn name(&self) -> &'static str;
    /// Runs a launch that has been checked.
    fn run(&self, context: &Context<'_>, launch: &mut Launching<'_>) -> Result<()>;
}

/// What is bound to a slot or to the target of a reduction.
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
pub struct Launching<'a> {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The part.
    pub part: &'static Part,
    /// The element type of its real arrays.
    pub dtype: DType,
    /// Sizes of the kernel's dimensions.
    pub dims: &'a [usize],
    /// Real and integer arrays, by parameter and role.
    pub arrays: Vec<((usize, u8), Bound<'a>)>,
    /// Batches, by parameter.
    pub batches: Vec<(usize, &'a Batch<'a>)>,
    /// Pair lists, by parameter.
    pub pairs: Vec<(usize, &'a PairList<'a>)>,
    /// Real attributes, in the order of their parameters.
    pub reals: Vec<f64>,
    /// Integer attributes, in the order of their parameters.
    pub ints: Vec<i64>,
}

impl<'a> Launching<'a> {
    /// The array of a parameter and role.
    pub fn array(&self, param: usize, role: u8) -> Option<&Bound<'a>> {
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.dims[self.part.index]
    }

    /// Compares every argument with the kernel's declaration. What passes is safe to hand to generated code: every
    /// index that it can form lies within the array it indexes.
    pub fn check(&self) -> Result<()> {
        let of_kernel = |part: &'static Part| std::ptr::eq(part, self.part);
        if !self.kernel.forms.iter().flat_map(|f| f.parts).any(of_kernel) {
            return Err(Error::argument(
                "part",
                format!("a part of {}", self.kernel.name),
                self.part.cuda.name,
            ));
        }
        if self.dtype == DType::I32 {
            return Err(Error::argument("dtype", "float32 or float64", self.dtype.to_string()));
        }
        if self.dims.len() != self.kernel.dims.len() {
            let expected = format!("the sizes of {:?}", self.kernel.dims);
            return Err(Error::argument("dims", expected, format!("{:?}", self.dims)));
        }
        for (n, slot) in self.part.slots.iter().enumerate() {
            match slot.array {
                ArrayOf::Values(role) => {
                    self.check_array(slot.param, role)?;
                    self.check_access(slot.param, role, self.part.written.contains(&n))?;
                }
                ArrayOf::SystemOf | ArrayOf::Members => self.check_batch(slot.param)?,
                _ => self.check_pairs(slot.param)?,
            }
        }
        for r in self.part.reductions {
            self.check_array(r.param, r.role)?;
            self.check_access(r.param, r.role, true)?;
        }
        if let Some(batch) = self.part.batch {
            self.check_batch(batch)?;
        }
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

    fn check_array(&self, param: usize, role: u8) -> Result<()> {
        let p = &self.kernel.params[param];
        let missing = || Error::argument(p.name, "an array", "none");
        let bound = self.array(param, role).ok_or_else(missing)?;
        let (dim, components, dtype) = match p.kind {
            ParamKind::Real { dim, components, .. } | ParamKind::Output { dim, components } => {
                (dim, components, self.dtype)
            }
            ParamKind::Ints { dim, components } => (Some(dim), components, DType::I32),
            _ => return Err(Error::argument(p.name, "a parameter that has arrays", format!("{:?}", p.kind))),
        };
        let one_element =
            self.part.uniform && role & role::COTANGENT != 0 && matches!(p.kind, ParamKind::Output { .. });
        let rows = if one_element { 1 } else { dim.map_or(1, |d| self.dims[d]) };
        let (len, has) = match bound {
            Bound::Input(view) => (view.len(), view.dtype()),
            Bound::Output { array, .. } => (array.shape().iter().product(), array.dtype()),
            Bound::Unwanted => return Ok(()),
        };
        if Some(len) != rows.checked_mul(components) || rows > i32::MAX as usize || has != dtype {
            return Err(Error::argument(
                p.name,
                format!("{rows} × {components} elements of {dtype}"),
                format!("{len} elements of {has}"),
            ));
        }
        Ok(())
    }

    /// What is written is bound for writing, and what is read is there.
    fn check_access(&self, param: usize, role: u8, written: bool) -> Result<()> {
        let name = self.kernel.params[param].name;
        match (self.array(param, role), written) {
            (Some(Bound::Input(_)), true) => Err(Error::argument(name, "an output", "an array to read from")),
            (Some(Bound::Input(_)), false) | (Some(Bound::Unwanted), true) => Ok(()),
            (Some(Bound::Output { array, .. }), true) if array.is_contiguous() => Ok(()),
            (Some(Bound::Output { .. }), true) => {
                Err(Error::argument(name, "a contiguous array", "one whose elements lie in another order"))
            }
            (_, false) => Err(Error::argument(name, "an array to read from", "none, or an output")),
            (None, true) => Err(Error::argument(name, "an output", "none")),
        }
    }

    fn check_batch(&self, param: usize) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Batch { rows, systems } = p.kind else {
            return Err(Error::argument(p.name, "a batch", format!("{:?}", p.kind)));
        };
        let batch = self.batch(param).ok_or_else(|| Error::argument(p.name, "a batch", "none"))?;
        let (want, have) = ((self.dims[rows], self.dims[systems]), (batch.atoms(), batch.systems()));
        if want != have {
            let show = |(r, s): (usize, usize)| format!("{r} rows in {s} systems");
            return Err(Error::argument(p.name, show(want), show(have)));
        }
        Ok(())
    }

    fn check_pairs(&self, param: usize) -> Result<()> {
        let p = &self.kernel.params[param];
        let ParamKind::Pairs(dim) = p.kind else {
            return Err(Error::argument(p.name, "a pair list", format!("{:?}", p.kind)));
        };
        let list = self.pair_list(param).ok_or_else(|| Error::argument(p.name, "a pair list", "none"))?;
        let n = self.dims[dim];
        if (list.rows(), list.columns()) != (n, n) {
            return Err(Error::argument(
                p.name,
                format!("a list between {n} and {n} rows"),
                format!("one between {} and {}", list.rows(), list.columns()),
            ));
        }
        Ok(())
    }

    /// Whether every pair list of the launch is full.
    pub fn lists_are_full(pairs: &[(usize, &PairList<'_>)]) -> bool {
        pairs.iter().all(|(_, list)| list.kind() == Kind::Full)
    }
}
