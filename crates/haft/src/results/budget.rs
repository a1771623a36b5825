//! The turn's budget over all results.
//!
//! Ten results within their limits can still be too much together. [`fit_to_budget`] shrinks as few as it
//! can, and the same ones every time: results keep their order, every one is counted, errors too, and the
//! largest go first. First the limited ones become previews with a file. Then the unlimited ones become pages
//! without a file, since the tool that would read the file back is the one that made it; those that can't be
//! asked for the part that follows get a file all the same, so that nothing is lost. Only when that isn't
//! enough do all share alike.
//!
//! Who shrinks to what is planned on numbers alone before anything is written, so no result is cut twice.

use std::cmp::Reverse;

use super::{LimitedOutput, OffloadStore, ResultLimit, output_bytes, output_chars};
use crate::limits;

/// One result of a turn, as [`fit_to_budget`] takes it.
#[derive(Debug)]
pub struct BudgetedResult<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The result so far, changed in place.
    pub settled: &'a mut LimitedOutput,
    /// The limit that it was settled with.
    pub limit: ResultLimit,
    /// Whether the tool can be asked for the part that follows.
    pub pages: bool,
    /// Set when this result had to shrink.
    pub changed: bool,
}

impl<'a> BudgetedResult<'a> {
    /// A result of this tool, not yet changed, of which the part that follows can't be asked for.
    pub fn new(tool: &'a str, settled: &'a mut LimitedOutput, limit: ResultLimit) -> BudgetedResult<'a> {
        BudgetedResult { tool, settled, limit, pages: false, changed: false }
    }

    /// Whether the tool can be asked for the part that follows.
    #[must_use]
    pub fn pages(mut self, pages: bool) -> BudgetedResult<'a> {
        self.pages = pages;
        self
    }
}

/// Brings the results of a turn, in the order of their calls, within `budget_chars` together.
///
/// Afterwards the sum is within the budget if that is at least [`limits::RESULT_CHARS_MIN`] for every result.
/// Results that are within it already are only measured.
///
/// 1. The largest limited result becomes a preview of [`limits::PREVIEW_CHARS`], the later one of two equals,
///    until the sum fits or none is longer than that.
/// 2. The unlimited ones are cut, all to the one length that makes the sum fit: to pages, or where the tool
///    has none, to previews with a file.
/// 3. If that length is below a preview's, every result gets an equal share; short ones leave theirs to
///    others.
pub fn fit_to_budget(results: &mut [BudgetedResult<'_>], budget_chars: usize, store: &OffloadStore) {
    // Bytes bound characters from above, so most turns end here.
    if results.iter().map(|result| output_bytes(&result.settled.output)).sum::<usize>() <= budget_chars {
        return;
    }
    let sizes: Vec<ResultSize> = results
        .iter()
        .map(|result| ResultSize {
            chars: output_chars(&result.settled.output),
            is_limited: result.limit != ResultLimit::Unlimited,
        })
        .collect();
    let targets = plan_limits(&sizes, budget_chars);
    for ((result, size), target) in results.iter_mut().zip(sizes).zip(targets) {
        if size.chars <= target {
            continue;
        }
        let pages = result.pages && !size.is_limited && result.settled.offloaded_to.is_none();
        if pages {
            result.settled.turn_to_page(result.tool, target);
        } else {
            result.settled.shorten(result.tool, target, store);
        }
        result.changed = true;
    }
}

#[derive(Clone, Copy)]
struct ResultSize {
    chars: usize,
    is_limited: bool,
}

/// Returns how many characters each result may have.
fn plan_limits(sizes: &[ResultSize], budget: usize) -> Vec<usize> {
    let mut targets: Vec<usize> = sizes.iter().map(|size| size.chars).collect();
    let mut sum: usize = targets.iter().sum();

    let mut largest_first: Vec<usize> = (0..sizes.len()).filter(|index| sizes[*index].is_limited).collect();
    largest_first.sort_by_key(|index| Reverse((sizes[*index].chars, *index)));
    for index in largest_first {
        if sum <= budget {
            return targets;
        }
        if targets[index] <= limits::PREVIEW_CHARS {
            break;
        }
        sum -= targets[index] - limits::PREVIEW_CHARS;
        targets[index] = limits::PREVIEW_CHARS;
    }
    if sum <= budget {
        return targets;
    }

    let unlimited = || sizes.iter().filter(|size| !size.is_limited).map(|size| size.chars);
    let limited_sum = sum - unlimited().sum::<usize>();
    let page = fair_share(unlimited().collect(), budget.saturating_sub(limited_sum));
    // Without unlimited results the page is endless, and this changes nothing.
    if limited_sum <= budget && page >= limits::PREVIEW_CHARS {
        for (target, size) in targets.iter_mut().zip(sizes) {
            if !size.is_limited {
                *target = size.chars.min(page);
            }
        }
        return targets;
    }

    let share = fair_share(targets.clone(), budget).max(limits::RESULT_CHARS_MIN);
    targets.iter_mut().for_each(|target| *target = share.min(*target));
    targets
}

/// Returns the largest length to which all sizes can be cut so that their sum is within the budget.
fn fair_share(mut sizes: Vec<usize>, budget: usize) -> usize {
    sizes.sort_unstable();
    let mut room = budget;
    for (index, size) in sizes.iter().enumerate() {
        let left = sizes.len() - index;
        if size.saturating_mul(left) > room {
            return room / left;
        }
        room -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes as `5000` or, unlimited, as `5000u`.
    fn check(sizes: &str, budget: usize, expected: &str) {
        let sizes: Vec<ResultSize> = sizes
            .split_whitespace()
            .map(|word| ResultSize {
                chars: word.trim_end_matches('u').parse().expect("a number"),
                is_limited: !word.ends_with('u'),
            })
            .collect();
        let targets = plan_limits(&sizes, budget);
        let text = targets.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text, expected);
    }

    #[test]
    fn within_the_budget_all_keep_their_size() {
        check("", 0, "");
        check("10 20 30u", 60, "10 20 30");
    }

    #[test]
    fn the_largest_shrinks_first_and_the_later_of_equals() {
        check("5000 9000 5000", 12_000, "5000 2000 5000");
        check("5000 9000 5000", 11_999, "5000 2000 2000");
        check("5000 9000 5000", 6_000, "2000 2000 2000");
    }

    #[test]
    fn unlimited_ones_come_last_and_share_what_is_left() {
        check("50000u 9000", 52_000, "50000 2000");
        check("50000u 9000", 51_000, "49000 2000");
        check("50000u 3000u 9000 60000u", 25_000, "10000 3000 2000 10000");
    }

    #[test]
    fn when_nothing_else_helps_all_share_alike() {
        check("3000 100 3000 3000u", 3_000, "966 100 966 966");
        check("1500 1500", 2_000, "1000 1000");
        check("1900 50000u", 2_500, "1250 1250");
        check("1500 1500", 0, "200 200");
        check("50u 1500", 0, "50 200");
    }
}
