//! Shapes, without heap memory for up to four axes, since a call makes and copies many views.

use std::ops::Deref;

/// The sizes of an array's axes.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Few([usize; 4], u8),
    Many(Vec<usize>),
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::Few(sizes, axes) => &sizes[..usize::from(*axes)],
            Self::Many(sizes) => sizes,
        }
    }
}

impl From<&[usize]> for Shape {
    fn from(shape: &[usize]) -> Self {
        let mut sizes = [0; 4];
        match sizes.get_mut(..shape.len()) {
            Some(few) => {
                few.copy_from_slice(shape);
                Self::Few(sizes, shape.len() as u8)
            }
            None => Self::Many(shape.to_vec()),
        }
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        let (mut sizes, mut axes) = ([0; 4], 0);
        let mut iter = iter.into_iter();
        while let Some(size) = iter.next() {
            match sizes.get_mut(axes) {
                Some(place) => *place = size,
                None => return Self::Many(sizes.into_iter().chain([size]).chain(iter).collect()),
            }
            axes += 1;
        }
        Self::Few(sizes, axes as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_axes() {
        for axes in 0..7 {
            let sizes: Vec<usize> = (1..=axes).collect();
            assert_eq!(*Shape::from(&sizes[..]), sizes[..]);
            assert_eq!(*sizes.iter().copied().collect::<Shape>(), sizes[..]);
        }
    }
}
