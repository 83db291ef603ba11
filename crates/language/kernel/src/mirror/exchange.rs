//! The contributions of a loop's body from the point of view of the other side.

use super::*;

/// The substitution that exchanges the two sides of a pair or member.
pub(super) struct Exchange {
    /// Stands for the row.
    pub(super) row: Val,
    /// Stands for the pair's column, or the member that the loop visits.
    pub(super) member: Val,
    /// The loop.
    pub(super) loop_id: LoopId,
    /// The loop over pairs that replaces it, and whether its pairs are those of the first one seen from the other side.
    pub(super) new: Option<(LoopId, bool)>,
    /// Stands for the place of the pair or member.
    pub(super) place: Option<Val>,
    /// The dimension of the launch, where it is not the kernel's own.
    pub(super) column: Option<Dim>,
}

/// Copies the contributions of a loop's body with the two sides exchanged.
pub(super) struct Exchanged<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) src: &'a Body,
    pub(super) b: &'a mut Body,
    pub(super) by: Exchange,
    /// Values of the mirrored body, for ops that the exchange leaves unchanged.
    pub(super) same: Option<ValueMap>,
    /// Exchanged values, block by block.
    pub(super) known: Vec<HashMap<Val, Val>>,
    pub(super) accs: HashMap<Acc, Acc>,
    pub(super) sums: Vec<(Acc, Target)>,
    /// Sums that hold contributions to channels.
    pub(super) channel_sums: ChannelSums,
    /// Whether sums are declared where they are made, because no loop is around them.
    pub(super) declare_at_once: bool,
    /// Values of other rows that depend on those rows' sums.
    pub(super) hidden: Option<&'a mut Hidden>,
}

