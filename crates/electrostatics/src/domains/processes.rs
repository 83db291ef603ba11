//! Processes that share a system, and the messages between them.

use madelung_core::{Error, Result};

/// Messages between processes.
pub trait Exchange {
    /// Sends to each process its part of `send`, so many numbers as `sent` says, and receives from each as many as `received`
    /// says: parts lie behind each other in the order of the processes. All processes call it, in the same order.
    ///
    /// # Errors
    /// Those of the messages.
    fn all_to_all(&self, send: &[f64], sent: &[usize], receive: &mut [f64], received: &[usize])
    -> Result<()>;
}

/// A process among those that share a system.
#[derive(Clone, Copy)]
pub struct Processes<'e> {
    rank: usize,
    ranks: usize,
    exchange: &'e dyn Exchange,
}

impl<'e> Processes<'e> {
    /// Process `rank` of `ranks`, from 0 on.
    ///
    /// # Errors
    /// `rank`, where it is not below their number.
    pub fn new(rank: i64, ranks: i64, exchange: &'e dyn Exchange) -> Result<Self> {
        if !(0..ranks).contains(&rank) {
            let got = format!("{rank} of {ranks}");
            return Err(Error::argument("rank", "a process from 0 to below their number", got));
        }
        Ok(Self { rank: rank as usize, ranks: ranks as usize, exchange })
    }

    /// This process, from 0 on.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Numbers from each process, in their order, for the parts of `send` that each gets.
    pub(super) fn all_to_all(&self, send: &[f64], sent: &[usize], received: &[usize]) -> Result<Vec<f64>> {
        let mut receive = vec![0.0; received.iter().sum()];
        self.exchange.all_to_all(send, sent, &mut receive, received)?;
        Ok(receive)
    }

    /// Words of all processes, for those of this one.
    pub(super) fn words<const N: usize>(&self, own: [f64; N]) -> Result<Vec<[f64; N]>> {
        let counts = vec![N; self.ranks];
        let all = self.all_to_all(&own.repeat(self.ranks), &counts, &counts)?;
        Ok(all.as_chunks().0.to_vec())
    }

    /// A number from each process, for those that this one has for each.
    pub(super) fn counts(&self, own: impl Iterator<Item = usize>) -> Result<Vec<usize>> {
        let (own, ones): (Vec<f64>, _) = (own.map(|n| n as f64).collect(), vec![1; self.ranks]);
        Ok(self.all_to_all(&own, &ones, &ones)?.into_iter().map(|n| n as usize).collect())
    }
}
