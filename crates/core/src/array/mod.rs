//! Arrays in row-major order: owned arrays and borrowed views, on the host or on a device.

mod device;
mod element;
mod elements;
mod memory;
mod shape;

use crate::{Error, Result};
pub use device::{Place, Remote, RemoteArray};
use element::Element;
pub use elements::Elements;
use half::{bf16, f16};
pub use madelung_memory::{Buffer, Numbers, Plain, Rows, collected, filled, is_left, kept, push, reserve};
pub use memory::Owner;
use serde::{Deserialize, Serialize};
pub(crate) use shape::Shape;
use std::borrow::Cow;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 16-bit floating point, IEEE 754: 11 significant bits, up to 65504.
    F16,
    /// 16-bit floating point with the range of f32: 8 significant bits.
    BF16,
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_real(self) -> bool {
        !matches!(self, Self::I32 | Self::I64)
    }

    /// Whether kernels compute in this type.
    pub const fn is_computed(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
        })
    }
}

/// Borrowed elements in row-major order.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// 16-bit floating point.
    F16(&'a [f16]),
    /// 16-bit floating point with the range of f32.
    BF16(&'a [bf16]),
    /// 32-bit floating point.
    F32(&'a [f32]),
    /// 64-bit floating point.
    F64(&'a [f64]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// 64-bit integers.
    I64(&'a [i64]),
    /// Elements in the memory of a device.
    Device(Remote<'a>),
}

/// Mutably borrowed elements in row-major order.
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
    shape: Shape,
}

/// An owned, contiguous array: on the heap, in memory that an owner lends, or in the memory of a device.
///
/// Functions that need the elements on the host return an error for an array of a device. For that reason an array has
/// [`Array::try_clone`] and [`Array::equals`] in place of `Clone` and `PartialEq`.
#[derive(Debug)]
pub enum Array {
    /// 16-bit floating point.
    F16(Elements<f16>),
    /// 16-bit floating point with the range of f32.
    BF16(Elements<bf16>),
    /// 32-bit floating point.
    F32(Elements<f32>),
    /// 64-bit floating point.
    F64(Elements<f64>),
    /// 32-bit integers.
    I32(Elements<i32>),
    /// 64-bit integers.
    I64(Elements<i64>),
    /// Elements in the memory of a device.
    Device(RemoteArray),
}

/// A match over the element types; without an arm for arrays of a device the result is an error for them.
macro_rules! each {
    ($enum:ident: $x:expr, $d:pat => $e:expr) => {
        $crate::array::each!($enum: $x, $d => Ok($e), device d => Err(d.place().elsewhere("array")))
    };
    ($enum:ident: $x:expr, $d:pat => $e:expr, device $r:pat => $on_device:expr) => {
        match $x {
            $enum::F16($d) => $e,
            $enum::BF16($d) => $e,
            $enum::F32($d) => $e,
            $enum::F64($d) => $e,
            $enum::I32($d) => $e,
            $enum::I64($d) => $e,
            $enum::Device($r) => $on_device,
        }
    };
}
use each;

/// An array of a dtype known only at run time; `$t` is the element type in `$e`.
macro_rules! made {
    ($dtype:expr, $t:ident => $e:expr) => {
        match $dtype {
            DType::F16 => {
                type $t = f16;
                Array::F16($e)
            }
            DType::BF16 => {
                type $t = bf16;
                Array::BF16($e)
            }
            DType::F32 => {
                type $t = f32;
                Array::F32($e)
            }
            DType::F64 => {
                type $t = f64;
                Array::F64($e)
            }
            DType::I32 => {
                type $t = i32;
                Array::I32($e)
            }
            DType::I64 => {
                type $t = i64;
                Array::I64($e)
            }
        }
    };
}

/// The number of elements of a shape.
fn elements(shape: &[usize]) -> usize {
    shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).expect("a shape that fits in memory")
}

impl Data<'_> {
    /// The address of the first element, in the memory that holds the elements.
    pub fn pointer(self) -> *const u8 {
        each!(Data: self, d => d.as_ptr().cast(), device d => std::ptr::without_provenance(d.address() as usize))
    }
}

impl<'a> View<'a> {
    /// A view of elements in row-major order.
    ///
    /// # Errors
    /// `shape`, unless it has as many elements as `data`.
    pub fn new(data: Data<'a>, shape: &[usize]) -> Result<Self> {
        let have = each!(Data: data, d => d.len(), device d => d.len());
        let need = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if need != Some(have) {
            return Err(Error::argument(
                "shape",
                format!("a shape of {have} elements"),
                format!("{shape:?}"),
            ));
        }
        Ok(Self { data, shape: shape.into() })
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

    /// Whether the view has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F16(_) => DType::F16,
            Data::BF16(_) => DType::BF16,
            Data::F32(_) => DType::F32,
            Data::F64(_) => DType::F64,
            Data::I32(_) => DType::I32,
            Data::I64(_) => DType::I64,
            Data::Device(d) => d.dtype(),
        }
    }

    /// Rows `first..first + count`.
    ///
    /// # Errors
    /// `rows`, where the view has fewer.
    pub fn rows(&self, first: usize, count: usize) -> Result<Self> {
        let rows = self.shape.first().copied().unwrap_or(0);
        if first.checked_add(count).is_none_or(|end| end > rows) {
            return Err(Error::argument(
                "rows",
                format!("at least {count} from {first} on"),
                rows.to_string(),
            ));
        }
        let width: usize = self.shape.iter().skip(1).product();
        let shape: Shape = std::iter::once(count).chain(self.shape.iter().skip(1).copied()).collect();
        let (from, to) = (first * width, (first + count) * width);
        let data = match self.data {
            Data::F16(d) => Data::F16(&d[from..to]),
            Data::BF16(d) => Data::BF16(&d[from..to]),
            Data::F32(d) => Data::F32(&d[from..to]),
            Data::F64(d) => Data::F64(&d[from..to]),
            Data::I32(d) => Data::I32(&d[from..to]),
            Data::I64(d) => Data::I64(&d[from..to]),
            Data::Device(d) => Data::Device(d.part(from, to - from)),
        };
        Ok(Self { data, shape })
    }

    /// The elements as f64, in row-major order (rounded, where integers are beyond 2⁵³).
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        each!(Data: self.data, d => collected(d.iter().map(|x| x.to_f64())))
    }

    /// The rows of `N` elements, in row-major order; what does not fill a row is left out.
    ///
    /// # Errors
    /// As [`View::to_f64`].
    pub fn to_rows<const N: usize>(&self) -> Result<Vec<[f64; N]>> {
        each!(Data: self.data, d => collected(d.as_chunks().0.iter().map(|row: &[_; N]| row.map(|x| x.to_f64()))))
    }

    /// Writes the rows of `N` elements from number `first` on, as many as there is room for.
    ///
    /// # Errors
    /// As [`View::to_f64`].
    pub fn write_rows<const N: usize>(&self, first: usize, into: &mut [[f64; N]]) -> Result<()> {
        each!(Data: self.data, d => {
            let rows = d.as_chunks().0.iter().skip(first);
            into.iter_mut().zip(rows).for_each(|(to, row): (_, &[_; N])| *to = row.map(|x| x.to_f64()));
        })
    }

    /// The elements of an integer array as i32, the type of indices in kernels.
    ///
    /// # Errors
    /// `argument`, where it lies on a device, is no integer array, or has an element that does not fit in an i32.
    pub fn to_i32(&self, argument: &str) -> Result<Cow<'a, [i32]>> {
        match self.data {
            Data::I32(d) => Ok(Cow::Borrowed(d)),
            Data::I64(d) => {
                let mut narrow = vec![];
                reserve(&mut narrow, d.len());
                for (at, x) in d.iter().enumerate() {
                    narrow.push(i32::try_from(*x).map_err(|_| {
                        let expected = format!("integers from {} to {}", i32::MIN, i32::MAX);
                        Error::argument(argument, expected, format!("{x} at element {at}"))
                    })?);
                }
                Ok(Cow::Owned(narrow))
            }
            Data::Device(d) => Err(d.place().elsewhere(argument)),
            _ => Err(Error::argument(argument, "int32 or int64", self.dtype().to_string())),
        }
    }

    /// An owned copy on the heap.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device: a copy there is made on a stream, by a backend.
    pub fn to_array(&self) -> Result<Array> {
        each!(Data: self.data, d => Elements::of(d.into(), self.shape()).into())
    }
}

