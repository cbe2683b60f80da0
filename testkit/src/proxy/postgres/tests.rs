use super::*;

fn startup() -> Vec<u8> {
    let body = [&196_608_u32.to_be_bytes()[..], b"user\0someone\0\0"].concat();
    [&u32::try_from(body.len() + 4).expect("short").to_be_bytes()[..], &body].concat()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &u32::try_from(body.len() + 4).expect("short").to_be_bytes(), body].concat()
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

fn bind(portal: &str, name: &str) -> Vec<u8> {
    message(b'B', format!("{portal}\0{name}\0\0\0\0\0\0\0").as_bytes())
}

fn execute(portal: &str) -> Vec<u8> {
    message(b'E', format!("{portal}\0\0\0\0\0").as_bytes())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// What is executed, when the bytes come in pieces of `size`.
fn executed(bytes: &[u8], size: usize) -> Vec<String> {
    let mut conversation = Conversation::default();
    let mut seen = Vec::new();
    for piece in bytes.chunks(size) {
        conversation.client_sends(piece, |sql| {
            seen.push(sql.to_owned());
            false
        });
    }
    seen
}

#[test]
fn statements_are_read_however_the_bytes_are_split() {
    let bytes = [
        startup(),
        message(b'p', b"password\0"),
        query("BEGIN"),
        parse("s1", "INSERT INTO t VALUES ($1)"),
        parse("", "COMMIT"),
        message(b'D', b"Ss1\0"),
        bind("", "s1"),
        execute(""),
        sync(),
        message(b'd', &[b'Q'; 3000]),
        bind("p", ""),
        execute("p"),
        sync(),
    ]
    .concat();
    for size in 1..bytes.len() {
        assert_eq!(executed(&bytes, size), ["BEGIN", "INSERT INTO t VALUES ($1)", "COMMIT"], "pieces of {size}");
    }
}

#[test]
fn parsing_a_statement_is_not_executing_it() {
    assert!(executed(&[startup(), parse("c", "COMMIT"), sync()].concat(), 7).is_empty());
}

#[test]
fn prepared_statement_matches_each_time_it_is_executed() {
    let run = [bind("", "c"), execute(""), sync()].concat();
    let bytes = [startup(), parse("c", "COMMIT"), run.clone(), run].concat();
    assert_eq!(executed(&bytes, 5), ["COMMIT", "COMMIT"]);
}

#[test]
fn closed_statement_is_forgotten() {
    let bytes = [startup(), parse("c", "COMMIT"), message(b'C', b"Sc\0"), bind("", "c"), execute(""), sync()].concat();
    assert_eq!(executed(&bytes, 11), [""]);
}

#[test]
fn text_that_only_looks_like_a_query_does_not_match() {
    let other = message(b'd', &query("COMMIT"));
    assert!(executed(&[startup(), other].concat(), 4).is_empty());
    assert!(executed(b"GET /COMMIT HTTP/1.1\r\nHost: Q\r\n\r\n", 3).is_empty());
    assert!(executed(&query("COMMIT"), 100).is_empty(), "no start-up message came before it");
}

#[test]
fn refused_encryption_is_followed_by_the_startup_message() {
    let mut conversation = Conversation::default();
    let request = [&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat();
    assert!(!conversation.client_sends(&request, |_| true));
    conversation.server_sends(b"N");
    conversation.client_sends(&startup(), |_| true);
    assert!(conversation.client_sends(&query("COMMIT"), is_commit()));
    assert_eq!(conversation.server_sends(&ready()), Answer { earlier: 6, complete: false });
    assert_eq!(conversation.server_sends(&ready()), Answer { earlier: 0, complete: true });
}

#[test]
fn encrypted_connection_is_never_matched() {
    let mut conversation = Conversation::default();
    conversation.client_sends(&[&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat(), |_| true);
    conversation.server_sends(b"S");
    assert!(!conversation.client_sends(&[startup(), query("COMMIT")].concat(), |_| true));
}

#[test]
fn answers_to_earlier_statements_are_told_from_the_lost_one() {
    for size in 1..40 {
        let mut conversation = Conversation::default();
        let pipelined = [startup(), query("INSERT"), query("COMMIT")].concat();
        assert!(conversation.client_sends(&pipelined, is_commit()));
        let earlier = [message(b'R', &[0; 4]), ready(), message(b'C', b"INSERT 0 1\0"), ready()].concat();
        let lost = [message(b'C', b"COMMIT\0"), ready()].concat();
        let (mut passed, mut completed_at, mut offset) = (0, None, 0);
        for piece in [earlier.clone(), lost.clone()].concat().chunks(size) {
            let answer = conversation.server_sends(piece);
            passed += answer.earlier;
            offset += piece.len();
            if answer.complete {
                completed_at = completed_at.or(Some(offset));
            }
        }
        assert_eq!(passed, earlier.len(), "pieces of {size}");
        assert_eq!(completed_at, Some(earlier.len() + lost.len()), "pieces of {size}");
    }
}

#[test]
fn answer_to_an_executed_statement_ends_with_its_sync() {
    let mut conversation = Conversation::default();
    conversation.client_sends(&startup(), |_| true);
    conversation.server_sends(&ready());
    let group = [parse("", "COMMIT"), bind("", ""), execute("")].concat();
    assert!(conversation.client_sends(&group, is_commit()));
    assert_eq!(conversation.server_sends(&message(b'1', b"")), Answer { earlier: 0, complete: false });
    conversation.client_sends(&sync(), |_| true);
    assert_eq!(conversation.server_sends(&ready()), Answer { earlier: 0, complete: true });
}
