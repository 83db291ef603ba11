//! Definite assignment: the elements of outputs that a row may read.
//!
//! Outputs start as zeros, whatever the arrays of the caller hold, and rows run in any order. So a row reads what it has
//! written: its own element, and one that stands alone, where every path to the read has written it (of an in-out array
//! it reads these at any time). Of elements of other numbers, which nobody knows before they are computed, some path has
//! to have written one.

use crate::ir::{ParamId, Val};
use std::collections::BTreeSet;

/// The writes of a row on the paths to a statement.
#[derive(Clone, Default)]
pub(in crate::lower) struct Written {
    /// Elements that every path has written, by their numbers: none for the row's own and for one that stands alone.
    elements: BTreeSet<(ParamId, Option<Val>)>,
    /// Outputs of which some path has written an element other than the row's own.
    others: BTreeSet<ParamId>,
    /// Whether there is no path.
    unreachable: bool,
}

impl Written {
    /// No path.
    pub(super) fn nowhere() -> Self {
        Self { unreachable: true, ..Self::default() }
    }

    /// Ends the paths here, and gives what they have written.
    pub(super) fn end(&mut self) -> Self {
        std::mem::replace(self, Self::nowhere())
    }

    /// Adds an element.
    pub(super) fn write(&mut self, param: ParamId, other: Option<Val>) {
        self.elements.insert((param, other));
        if other.is_some() {
            self.others.insert(param);
        }
    }

    /// Whether an element may be read.
    pub(super) fn has(&self, param: ParamId, other: Option<Val>) -> bool {
        let some = other.is_some() && self.others.contains(&param);
        self.unreachable || some || self.elements.contains(&(param, other))
    }

    /// Adds the paths that come from another statement.
    pub(super) fn join(&mut self, other: Self) {
        if self.unreachable {
            self.elements = other.elements;
        } else if !other.unreachable {
            self.elements.retain(|e| other.elements.contains(e));
        }
        self.unreachable &= other.unreachable;
        self.others.extend(other.others);
    }

    /// Adds what a turn of a loop has written, to the paths that leave the loop in a later turn.
    pub(super) fn again(&mut self, turn: Self) {
        self.others.extend(turn.others);
    }
}
