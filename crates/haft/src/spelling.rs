//! How far apart two spellings are, for everybody who says "did you mean".

/// How many characters have to change: insert, delete, replace, or swap two neighbours.
///
/// Takes time by the product of the lengths: cut what can be long before.
pub fn edit_distance(a: &[char], b: &[char]) -> usize {
    // The row above, and the one above that.
    let mut above: Vec<usize> = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            next[j + 1] = (row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                next[j + 1] = next[j + 1].min(above[j - 1] + 1);
            }
        }
        above = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_counts_once() {
        let edits =
            |a: &str, b: &str| edit_distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
        assert_eq!(edits("abc", "acb"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
