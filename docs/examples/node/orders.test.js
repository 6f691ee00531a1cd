// Kafka tests as a Node project has them. KAFKA_BOOTSTRAP_SERVERS is the only thing that changes with the cluster.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, beforeEach, test } from "node:test";
import { Kafka, Partitioners, logLevel } from "kafkajs";

const bootstrap = process.env.KAFKA_BOOTSTRAP_SERVERS ?? "localhost:9092";
const yakHttp = process.env.YAK_HTTP ?? "http://localhost:8080";
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
const admin = kafka.admin();
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
let topic;

beforeEach(async () => {
  await admin.connect();
  await producer.connect();
  topic = `orders-${randomUUID()}`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
});

after(async () => {
  await producer.disconnect();
  await admin.disconnect();
});

const send = (...values) => producer.send({ topic, acks: -1, messages: values.map((value) => ({ value })) });

/** Consumes in a group until `count` records came, and commits them. */
async function consume(groupId, count) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 30000 });
  const values = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      values.push(message.value.toString());
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
      if (values.length === count) finish();
    },
  });
  await finished;
  await consumer.disconnect();
  return values;
}

/** Moves the leadership of the topic's partitions to other brokers, in one call. */
async function failover() {
  const answer = await fetch(`${yakHttp}/api/failover`, { method: "POST", body: JSON.stringify({ topic }) });
  assert.equal(answer.status, 200, await answer.text());
}

test("produced records are read back", { timeout: 60000 }, async () => {
  await send("one", "two", "three");
  assert.deepEqual(await consume(topic, 3), ["one", "two", "three"]);
});

test("a group continues after its commit", { timeout: 60000 }, async () => {
  await send("one", "two");
  assert.deepEqual(await consume(topic, 2), ["one", "two"]);
  await send("three");
  assert.deepEqual(await consume(topic, 1), ["three"]);
});

test("nothing is lost in a failover", { timeout: 60000 }, async () => {
  await send("before");
  await failover();
  await send("after");
  assert.deepEqual(await consume(topic, 2), ["before", "after"]);
});
