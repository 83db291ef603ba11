//! Shapes of the elements of arrays, and of values in the front end.

/// A real number, a vector of them, or a square matrix, row by row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One number.
    Number,
    /// A vector, of so many components.
    Vector(usize),
    /// A square matrix, of so many rows.
    Matrix(usize),
}

/// The types of reals, by their words in the language.
const WORDS: [(&str, Shape); 6] = [
    ("Real", Shape::Number),
    ("Vec2", Shape::Vector(2)),
    ("Vec3", Shape::Vector(3)),
    ("Vec4", Shape::Vector(4)),
    ("Mat2", Shape::Matrix(2)),
    ("Mat3", Shape::Matrix(3)),
];

impl Shape {
    /// The shape of a type of reals; none where the word is no such type.
    pub fn named(word: &str) -> Option<Self> {
        WORDS.iter().find(|(name, _)| *name == word).map(|(_, shape)| *shape)
    }

    /// The word of the type of reals of this shape.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, shape)| *shape == self).expect("a shape of the language").0
    }

    /// The number of components.
    pub fn components(self) -> usize {
        match self {
            Self::Number => 1,
            Self::Vector(n) => n,
            Self::Matrix(n) => n * n,
        }
    }

    /// The axes of an element in the shape of an array, as ops declare them.
    pub fn axes(self) -> &'static [&'static str] {
        match self {
            Self::Number => &[],
            Self::Vector(2) => &["2"],
            Self::Vector(3) => &["3"],
            Self::Vector(_) => &["4"],
            Self::Matrix(2) => &["2", "2"],
            Self::Matrix(_) => &["3", "3"],
        }
    }
}