impl Array {
    /// An array of zeros.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        made!(dtype, T => Elements::of(Buffer::<T>::zeros(elements(shape)), shape))
    }

    /// An array of arbitrary values, for callers that write every element before they read it.
    pub fn room(dtype: DType, shape: &[usize]) -> Self {
        made!(dtype, T => Elements::of(Buffer::<T>::room(elements(shape)).0, shape))
    }

    /// An array whose elements all equal `x`, rounded to `dtype`.
    pub fn filled(dtype: DType, shape: &[usize], x: f64) -> Self {
        made!(dtype, T => Elements::of(Buffer::filled(elements(shape), <T as Element>::of_f64(x)), shape))
    }

    /// An array of elements in row-major order, rounded to `dtype`.
    ///
    /// # Errors
    /// `shape`, unless it has as many elements as `data`.
    pub fn from_f64(dtype: DType, shape: &[usize], data: &[f64]) -> Result<Self> {
        let wide = View::new(Data::F64(data), shape)?.to_array()?;
        if dtype == DType::F64 { Ok(wide) } else { wide.cast(dtype) }
    }

    /// A view of the whole array.
    pub fn view(&self) -> View<'_> {
        each!(
            Array: self,
            a => View { data: Data::from(&**a), shape: a.shape().into() },
            device d => View { data: Data::Device(d.data()), shape: d.shape().into() }
        )
    }

    /// The elements of an f32 or f64 array, mutably borrowed.
    pub fn data_mut(&mut self) -> Option<DataMut<'_>> {
        match self {
            Self::F32(a) => Some(DataMut::F32(a)),
            Self::F64(a) => Some(DataMut::F64(a)),
            _ => None,
        }
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        each!(Array: self, a => a.shape(), device d => d.shape())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
            Self::Device(d) => d.dtype(),
        }
    }

    /// The elements as f64, in row-major order.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        self.view().to_f64()
    }

    /// A copy on the heap.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device: a copy there is made on a stream, by a backend.
    pub fn try_clone(&self) -> Result<Self> {
        self.view().to_array()
    }

    /// Equality of dtypes, shapes and elements.
    ///
    /// # Errors
    /// `array`, where one of the two lies on a device.
    pub fn equals(&self, other: &Self) -> Result<bool> {
        Ok(match (self, other) {
            (Self::F16(a), Self::F16(b)) => a == b,
            (Self::BF16(a), Self::BF16(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a == b,
            (Self::F64(a), Self::F64(b)) => a == b,
            (Self::I32(a), Self::I32(b)) => a == b,
            (Self::I64(a), Self::I64(b)) => a == b,
            (Self::Device(d), _) | (_, Self::Device(d)) => return Err(d.place().elsewhere("array")),
            _ => false,
        })
    }

    /// The address of the first element, for writing, in the memory of its place.
    pub fn pointer_mut(&mut self) -> *mut u8 {
        each!(Array: self, a => a.as_mut_ptr().cast(), device d => std::ptr::without_provenance_mut(d.address() as usize))
    }

    /// Sets every element to `x`, rounded to the array's type.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn fill(&mut self, x: f64) -> Result<()> {
        fn fill<T: Element>(a: &mut [T], x: f64) {
            a.fill(T::of_f64(x));
        }
        each!(Array: self, a => fill(a, x))
    }

    /// Sets every element of a real array to NaN. Integers stay, as counts are true even where a capacity was exceeded.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn poison(&mut self) -> Result<()> {
        if self.dtype().is_real() { self.fill(f64::NAN) } else { self.place().check_host("array") }
    }

    /// The array with `f`, computed in f64, applied to every real element; integers stay.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn map(mut self, f: impl Fn(f64) -> f64) -> Result<Self> {
        fn set<T: Element>(a: &mut [T], f: impl Fn(f64) -> f64) {
            a.iter_mut().for_each(|x| *x = T::of_f64(f(x.to_f64())));
        }
        match &mut self {
            Self::F16(a) => set(a, f),
            Self::BF16(a) => set(a, f),
            Self::F32(a) => set(a, f),
            Self::F64(a) => set(a, f),
            Self::I32(_) | Self::I64(_) => {}
            Self::Device(d) => return Err(d.place().elsewhere("array")),
        }
        Ok(self)
    }

    /// Adds another array of equal type and shape.
    ///
    /// # Errors
    /// `other`, where its type or shape differs; `array`, where the elements lie on a device.
    pub fn add(&mut self, other: &Array) -> Result<()> {
        if (self.dtype(), self.shape()) != (other.dtype(), other.shape()) {
            let show = |a: &Array| format!("{} {:?}", a.dtype(), a.shape());
            return Err(Error::argument("other", show(self), show(other)));
        }
        fn add<T: Copy + std::ops::AddAssign>(a: &mut [T], b: &[T]) {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += *b);
        }
        match (self, other) {
            (Self::F16(a), Self::F16(b)) => add(a, b),
            (Self::BF16(a), Self::BF16(b)) => add(a, b),
            (Self::F32(a), Self::F32(b)) => add(a, b),
            (Self::F64(a), Self::F64(b)) => add(a, b),
            (Self::I32(a), Self::I32(b)) => add(a, b),
            (Self::I64(a), Self::I64(b)) => add(a, b),
            (Self::Device(d), _) => return Err(d.place().elsewhere("array")),
            (_, other) => return other.place().check_host("other"),
        }
        Ok(())
    }
}

