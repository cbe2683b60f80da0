use super::*;

/// What current clients and servers have; the end of a list of columns is left out.
const CURRENT: u32 = PROTOCOL_41 | DEPRECATE_EOF;

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).expect("short").to_le_bytes();
    bytes[3] = sequence;
    [&bytes[..], payload].concat()
}

fn greeting(capabilities: u32) -> Vec<u8> {
    let [a, b, c, d] = capabilities.to_le_bytes();
    let fixed = [a, b, 45, 2, 0, c, d, 21];
    packet(0, &[&b"\x0a10.11.19-MariaDB\0"[..], &[1, 0, 0, 0], b"12345678\0", &fixed, &[0; 30]].concat())
}

fn login(capabilities: u32) -> Vec<u8> {
    packet(1, &[&capabilities.to_le_bytes()[..], &[0; 28], b"someone\0"].concat())
}

fn ok(sequence: u8, status: u16) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    packet(sequence, &[0, 1, 0, low, high, 0, 0])
}

fn query(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x03", sql.as_bytes()].concat())
}

fn prepare(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x16", sql.as_bytes()].concat())
}

fn prepared(number: u8, columns: u8, parameters: u8) -> Vec<u8> {
    packet(1, &[0, number, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0])
}

fn execute(number: u8) -> Vec<u8> {
    packet(0, &[0x17, number, 0, 0, 0, 0, 1, 0, 0, 0])
}

/// A connection whose client has been let in.
fn connected(capabilities: u32) -> Conversation {
    let mut conversation = Conversation::default();
    conversation.server_sends(&greeting(u32::MAX));
    assert!(!conversation.client_sends(&login(capabilities), |_| true));
    conversation.server_sends(&ok(2, 2));
    conversation
}

/// What is executed, when the client's bytes come in pieces of `size` and each is answered so before the next.
fn executed(conversation: &mut Conversation, bytes: &[u8], size: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for piece in bytes.chunks(size) {
        conversation.client_sends(piece, |sql| {
            seen.push(sql.to_owned());
            false
        });
    }
    seen
}

/// Checks which of the server's bytes belong to answers before the lost one, however they are split.
fn lost_after(conversation: impl Fn() -> Conversation, earlier: &[u8], lost: &[u8]) {
    let whole = [earlier, lost].concat();
    for size in 1..=whole.len() {
        let mut conversation = conversation();
        let (mut passed, mut completed_at, mut offset) = (0, None, 0);
        for piece in whole.chunks(size) {
            let answer = conversation.server_sends(piece);
            passed += answer.earlier;
            offset += piece.len();
            if answer.complete {
                completed_at = completed_at.or(Some(offset));
            }
        }
        assert_eq!(passed, earlier.len(), "pieces of {size}");
        assert_eq!(completed_at, Some(whole.len()), "pieces of {size}");
    }
}

#[test]
fn statements_are_read_however_the_bytes_are_split() {
    let long = format!("SELECT '{}'", "x".repeat(70_000));
    let bytes = [query("BEGIN"), packet(0, &[0x0e]), prepare("COMMIT"), query(&long), query("COMMIT")].concat();
    for size in (1..40).chain([4096, bytes.len()]) {
        assert_eq!(executed(&mut connected(CURRENT), &bytes, size), ["BEGIN", &long, "COMMIT"], "pieces of {size}");
    }
}

#[test]
fn prepared_statement_matches_each_time_it_is_executed_and_not_when_it_is_prepared_or_closed() {
    let mut conversation = connected(CURRENT);
    assert!(executed(&mut conversation, &prepare("COMMIT"), 3).is_empty());
    conversation.server_sends(&prepared(7, 0, 0));
    assert_eq!(executed(&mut conversation, &[execute(7), execute(8), execute(7)].concat(), 5), ["COMMIT", "COMMIT"]);
    let closed = packet(0, &[0x19, 7, 0, 0, 0]);
    assert!(executed(&mut conversation, &[closed, execute(7)].concat(), 4).is_empty());
}

#[test]
fn answers_to_earlier_statements_are_told_from_the_lost_one() {
    let conversation = || {
        let mut conversation = connected(CURRENT);
        let closed = packet(0, &[0x19, 9, 0, 0, 0]);
        let pipelined = [query("INSERT"), prepare("SELECT"), closed, query("SELECT"), query("COMMIT"), query("NEXT")];
        assert!(conversation.client_sends(&pipelined.concat(), is_commit()));
        conversation
    };
    let column = packet(2, b"\x03def");
    let earlier = [
        ok(1, 0),
        // Two parameters and a column.
        [prepared(1, 1, 2), column.clone(), column.clone(), column.clone()].concat(),
        // Two columns and two rows, of which one begins like an OK packet.
        [packet(1, &[2]), column.clone(), column.clone(), packet(4, b"\x00a"), packet(5, b"\x01bc")].concat(),
        packet(6, &[0xfe, 0, 0, 2, 0, 0, 0]),
    ];
    lost_after(conversation, &earlier.concat(), &ok(1, 0));
}

