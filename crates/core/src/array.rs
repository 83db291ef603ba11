//! Arrays: owned ones, and borrowed views whose length fits their shape.

use crate::{Error, Result};
use ndarray::ArrayD;
use serde::{Deserialize, Serialize};

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 32-bit integer.
    I32,
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
        })
    }
}

/// Row-major elements, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// 32-bit floating point.
    F32(&'a [f32]),
    /// 64-bit floating point.
    F64(&'a [f64]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

/// Row-major elements, borrowed for writing.
#[derive(Debug)]
pub enum DataMut<'a> {
    /// 32-bit floating point.
    F32(&'a mut [f32]),
    /// 64-bit floating point.
    F64(&'a mut [f64]),
}

/// A borrowed, contiguous array.
#[derive(Clone, Debug)]
pub struct View<'a> {
    data: Data<'a>,
    shape: Vec<usize>,
}

/// An owned, contiguous array.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// 32-bit floating point.
    F32(ArrayD<f32>),
    /// 64-bit floating point.
    F64(ArrayD<f64>),
    /// 32-bit integers.
    I32(ArrayD<i32>),
}

impl<'a> View<'a> {
    /// Elements in row-major order, as many as `shape` says.
    pub fn new(data: Data<'a>, shape: &[usize]) -> Result<Self> {
        let have = match data {
            Data::F32(d) => d.len(),
            Data::F64(d) => d.len(),
            Data::I32(d) => d.len(),
        };
        let need = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if need != Some(have) {
            return Err(Error::argument(
                "shape",
                format!("a shape of {have} elements"),
                format!("{shape:?}"),
            ));
        }
        Ok(Self { data, shape: shape.to_vec() })
    }

    /// The elements.
    pub fn data(&self) -> Data<'a> {
        self.data
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F32(_) => DType::F32,
            Data::F64(_) => DType::F64,
            Data::I32(_) => DType::I32,
        }
    }

    /// The elements as f64.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.data {
            Data::F32(d) => d.iter().map(|x| f64::from(*x)).collect(),
            Data::F64(d) => d.to_vec(),
            Data::I32(d) => d.iter().map(|x| f64::from(*x)).collect(),
        }
    }

    /// A copy that owns its elements.
    pub fn to_array(&self) -> Array {
        let shape = self.shape.as_slice();
        let fits = "a view's length fits its shape";
        match self.data {
            Data::F32(d) => Array::F32(ArrayD::from_shape_vec(shape, d.to_vec()).expect(fits)),
            Data::F64(d) => Array::F64(ArrayD::from_shape_vec(shape, d.to_vec()).expect(fits)),
            Data::I32(d) => Array::I32(ArrayD::from_shape_vec(shape, d.to_vec()).expect(fits)),
        }
    }
}

