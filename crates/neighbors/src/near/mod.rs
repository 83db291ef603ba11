//! Searches around points: all within a radius, and the k nearest, from points that are sorted in space.

mod cloud;
mod halves;
mod nearest;
mod pairs;

pub(crate) use cloud::{CURVE, Cloud, coordinates, in_order_of, order};
pub(crate) use halves::{Halves, Near};
pub(crate) use nearest::{Hit, MOST_IMAGES, Nearby};
pub(crate) use pairs::{Finder, Vicinity};
