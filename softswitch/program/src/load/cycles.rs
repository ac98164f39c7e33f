// SPDX-License-Identifier: Apache-2.0
//! Checks that pipelines end: their control flow has no cycle.

use super::{Loader, Result, invalid};
use crate::ir::Node;

impl Loader<'_> {
    /// Refuses a pipeline with a cycle, which would never end.
    pub(super) fn check_acyclic(&self) -> Result<()> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let (tables, conditions) = (self.ir.tables.len(), self.ir.conditions.len());
        let number = |node: Node| match node {
            Node::End => None,
            Node::Table(i) => Some(usize::from(i)),
            Node::Condition(i) => Some(tables + usize::from(i)),
            Node::Call(i) => Some(tables + conditions + usize::from(i)),
        };
        let edges = |n: usize| -> Vec<usize> {
            let nodes: Vec<Node> = if let Some(t) = self.ir.tables.get(n) {
                t.next
                    .iter()
                    .copied()
                    .chain(t.hit)
                    .chain(t.miss)
                    .chain([t.base_next])
                    .collect()
            } else if let Some(c) = self.ir.conditions.get(n - tables) {
                vec![c.if_true, c.if_false]
            } else {
                self.ir
                    .calls
                    .get(n - tables - conditions)
                    .map(|c| c.next)
                    .into_iter()
                    .collect()
            };
            nodes.into_iter().filter_map(number).collect()
        };
        let total = tables + conditions + self.ir.calls.len();
        let mut marks = vec![Mark::New; total];
        for root in 0..total {
            let mut stack = vec![(root, false)];
            while let Some((n, leaving)) = stack.pop() {
                if leaving {
                    marks[n] = Mark::Done;
                    continue;
                }
                if marks[n] == Mark::Done {
                    continue;
                }
                marks[n] = Mark::Open;
                stack.push((n, true));
                for next in edges(n) {
                    match marks.get(next) {
                        Some(Mark::Open) => {
                            return Err(invalid(
                                "pipelines",
                                "the control flow comes back to an earlier node".into(),
                            ));
                        }
                        Some(Mark::New) => stack.push((next, false)),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}
