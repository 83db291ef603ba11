//! The tape: what ops save, nested tapes, memory, checkpoints.

mod memory;
mod nested;
mod saved;
mod support;
