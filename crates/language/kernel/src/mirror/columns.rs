//! Launches over columns and members.

use super::exchange::{Exchange, Exchanged};
use super::*;

/// Whom a launch over columns visits.
#[derive(Clone, Copy)]
pub(super) enum Visit {
    /// The rows that have the column among their pairs. `symmetric`: they are those of the column's own pairs.
    Pairs { list: ParamId, symmetric: bool },
    /// The rows of the member's system.
    Members { batch: ParamId },
}

/// Contributions to the members of a batch, or to the columns of a list, from their own point of view.
pub(super) fn columns_part(
    kernel: &Kernel,
    src: &Body,
    visit: Visit,
    columns: Dim,
    hidden: &mut Hidden,
) -> Result<Body, String> {
    let mut b = Body::new(Some(src));
    b.canonical_signs = true;
    let row = b.emit(Op::Row, Type::Index(columns));
    let (mut stores, mut channel_sums) = (vec![], ChannelSums::new());
    for s in src.stmts() {
        let Stmt::For { id, range, body } = s else { continue };
        let loop_id = *id;
        let outer = b.new_loop();
        let no_sums_inside = !column_needs(src, loop_id, body).0;
        let (range, exchange) = match (visit, *range) {
            (Visit::Pairs { list, symmetric }, Range::Pairs { list: of, .. }) if of == list => {
                // Gathered in the row's own loop already.
                if symmetric && no_sums_inside {
                    continue;
                }
                b.open(true);
                let index = Type::Index(kernel.index);
                let (range, partner) = if symmetric {
                    (Range::Pairs { list, row }, b.emit(Op::PairColumn(outer), index))
                } else {
                    (Range::Column { list, column: row }, b.emit(Op::PairRow(outer), index))
                };
                let place = (!symmetric).then(|| b.real_op(Op::Place(outer)));
                let new = Some((outer, symmetric));
                let column = Some(columns);
                (Some(range), Exchange { row: partner, member: row, loop_id, new, place, column })
            }
            (Visit::Members { batch }, Range::Members { batch: of, system: their }) if of == batch => {
                let Kind::Batch { systems, .. } = kernel.params[batch].kind else {
                    return Err("members of what is not a batch".into());
                };
                let system = b.emit(Op::system(batch, row), Type::Index(systems));
                let place = Some(b.real_op(Op::PlaceIn { batch, row }));
                let (range, partner) = match *src.op(their) {
                    Op::IndexOf { param: rows, array: Array::SystemOf, .. } => {
                        b.open(true);
                        let partner = b.emit(Op::LoopVar(outer), Type::Index(kernel.index));
                        (Some(Range::Members { batch: rows, system }), partner)
                    }
                    _ => (None, system),
                };
                let column = Some(columns);
                (range, Exchange { row: partner, member: row, loop_id, new: None, place, column })
            }
            _ => continue,
        };
        let mut e = Exchanged::new(kernel, src, &mut b, exchange, None);
        e.hidden = Some(hidden);
        e.declare_at_once = range.is_none();
        e.channel_sums = channel_sums;
        e.block(body)?;
        let sums = e.sums;
        channel_sums = e.channel_sums;
        if let Some(range) = range {
            let body = b.close();
            let zero = b.real(0.0);
            for (m, _) in &sums {
                b.push(Stmt::Declare(*m, zero));
            }
            b.push(Stmt::For { id: outer, range, body });
        }
        stores.extend(sums);
    }
    let mut totals: BTreeMap<Target, Val> = BTreeMap::new();
    for (m, target) in stores {
        let sum = b.emit(Op::Read(m), Type::Real);
        let total = totals.get(&target).map_or(sum, |t| b.real_op(Op::Add(*t, sum)));
        totals.insert(target, total);
    }
    store_sums(kernel, &mut b, totals, channel_sums);
    Ok(b)
}
