//! Command lines as words.

/// Splits a command line into words as a shell does: blanks, single and double quotes, backslash. No expansion.
pub fn split_command(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let into = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err(format!("the quote {character} in `{line}` is not closed")),
                        Some(c) if c == character => break,
                        Some('\\') if character == '"' => into.extend(characters.next()),
                        Some(c) => into.push(c),
                    }
                }
            }
            '\\' => match characters.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(format!("`{line}` ends with a backslash")),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() { Err("the command is empty".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split_like_a_shell_does() {
        for (line, words) in [
            ("a b  c", vec!["a", "b", "c"]),
            ("sh -c 'while :; do :; done'", vec!["sh", "-c", "while :; do :; done"]),
            (r#"a "b \"c\"" d\ e"#, vec!["a", r#"b "c""#, "d e"]),
            ("a ''", vec!["a", ""]),
        ] {
            assert_eq!(split_command(line).unwrap(), words, "{line}");
        }
        for line in ["", "  ", "a 'b", "a \\"] {
            assert!(split_command(line).is_err(), "{line}");
        }
    }
}
