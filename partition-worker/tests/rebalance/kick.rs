//! Takes members out of a group behind their back, by requests in Kafka's protocol, which the client library does not offer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::groups::GroupInfo;

const LIMIT: Duration = Duration::from_secs(30);

const LEAVE_GROUP: i16 = 13;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
const CONSUMER_GROUP_DESCRIBE: i16 = 69;

/// Takes all members out of a group of the classic protocol; answers how many there were.
pub(crate) fn members(bootstrap: &str, group: &str) -> usize {
    let mut broker = connection(bootstrap);
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().expect("a client");
    let groups = client.fetch_group_list(Some(group), LIMIT).expect("the group");
    let members = groups.groups().iter().flat_map(GroupInfo::members);
    members.map(|member| leave_group(&mut broker, group, member.id())).count()
}

/// The same of a group of `group.protocol=consumer`.
pub(crate) fn members_of_consumer_group(bootstrap: &str, group: &str) -> usize {
    let mut broker = connection(bootstrap);
    let members = of_consumer_group(&mut broker, group);
    for member in &members {
        leave_consumer_group(&mut broker, group, member);
    }
    members.len()
}

fn connection(bootstrap: &str) -> TcpStream {
    let broker = TcpStream::connect(bootstrap).expect("a connection");
    broker.set_read_timeout(Some(LIMIT)).expect("a time-out");
    broker
}

fn leave_group(broker: &mut TcpStream, group: &str, member: &str) {
    let mut body = Vec::new();
    for text in [group, member] {
        body.extend(i16::try_from(text.len()).expect("short").to_be_bytes());
        body.extend(text.as_bytes());
    }
    // Version 2: time of throttling, error.
    let answer = ask(broker, LEAVE_GROUP, 2, false, &body);
    assert_eq!(answer[4..6], [0, 0], "the member was one");
}

/// An epoch of -1: the member leaves (KIP-848).
fn leave_consumer_group(broker: &mut TcpStream, group: &str, member: &str) {
    let mut body = compact(group);
    body.extend(compact(member));
    body.extend((-1_i32).to_be_bytes());
    // Neither instance nor rack.
    body.extend([0, 0]);
    body.extend((-1_i32).to_be_bytes());
    // No subscription, assignor, partitions or tags.
    body.extend([0, 0, 0, 0]);
    let answer = ask(broker, CONSUMER_GROUP_HEARTBEAT, 0, true, &body);
    assert_eq!(answer[4..6], [0, 0], "the member was one");
}

fn of_consumer_group(broker: &mut TcpStream, group: &str) -> Vec<String> {
    // One group, nothing of authorisations, no tags.
    let mut body = vec![2];
    body.extend(compact(group));
    body.extend([0, 0]);
    let answer = ask(broker, CONSUMER_GROUP_DESCRIBE, 0, true, &body);
    // After the time of throttling and the number of groups.
    let mut left = &answer[5..];
    assert_eq!(skip(&mut left, 2), [0, 0], "the group is described");
    for _ in ["error", "group", "state"] {
        text(&mut left);
    }
    skip(&mut left, 8); // epochs of the group and its assignment
    text(&mut left);
    let members = length(&mut left);
    assert!(members <= 1, "one member is read");
    (0..members).map(|_| text(&mut left)).collect()
}

/// One request; the answer, without its header.
fn ask(broker: &mut TcpStream, api: i16, version: i16, flexible: bool, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(7_i32.to_be_bytes());
    // No name of the client.
    request.extend((-1_i16).to_be_bytes());
    if flexible {
        request.push(0);
    }
    request.extend(body);
    broker.write_all(&u32::try_from(request.len()).expect("short").to_be_bytes()).expect("it listens");
    broker.write_all(&request).expect("it listens");
    let mut size = [0; 4];
    broker.read_exact(&mut size).expect("an answer");
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(size)).expect("short")];
    broker.read_exact(&mut answer).expect("an answer");
    answer.split_off(if flexible { 5 } else { 4 })
}

fn compact(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).expect("short");
    assert!(length < 128, "a length of one byte");
    [&[length], text.as_bytes()].concat()
}

fn length(left: &mut &[u8]) -> usize {
    usize::from(skip(left, 1)[0]).saturating_sub(1)
}

fn text(left: &mut &[u8]) -> String {
    let length = length(left);
    String::from_utf8(skip(left, length).to_vec()).expect("it is text")
}

fn skip<'a>(left: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (skipped, rest) = left.split_at(bytes);
    *left = rest;
    skipped
}
