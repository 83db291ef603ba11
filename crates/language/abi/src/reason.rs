//! Reasons for which a kernel raises the status word.

/// Reason for which a row raises the status word: the number of a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// An index is out of range.
    Index = 0,
    /// Two points coincide.
    Coincident = 1,
    /// There is more than there is room for.
    Capacity = 2,
    /// A number is infinite or NaN.
    NotFinite = 3,
    /// An integer does not fit its array.
    Overflow = 4,
    /// An integer was divided by zero.
    Division = 5,
    /// A number is not above zero.
    NotPositive = 6,
    /// A number is not zero.
    NotZero = 7,
    /// Lattice vectors span no volume.
    Flat = 8,
    /// A batch's rows are not in the order of its systems.
    Unordered = 9,
    /// Offsets of a list fall, or do not fit its entries.
    Offsets = 10,
    /// An atom is paired with itself.
    Itself = 11,
    /// A pair joins two systems.
    Crossing = 12,
    /// Pairs are there from one side only.
    OneSided = 13,
    /// A result is infinite or NaN.
    Result = 14,
    /// A grid was built from other points.
    Stale = 15,
    /// Points or images are too far away to be numbered.
    Far = 16,
    /// There are fewer points than are asked for.
    Few = 17,
    /// A pair is there twice.
    Twice = 18,
    /// An image lies along an axis that is not periodic.
    Open = 19,
    /// A number is below zero.
    Negative = 20,
}

impl Reason {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 21] = [
        Self::Index,
        Self::Coincident,
        Self::Capacity,
        Self::NotFinite,
        Self::Overflow,
        Self::Division,
        Self::NotPositive,
        Self::NotZero,
        Self::Flat,
        Self::Unordered,
        Self::Offsets,
        Self::Itself,
        Self::Crossing,
        Self::OneSided,
        Self::Result,
        Self::Stale,
        Self::Far,
        Self::Few,
        Self::Twice,
        Self::Open,
        Self::Negative,
    ];

    /// Its bit of the word.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The requirement that was broken, and how.
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Index => ("indices of rows that are there", "one out of range"),
            Self::Coincident => ("points that are apart", "two on the same place"),
            Self::Capacity => ("room for all that there is", "a capacity that is too small"),
            Self::NotFinite => ("finite numbers", "an infinity or NaN"),
            Self::Overflow => ("integers that fit its elements", "one that does not"),
            Self::Division => ("divisors other than zero", "zero"),
            Self::NotPositive => ("finite numbers > 0", "others"),
            Self::Negative => ("finite numbers >= 0", "others"),
            Self::NotZero => ("zeros: it stands for a derivative, not a deformation", "others"),
            Self::Flat => ("three lattice vectors (rows) that span a volume", "others"),
            Self::Unordered => ("systems one after the other, each where its offsets say", "others"),
            Self::Offsets => ("offsets that never fall, from 0 on", "others"),
            Self::Itself => ("pairs of two atoms (or images)", "an atom paired with itself at shift 0"),
            Self::Crossing => ("pairs within one system", "a pair of two systems"),
            Self::OneSided => (
                "a full list (every (i, j, S) with its (j, i, −S)); declare a half list as half, or turn it into a full \
                 one first",
                "pairs without their reverse: a half list, or one that was cut short",
            ),
            Self::Result => (
                "arguments with a finite result",
                "an infinity or NaN (two points on one place, or a number too large?)",
            ),
            Self::Stale => {
                ("a grid of the call's points (after they have moved: `rebuild`)", "a grid of others")
            }
            Self::Far => (
                "coordinates within 2^29 boxes and 1e15 cells of the origin, and distances of at most 500 boxes along the \
                 first axis and 1000 along the others",
                "some beyond",
            ),
            Self::Twice => ("each pair once, in one order of its atoms", "one twice"),
            Self::Open => ("images along periodic axes", "some along an open one"),
            Self::Few => ("no more than there are points (or a fill value)", "more"),
        }
    }
}
