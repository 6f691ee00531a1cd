//! Kafka tests as a Rust project has them. KAFKA_BOOTSTRAP_SERVERS is the only thing that changes with the cluster.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::FutureProducer;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use yak_example::send;

fn setting(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_string())
}

fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", setting("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"));
    config
}

fn producer() -> FutureProducer {
    client().set("acks", "all").create().unwrap()
}

/// Creates a topic of one partition, as often replicated as the cluster does by default.
async fn new_topic(name: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let topic = format!("{name}-{now}");
    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    let wanted = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1));
    admin.create_topics([&wanted], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    topic
}

/// Consumes records in a group, and commits them.
async fn consume(topic: &str, group: &str, count: usize) -> Vec<String> {
    let consumer: StreamConsumer = client()
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let mut values = Vec::new();
    while values.len() < count {
        let message = tokio::time::timeout(Duration::from_secs(30), consumer.recv()).await.unwrap().unwrap();
        values.push(String::from_utf8(message.payload().unwrap().to_vec()).unwrap());
        consumer.commit_message(&message, CommitMode::Sync).unwrap();
    }
    values
}

/// Moves the leadership of a topic's partitions to other brokers, in one call.
fn failover(topic: &str) {
    let url = setting("YAK_HTTP", "http://localhost:8080") + "/api/failover";
    let answer = minreq::post(url).with_body(format!(r#"{{"topic":"{topic}"}}"#)).send().unwrap();
    assert_eq!(answer.status_code, 200, "{}", answer.as_str().unwrap());
}

#[tokio::test]
async fn produced_records_are_read_back() {
    let topic = new_topic("read-back").await;
    send(&producer(), &topic, &["one", "two", "three"]).await.unwrap();
    assert_eq!(consume(&topic, &topic, 3).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn group_continues_after_its_commit() {
    let topic = new_topic("commits").await;
    let producer = producer();
    send(&producer, &topic, &["one", "two"]).await.unwrap();
    assert_eq!(consume(&topic, &topic, 2).await, ["one", "two"]);
    send(&producer, &topic, &["three"]).await.unwrap();
    assert_eq!(consume(&topic, &topic, 1).await, ["three"]);
}

#[tokio::test]
async fn nothing_is_lost_in_a_failover() {
    let topic = new_topic("failover").await;
    let producer = producer();
    send(&producer, &topic, &["before"]).await.unwrap();
    failover(&topic);
    send(&producer, &topic, &["after"]).await.unwrap();
    assert_eq!(consume(&topic, &topic, 2).await, ["before", "after"]);
}
