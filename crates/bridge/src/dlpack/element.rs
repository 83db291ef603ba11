//! Element types, by DLPack's code and number of bits.

use madelung_core::array::DType;
use std::fmt;

/// `DLDataTypeCode`.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

/// Codes and numbers of bits, by NumPy's names.
const TYPES: [(&str, u8, u8); 15] = [
    ("bool", BOOL, 8),
    ("int8", INT, 8),
    ("int16", INT, 16),
    ("int32", INT, 32),
    ("int64", INT, 64),
    ("uint8", UINT, 8),
    ("uint16", UINT, 16),
    ("uint32", UINT, 32),
    ("uint64", UINT, 64),
    ("float16", FLOAT, 16),
    ("bfloat16", BFLOAT, 16),
    ("float32", FLOAT, 32),
    ("float64", FLOAT, 64),
    ("complex64", COMPLEX, 64),
    ("complex128", COMPLEX, 128),
];

/// Element type of an array that is handed on. Calls have few of them: see [`Element::dtype`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub(super) code: u8,
    pub(super) bits: u8,
}

impl Element {
    /// The type of a code and a number of bits.
    pub(super) fn of(code: u8, bits: u8) -> Option<Self> {
        TYPES.iter().any(|x| (x.1, x.2) == (code, bits)).then_some(Self { code, bits })
    }

    /// The type of a name.
    pub fn named(name: &str) -> Option<Self> {
        TYPES.iter().find(|x| x.0 == name).map(|x| Self { code: x.1, bits: x.2 })
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        usize::from(self.bits / 8)
    }

    /// The type as calls have it; None of one that they do not take.
    pub fn dtype(self) -> Option<DType> {
        match (self.code, self.bits) {
            (FLOAT, 64) => Some(DType::F64),
            (FLOAT, 32) => Some(DType::F32),
            (INT, 64) => Some(DType::I64),
            (INT, 32) => Some(DType::I32),
            _ => None,
        }
    }
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        let (code, bits) = match dtype {
            DType::F16 => (FLOAT, 16),
            DType::BF16 => (BFLOAT, 16),
            DType::F32 => (FLOAT, 32),
            DType::F64 => (FLOAT, 64),
            DType::I32 => (INT, 32),
            DType::I64 => (INT, 64),
        };
        Self { code, bits }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TYPES.iter().find(|x| (x.1, x.2) == (self.code, self.bits)).map_or("none", |x| x.0);
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_a_name_and_a_size() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64] {
            let element = Element::from(dtype);
            assert_eq!((element.to_string(), element.size()), (dtype.to_string(), dtype.size()));
            assert_eq!(Element::named(&dtype.to_string()), Some(element));
        }
        for (name, size, dtype) in
            [("complex128", 16, None), ("bool", 1, None), ("int64", 8, Some(DType::I64))]
        {
            let element = Element::named(name).expect(name);
            assert_eq!((element.size(), element.dtype()), (size, dtype));
        }
        assert_eq!((Element::named("float8"), Element::of(INT, 4)), (None, None));
    }
}