#[test]
fn several_results_of_one_query_are_one_answer() {
    let conversation = || {
        let mut conversation = connected(CURRENT);
        assert!(
            conversation.client_sends(&[query("ROLLBACK; SELECT 1; BEGIN"), query("COMMIT")].concat(), is_commit())
        );
        conversation
    };
    let rows = [packet(2, &[1]), packet(3, b"\x03def"), packet(4, b"\x011"), packet(5, &[0xfe, 0, 0, 8, 0, 0, 0])];
    let earlier = [ok(1, 8), rows.concat(), ok(6, 1)];
    lost_after(conversation, &earlier.concat(), &ok(1, 0));
}

#[test]
fn lists_of_columns_end_where_client_or_server_is_old() {
    let conversation = || {
        let mut conversation = connected(PROTOCOL_41);
        let asked = [query("SELECT 1"), prepare("SELECT ?"), query("COMMIT")].concat();
        assert!(conversation.client_sends(&asked, is_commit()));
        conversation
    };
    let (column, end) = (packet(2, b"\x03def"), packet(3, &[0xfe, 0, 0, 2, 0]));
    let rows = [packet(1, &[1]), column.clone(), end.clone(), packet(4, b"\x011"), end.clone()];
    let statement = [prepared(1, 1, 1), column.clone(), end.clone(), column, end];
    lost_after(conversation, &[rows.concat(), statement.concat()].concat(), &ok(1, 0));
}

#[test]
fn an_error_ends_an_answer_wherever_it_comes() {
    let conversation = || {
        let mut conversation = connected(CURRENT);
        let asked = [query("SELECT"), query("SELECT"), prepare("WRONG"), query("COMMIT")].concat();
        assert!(conversation.client_sends(&asked, is_commit()));
        conversation
    };
    let error = |sequence| packet(sequence, b"\xff\xbd\x04#HY000no");
    let half = [packet(1, &[1]), packet(2, b"\x03def"), packet(3, b"\x011"), error(4)];
    lost_after(conversation, &[error(1), half.concat(), error(1)].concat(), &error(1));
}

#[test]
fn a_packet_of_several_pieces_is_one() {
    let mut conversation = connected(CURRENT);
    assert!(conversation.client_sends(&[query("SELECT"), query("COMMIT")].concat(), is_commit()));
    let mut piece = vec![0xff, 0xff, 0xff, 3];
    piece.resize(4 + 0xff_ffff, 0xfe);
    let earlier =
        [packet(1, &[1]), packet(2, b"\x03def"), piece, packet(4, &[0xfe]), packet(5, &[0xfe, 0, 0, 2, 0, 0, 0])];
    let earlier = earlier.concat();
    assert_eq!(conversation.server_sends(&earlier), Answer { earlier: earlier.len(), complete: false });
    assert_eq!(conversation.server_sends(&ok(1, 0)), Answer { earlier: 0, complete: true });
}

#[test]
fn authentication_may_take_several_exchanges() {
    let mut conversation = Conversation::default();
    conversation.server_sends(&greeting(u32::MAX));
    conversation.client_sends(&login(CURRENT), |_| true);
    conversation.server_sends(&packet(2, b"\xfecaching_sha2_password\0nonce"));
    // What looks like a query is the authentication method's.
    assert!(!conversation.client_sends(&packet(3, b"\x03COMMIT"), |_| true));
    conversation.server_sends(&packet(4, &[1, 3]));
    conversation.server_sends(&ok(5, 2));
    assert!(conversation.client_sends(&query("COMMIT"), is_commit()));
}

#[test]
fn what_cannot_be_read_is_passed_and_never_matched() {
    for capabilities in [CURRENT | SSL, CURRENT | COMPRESS, CURRENT | QUERY_ATTRIBUTES, 0] {
        assert!(executed(&mut connected(capabilities), &query("COMMIT"), 9).is_empty(), "{capabilities:x}");
    }
    let mut other = Conversation::default();
    assert!(!other.client_sends(&query("COMMIT"), |_| true), "no greeting came before it");
    let mut replication = connected(CURRENT);
    assert!(executed(&mut replication, &[packet(0, &[0x12, 4]), query("COMMIT")].concat(), 6).is_empty());
    let mut other = Conversation::default();
    other.server_sends(b"HTTP/1.1 200 OK\r\n\r\n");
    assert!(!other.client_sends(&query("COMMIT"), |_| true));
}
