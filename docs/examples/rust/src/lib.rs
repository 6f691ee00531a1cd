//! The code under test: sends orders.

use rdkafka::error::KafkaError;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;

/// Sends values to a topic, one after the other, and waits until each is acknowledged.
pub async fn send(producer: &FutureProducer, topic: &str, values: &[&str]) -> Result<(), KafkaError> {
    for value in values {
        let record = FutureRecord::<(), str>::to(topic).payload(*value);
        producer.send(record, Duration::from_secs(30)).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}
