//! What is looked over at the broker.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;

use super::{Finding, Severity};

/// How long the broker may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Looks over topics at the broker that `config` names; the worst comes first. An empty answer says that nothing of this was found:
///
/// | about | what |
/// |---|---|
/// | `durability` | `min.insync.replicas` is 1 though there are more replicas: an acknowledged event can be lost with its leader; `unclean.leader.election.enable` |
/// | `replica` | a partition has one replica only, or some are not in sync |
/// | `topic` | it is not there, or its settings cannot be read |
///
/// # Errors
/// When there is no client, or the broker does not answer.
///
/// # Cancel safety
/// It only reads.
pub async fn doctor_kafka(config: &ClientConfig, topics: &[&str]) -> Result<Vec<Finding>, KafkaError> {
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(LIMIT));
    let settings = admin.describe_configs(&resources, &options).await?;
    let owned: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
    // librdkafka's metadata request blocks its thread.
    let asked =
        tokio::task::spawn_blocking(move || owned.iter().map(|topic| replicas(&admin, topic)).collect::<Vec<_>>());
    let replicas = asked.await.unwrap_or_default();
    let mut findings = Vec::new();
    for (topic, replicas) in topics.iter().zip(replicas) {
        let settings = settings.iter().flatten().find(|resource| is_of(resource, topic));
        judge(topic, settings, &replicas?, &mut findings);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// For each partition, its replicas and those in sync.
fn replicas(admin: &AdminClient<DefaultClientContext>, topic: &str) -> Result<Vec<(usize, usize)>, KafkaError> {
    let metadata = admin.inner().fetch_metadata(Some(topic), LIMIT)?;
    let of_topic = metadata.topics().iter().filter(|found| found.name() == topic && found.error().is_none());
    let partitions = of_topic.flat_map(rdkafka::metadata::MetadataTopic::partitions);
    Ok(partitions.map(|partition| (partition.replicas().len(), partition.isr().len())).collect())
}

fn is_of(resource: &ConfigResource, topic: &str) -> bool {
    matches!(&resource.specifier, OwnedResourceSpecifier::Topic(name) if name == topic)
}

fn judge(topic: &str, settings: Option<&ConfigResource>, partitions: &[(usize, usize)], findings: &mut Vec<Finding>) {
    let mut found = |severity, about, says: String, advice| findings.push(Finding::new(severity, about, says, advice));
    if partitions.is_empty() {
        let says = format!("{topic} is not there");
        return found(Severity::Warning, "topic", says, "Make it: events of an unknown topic cannot be sent.");
    }
    let replicated = partitions.iter().map(|(replicas, _)| *replicas).min().unwrap_or_default();
    if replicated < 2 {
        let says = format!("a partition of {topic} has one replica: what is acknowledged is lost with its broker");
        found(Severity::Warning, "replica", says, "Give it three replicas and min.insync.replicas=2.");
    }
    if partitions.iter().any(|(replicas, in_sync)| in_sync < replicas) {
        let says = format!("replicas of {topic} are not in sync");
        found(Severity::Warning, "replica", says, "See to the brokers.");
    }
    let setting = |name: &str| settings.and_then(|settings| settings.get(name)?.value.clone());
    let Some(in_sync) = setting("min.insync.replicas") else {
        let says = format!("the settings of {topic} cannot be read");
        return found(Severity::Advice, "topic", says, "Grant DescribeConfigs on it.");
    };
    if replicated > 1 && in_sync == "1" {
        let says = format!("min.insync.replicas of {topic} is 1: an acknowledged event can be lost with the leader");
        found(Severity::Danger, "durability", says, "Set it to 2, with three replicas.");
    }
    if setting("unclean.leader.election.enable").as_deref() == Some("true") {
        let says = format!("{topic} may elect a leader that lacks acknowledged events");
        found(Severity::Danger, "durability", says, "Set unclean.leader.election.enable to false.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(partitions: &[(usize, usize)]) -> Vec<&'static str> {
        let mut findings = Vec::new();
        judge("moves", None, partitions, &mut findings);
        findings.iter().map(|finding| finding.about).collect()
    }

    #[test]
    fn replicas_are_judged_by_the_weakest_partition() {
        assert_eq!(about(&[]), ["topic"]);
        assert_eq!(about(&[(3, 3), (1, 1)]), ["replica", "topic"]);
        assert_eq!(about(&[(3, 3), (3, 2)]), ["replica", "topic"]);
        assert_eq!(about(&[(3, 3)]), ["topic"], "its settings were not answered");
    }
}