impl<'a> Exchanged<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        src: &'a Body,
        b: &'a mut Body,
        by: Exchange,
        same: Option<ValueMap>,
    ) -> Self {
        let (known, accs) = (vec![HashMap::default()], HashMap::default());
        Self {
            kernel,
            src,
            b,
            by,
            same,
            known,
            accs,
            sums: vec![],
            channel_sums: ChannelSums::new(),
            declare_at_once: false,
            hidden: None,
        }
    }

    fn value(&mut self, v: Val) -> Result<Val, String> {
        if let Some(n) = self.known.iter().rev().find_map(|k| k.get(&v)) {
            return Ok(*n);
        }
        let op = self.src.op(v).clone();
        let of_row = self.src.depth_of(v) == 0 && self.src.ty(v) == Type::Real;
        let n = match op {
            Op::Const(bits) => self.b.real(f64::from_bits(bits)),
            Op::Int(i) => self.b.op_value(Op::Int(i)),
            Op::Channel(..) => self.b.emit(op, self.src.ty(v)),
            Op::Row => self.by.row,
            Op::PairColumn(l) | Op::LoopVar(l) if l == self.by.loop_id => self.by.member,
            Op::Place(l) if l == self.by.loop_id => match self.by.place {
                Some(place) => place,
                None => return Err("the place of a pair is not the same from both sides".into()),
            },
            Op::PlaceIn { row, .. } if *self.src.op(row) == Op::Row => match *self.b.op(self.by.row) {
                Op::LoopVar(l) => self.b.real_op(Op::Place(l)),
                _ => return Err("the place of a row that no loop visits".into()),
            },
            Op::PairShift(l, c) if l == self.by.loop_id => {
                let Some((new, reversed)) = self.by.new else { return Err("a shift without a pair".into()) };
                let shift = self.b.real_op(Op::PairShift(new, c));
                if reversed { self.b.real_op(Op::Neg(shift)) } else { shift }
            }
            Op::PairEntry(l) if l == self.by.loop_id => match self.by.new {
                Some((new, false)) => self.b.emit(Op::PairEntry(new), self.src.ty(v)),
                _ => return Err("the entry of a pair is not the same from both sides".into()),
            },
            Op::IndexOf { param, array: Array::SystemOf, row } if *self.src.op(row) == Op::Row => {
                self.system(v, param)?
            }
            Op::ReadChannel(sum, c) => {
                let (width, channel) = (self.src.width(c), Some(self.value(c)?));
                let Some(hidden) = &mut self.hidden else { return Err("a sum of another row".into()) };
                let (param, row) = (hidden.channel_number(sum, width), Some(self.by.row));
                let role = Role::hidden_channels(width);
                self.b.real_op(Op::Load { param, role, row, component: 0, channel })
            }
            _ if of_row && depends_on_sums(self.src, v) => {
                let Some(hidden) = &mut self.hidden else { return Err("a sum of another row".into()) };
                let (param, row) = (hidden.number(v), Some(self.by.row));
                self.b.real_op(Op::Load { param, role: Role::HIDDEN, row, component: 0, channel: None })
            }
            op => {
                let op = op.try_map_args(|a| self.value(a))?;
                self.b.copy_op(op, self.src.ty(v))
            }
        };
        // The value may have been placed further out than this block; it is valid here in any case.
        self.known.last_mut().expect("a block is open").insert(v, n);
        Ok(n)
    }

    /// The system of the other side: pairs and members never leave their system.
    fn system(&mut self, v: Val, batch: ParamId) -> Result<Val, String> {
        let (Some(columns), Kind::Batch { systems, .. }) = (self.by.column, self.kernel.params[batch].kind)
        else {
            return match &self.same {
                Some(same) => Ok(same[&v]),
                None => Err("a system without its row".into()),
            };
        };
        let Some(batch) = self.kernel.batch_of(columns, systems) else {
            let (columns, systems) = (&self.kernel.dims[columns], &self.kernel.dims[systems]);
            return Err(format!(
                "the columns' systems are not known: declare `&Batch<{columns}, {systems}>` as well"
            ));
        };
        let row = self.by.member;
        Ok(self.b.emit(Op::system(batch, row), Type::Index(systems)))
    }

    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    let op = self.src.op(*v);
                    if let Some(m) = op.of_acc().and_then(|m| self.accs.get(&m)) {
                        let n = self.b.emit(op.with_acc(*m), Type::Real);
                        self.known.last_mut().expect("a block is open").insert(*v, n);
                    }
                }
                Stmt::Declare(m, _)
                | Stmt::DeclareBest(m, _)
                | Stmt::Accumulate(m, _)
                | Stmt::Raise { acc: m, .. } => {
                    if s.is_declaration() {
                        let fresh = self.b.new_acc();
                        self.accs.insert(*m, fresh);
                    }
                    if let Some(m) = self.accs.get(m).copied() {
                        let s = s.try_map_args(|v| self.value(v))?.with_acc(m);
                        self.b.push(s);
                    }
                }
                Stmt::Store { .. } | Stmt::DeclareChannels(..) | Stmt::AccumulateChannel { .. } => {}
                Stmt::Contribute { param, role, row: Some(row), component, channel, value } => {
                    let theirs = match self.src.op(*row) {
                        Op::PairColumn(l) | Op::LoopVar(l) => *l == self.by.loop_id,
                        _ => false,
                    };
                    if theirs {
                        let value = self.value(*value)?;
                        let (target, channel) = Target::of(self.src, *param, *role, *component, *channel);
                        if let Some(channel) = channel {
                            let channel = self.value(channel)?;
                            let sum = channel_sum(self.kernel, self.b, &mut self.channel_sums, target);
                            self.b.push(Stmt::AccumulateChannel { sum, channel, value });
                            continue;
                        }
                        let m = self.b.new_acc();
                        if self.declare_at_once {
                            let zero = self.b.real(0.0);
                            self.b.push(Stmt::Declare(m, zero));
                        }
                        self.b.push(Stmt::Accumulate(m, value));
                        self.sums.push((m, target));
                    }
                }
                Stmt::Contribute { row: None, .. } => {}
                Stmt::For { id, range, body } => {
                    let (range, ty) = match *range {
                        Range::Ints(lo, hi) => (Range::Ints(self.value(lo)?, self.value(hi)?), Type::Int),
                        Range::Channels(dim) => (*range, Type::Index(dim)),
                        _ => return Err("a loop over data inside a loop over data has no transpose: make the inner one a kernel of its own, with an \
                             array between them".into()),
                    };
                    self.known.push(HashMap::default());
                    if matches!(range, Range::Channels(_)) {
                        self.b.open_channels();
                    } else {
                        self.b.open(true);
                    }
                    let fresh = self.b.new_loop();
                    let vars = [(Op::LoopVar(*id), ty), (Op::Place(*id), Type::Real)];
                    for (op, ty) in vars {
                        if let Some(v) = (0..self.src.len()).find(|v| *self.src.op(*v) == op) {
                            let n = self.b.emit(op.with_loop(fresh), ty);
                            self.known.last_mut().expect("just pushed").insert(v, n);
                        }
                    }
                    self.block(body)?;
                    let body = self.b.close();
                    self.known.pop();
                    self.b.push(Stmt::For { id: fresh, range, body });
                }
                Stmt::If { .. } => return Err("a branch in a loop over data was not straightened".into()),
                s => s.refuse_without_adjoint(),
            }
        }
        Ok(())
    }
}