macro_rules! conversions {
    ($($t:ty, $variant:ident);*) => {$(
        impl<D: ndarray::Dimension> From<ndarray::Array<$t, D>> for Array {
            fn from(a: ndarray::Array<$t, D>) -> Self {
                Self::$variant(a.into())
            }
        }
        impl From<Elements<$t>> for Array {
            fn from(elements: Elements<$t>) -> Self {
                Self::$variant(elements)
            }
        }
        impl From<Vec<$t>> for Array {
            fn from(data: Vec<$t>) -> Self {
                Self::$variant(data.into())
            }
        }
        impl<const N: usize> From<&[[$t; N]]> for Array {
            fn from(data: &[[$t; N]]) -> Self {
                Self::$variant(Elements::of(data.as_flattened().into(), &[data.len(), N]))
            }
        }
        impl<'a> From<&'a [$t]> for Data<'a> {
            fn from(data: &'a [$t]) -> Self {
                Self::$variant(data)
            }
        }
        impl<'a> From<&'a [$t]> for View<'a> {
            fn from(data: &'a [$t]) -> Self {
                Self { data: Data::$variant(data), shape: [data.len()][..].into() }
            }
        }
        impl<'a> From<&'a Vec<$t>> for View<'a> {
            fn from(data: &'a Vec<$t>) -> Self {
                data.as_slice().into()
            }
        }
        impl<'a, const N: usize> From<&'a [$t; N]> for View<'a> {
            fn from(data: &'a [$t; N]) -> Self {
                data.as_slice().into()
            }
        }
        impl<'a, const N: usize> From<&'a [[$t; N]]> for View<'a> {
            fn from(data: &'a [[$t; N]]) -> Self {
                Self { data: Data::$variant(data.as_flattened()), shape: [data.len(), N][..].into() }
            }
        }
        impl<'a, const N: usize, const M: usize> From<&'a [[[$t; N]; M]]> for View<'a> {
            fn from(data: &'a [[[$t; N]; M]]) -> Self {
                Self { data: Data::$variant(data.as_flattened().as_flattened()), shape: [data.len(), M, N][..].into() }
            }
        }
    )*};
}
conversions!(f16, F16; bf16, BF16; f32, F32; f64, F64; i32, I32; i64, I64);
