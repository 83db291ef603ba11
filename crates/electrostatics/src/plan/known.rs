//! Choices of recent calls: choosing parameters takes longer than a small sum, and most calls are of the same systems as the
//! one before.

use super::numbers::{Prescription, Systems};
use super::{Kind, Request};
use madelung_core::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Number of choices that are kept.
const MOST: usize = 32;

/// Number of systems up to which choices are kept: those of large batches take less than their sums.
const LARGEST: usize = 256;

/// Inputs of a choice. The terms of a sum are none, as they follow from its request.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    pub(super) systems: Systems<'a>,
    pub(super) given: &'a Prescription,
}

struct Known<T> {
    request: Request,
    cells: Vec<[[f64; 3]; 3]>,
    atoms: Vec<usize>,
    extents: Vec<f64>,
    crowding: Vec<f64>,
    given: Prescription,
    choice: T,
}

impl<T> Known<T> {
    fn new(Question { request, systems, given }: Question<'_>, choice: T) -> Self {
        Self {
            request: request.clone(),
            cells: systems.cells.to_vec(),
            atoms: systems.atoms.to_vec(),
            extents: systems.extents.to_vec(),
            crowding: systems.crowding.to_vec(),
            given: given.clone(),
            choice,
        }
    }

    fn answers(&self, Question { request, systems, given }: Question<'_>) -> bool {
        self.cells == systems.cells
            && self.atoms == systems.atoms
            && self.extents == systems.extents
            && self.crowding == systems.crowding
            && self.given == *given
            && self.request == *request
    }
}

/// Choices, the latest first.
pub(super) struct Choices<T>(Mutex<VecDeque<Known<T>>>);

impl<T: Clone> Choices<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// The choice that is known, or the one that `choose` makes.
    pub(super) fn of(&self, question: Question<'_>, choose: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut all = lock();
            if let Some(at) = all.iter().position(|known| known.answers(question)) {
                let known = all.remove(at).expect("a place of the queue");
                let choice = known.choice.clone();
                all.push_front(known);
                return Ok(choice);
            }
        }
        let choice = choose()?;
        if question.systems.atoms.len() > LARGEST {
            return Ok(choice);
        }
        let mut all = lock();
        all.push_front(Known::new(question, choice.clone()));
        all.truncate(MOST);
        Ok(choice)
    }
}

pub(super) static KINDS: Choices<Vec<Kind>> = Choices::new();
pub(super) static NUMBERS: Choices<super::Chosen> = Choices::new();

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_choice_is_made_once_for_what_it_depends_on() {
        let choices = Choices::new();
        let made = Cell::new(0);
        let choose = |side: f64, atoms: usize| {
            let cells = [[[side, 0.0, 0.0], [0.0, side, 0.0], [0.0, 0.0, side]]];
            let systems = Systems { cells: &cells, atoms: &[atoms], extents: &[], crowding: &[] };
            let question =
                Question { request: &Request::default(), systems, given: &Prescription::default() };
            let make = || {
                made.set(made.get() + 1);
                Ok(side * atoms as f64)
            };
            choices.of(question, make).unwrap()
        };
        assert_eq!((choose(2.0, 3), choose(2.0, 4), choose(2.5, 4), choose(2.0, 3)), (6.0, 8.0, 10.0, 6.0));
        assert_eq!(made.get(), 3);
        // Those of long ago are forgotten.
        (0..MOST).for_each(|n| _ = choose(3.0, n));
        assert_eq!((choose(2.0, 3), made.get()), (6.0, 4 + MOST));
    }
}
