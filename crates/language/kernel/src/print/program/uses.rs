//! Uses of registers, and where each is declared: where it is first written, if the block of that statement holds all of its
//! uses, and otherwise at the head of the innermost block that does.

use super::names::declaration;
use crate::program::{Class, Instruction as I, Program, Register, Use};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// Path of a block: the addresses of the first instructions of the blocks around it, and of its own.
type Path = Vec<usize>;

struct Usage {
    /// The innermost block that holds all uses.
    home: Path,
    /// The first use, if it is a write, and its block.
    first: Option<(*const I, Path)>,
    writes: usize,
}

/// The registers that statements or heads of blocks declare.
pub(super) struct Uses {
    /// The statement that declares a register, and whether others write it, too.
    by_statement: HashMap<Register, (*const I, bool)>,
    at_heads: HashMap<Path, Vec<Register>>,
}

impl Uses {
    pub(super) fn new(program: &Program) -> Self {
        let mut found = Found::default();
        found.block(&program.body);
        // Constants, rows and variables of loops have their own declarations.
        let constants = program.scalars.iter().map(|(r, _)| (Class::Scalar, r.0));
        let constants = constants.chain(program.integers.iter().map(|(r, _)| (Class::Integer, r.0)));
        let constants = constants.chain(program.vectors.iter().map(|(r, _)| (Class::One, *r)));
        let rows = program.rows.map(|r| (Class::Integer, r.0));
        for r in constants.chain(rows).chain(found.turns) {
            found.usages.remove(&r);
        }
        let mut uses = Self { by_statement: HashMap::default(), at_heads: HashMap::default() };
        for (r, Usage { home, first, writes }) in found.usages {
            match first {
                Some((i, path)) if path == home => {
                    uses.by_statement.insert(r, (i, writes > 1));
                }
                _ => uses.at_heads.entry(home).or_default().push(r),
            }
        }
        uses
    }

    /// The word ahead of a register's name where an instruction declares it.
    pub(super) fn declares(&self, r: Register, i: *const I) -> Option<&'static str> {
        let (by, is_changed) = self.by_statement.get(&r)?;
        (*by == i).then_some(if *is_changed { "mut " } else { "" })
    }

    /// Declarations at the head of a block.
    pub(super) fn heads(&self, path: &Path) -> Vec<String> {
        let mut registers = self.at_heads.get(path).cloned().unwrap_or_default();
        registers.sort_unstable();
        registers.into_iter().map(declaration).collect()
    }
}

#[derive(Default)]
struct Found {
    usages: HashMap<Register, Usage>,
    turns: HashSet<Register>,
    path: Path,
}

impl Found {
    fn block(&mut self, block: &[I]) {
        self.path.push(block.as_ptr() as usize);
        for i in block {
            i.registers(&mut |r, of| match of {
                Use::Turn => {
                    self.turns.insert(r);
                }
                _ => self.is_used(r, of, i),
            });
            match i {
                I::Strip { before, body, after, .. } => {
                    self.block(before);
                    // The channels of a pair are within the block of the pair.
                    self.path.push(before.as_ptr() as usize);
                    self.block(body);
                    self.path.pop();
                    self.block(after);
                }
                _ => i.blocks().for_each(|block| self.block(block)),
            }
        }
        self.path.pop();
    }

    fn is_used(&mut self, r: Register, of: Use, i: *const I) {
        let path = &self.path;
        let usage = self.usages.entry(r).or_insert_with(|| {
            let first = (of == Use::Write).then(|| (i, path.clone()));
            Usage { home: path.clone(), first, writes: 0 }
        });
        let shared = usage.home.iter().zip(path).take_while(|(a, b)| a == b).count();
        usage.home.truncate(shared);
        usage.writes += usize::from(of != Use::Read);
    }
}