impl Array {
    /// Zeros.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        match dtype {
            DType::F32 => Self::F32(ArrayD::zeros(shape)),
            DType::F64 => Self::F64(ArrayD::zeros(shape)),
            DType::I32 => Self::I32(ArrayD::zeros(shape)),
        }
    }

    /// `x` everywhere, rounded to `dtype`.
    pub fn filled(dtype: DType, shape: &[usize], x: f64) -> Self {
        match dtype {
            DType::F32 => Self::F32(ArrayD::from_elem(shape, x as f32)),
            DType::F64 => Self::F64(ArrayD::from_elem(shape, x)),
            DType::I32 => Self::I32(ArrayD::from_elem(shape, x as i32)),
        }
    }

    /// Elements in row-major order, rounded to `dtype`.
    pub fn from_f64(dtype: DType, shape: &[usize], data: &[f64]) -> Result<Self> {
        View::new(Data::F64(data), shape).map(|v| v.to_array().cast(dtype))
    }

    /// The same numbers in another type (rounded).
    #[must_use]
    pub fn cast(self, dtype: DType) -> Self {
        match (self, dtype) {
            (Self::F64(a), DType::F32) => Self::F32(a.mapv(|x| x as f32)),
            (Self::F32(a), DType::F64) => Self::F64(a.mapv(f64::from)),
            (Self::F64(a), DType::I32) => Self::I32(a.mapv(|x| x as i32)),
            (Self::F32(a), DType::I32) => Self::I32(a.mapv(|x| x as i32)),
            (Self::I32(a), DType::F32) => Self::F32(a.mapv(|x| x as f32)),
            (Self::I32(a), DType::F64) => Self::F64(a.mapv(f64::from)),
            (a, _) => a,
        }
    }

    /// A view of the whole.
    pub fn view(&self) -> View<'_> {
        let contiguous = "owned arrays are contiguous";
        let data = match self {
            Self::F32(a) => Data::F32(a.as_slice().expect(contiguous)),
            Self::F64(a) => Data::F64(a.as_slice().expect(contiguous)),
            Self::I32(a) => Data::I32(a.as_slice().expect(contiguous)),
        };
        View { data, shape: self.shape().to_vec() }
    }

    /// The real elements, for writing.
    pub(crate) fn data_mut(&mut self) -> Option<DataMut<'_>> {
        match self {
            Self::F32(a) => a.as_slice_mut().map(DataMut::F32),
            Self::F64(a) => a.as_slice_mut().map(DataMut::F64),
            Self::I32(_) => None,
        }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        match self {
            Self::F32(a) => a.is_standard_layout(),
            Self::F64(a) => a.is_standard_layout(),
            Self::I32(a) => a.is_standard_layout(),
        }
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::F32(a) => a.shape(),
            Self::F64(a) => a.shape(),
            Self::I32(a) => a.shape(),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::I32(_) => DType::I32,
        }
    }

    /// The elements as f64, in row-major order.
    pub fn to_f64(&self) -> Vec<f64> {
        self.view().to_f64()
    }

    /// Applies `f` to every element, in f64.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::F32(a) => Self::F32(a.mapv(|x| f(f64::from(x)) as f32)),
            Self::F64(a) => Self::F64(a.mapv(f)),
            a @ Self::I32(_) => a,
        }
    }

    /// Adds another array of the same type and shape.
    pub fn add(&mut self, other: &Array) -> Result<()> {
        if (self.dtype(), self.shape()) != (other.dtype(), other.shape()) {
            let show = |a: &Array| format!("{} {:?}", a.dtype(), a.shape());
            return Err(Error::argument("other", show(self), show(other)));
        }
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => *a += b,
            (Self::F64(a), Self::F64(b)) => *a += b,
            (Self::I32(a), Self::I32(b)) => *a += b,
            _ => unreachable!("the types are equal"),
        }
        Ok(())
    }
}

macro_rules! conversions {
    ($($t:ty, $variant:ident);*) => {$(
        impl<D: ndarray::Dimension> From<ndarray::Array<$t, D>> for Array {
            fn from(a: ndarray::Array<$t, D>) -> Self {
                Self::$variant(a.into_dyn().as_standard_layout().into_owned())
            }
        }
        impl<'a> From<&'a [$t]> for View<'a> {
            fn from(data: &'a [$t]) -> Self {
                Self { data: Data::$variant(data), shape: vec![data.len()] }
            }
        }
        impl<'a, const N: usize> From<&'a [[$t; N]]> for View<'a> {
            fn from(data: &'a [[$t; N]]) -> Self {
                Self { data: Data::$variant(data.as_flattened()), shape: vec![data.len(), N] }
            }
        }
        impl<'a, const N: usize, const M: usize> From<&'a [[[$t; N]; M]]> for View<'a> {
            fn from(data: &'a [[[$t; N]; M]]) -> Self {
                Self { data: Data::$variant(data.as_flattened().as_flattened()), shape: vec![data.len(), M, N] }
            }
        }
    )*};
}
conversions!(f32, F32; f64, F64; i32, I32);
