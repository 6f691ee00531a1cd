// Kafka tests as a Go project has them. KAFKA_BOOTSTRAP_SERVERS is the only thing that changes with the cluster.
package orders

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap = setting("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
	yakHTTP   = setting("YAK_HTTP", "http://localhost:8080")
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// newTopic creates a topic of one partition, as often replicated as the cluster does by default.
func newTopic(t *testing.T, ctx context.Context) string {
	topic := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	admin := kadm.NewClient(newClient(t))
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	return topic
}

func newClient(t *testing.T, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, ctx context.Context, client *kgo.Client, topic string, values ...string) {
	for _, value := range values {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func consume(t *testing.T, ctx context.Context, client *kgo.Client, wanted ...string) {
	var found []string
	for len(found) < len(wanted) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		t.Fatalf("consumed %v instead of %v", found, wanted)
	}
}

// failover moves the leadership of a topic's partitions to other brokers, in one call.
func failover(t *testing.T, topic string) {
	answer, err := http.Post(yakHTTP+"/api/failover", "application/json", bytes.NewBufferString(`{"topic":"`+topic+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
}

func context30s(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestProducedRecordsAreReadBack(t *testing.T) {
	ctx := context30s(t)
	topic := newTopic(t, ctx)
	client := newClient(t, kgo.ConsumeTopics(topic))
	produce(t, ctx, client, topic, "one", "two", "three")
	consume(t, ctx, client, "one", "two", "three")
}

func TestGroupContinuesAfterItsCommit(t *testing.T) {
	ctx := context30s(t)
	topic := newTopic(t, ctx)
	group := []kgo.Opt{kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit()}
	first := newClient(t, group...)
	produce(t, ctx, first, topic, "one", "two")
	consume(t, ctx, first, "one", "two")
	if err := first.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	first.Close()

	second := newClient(t, group...)
	produce(t, ctx, second, topic, "three")
	consume(t, ctx, second, "three")
}

func TestNothingIsLostInAFailover(t *testing.T) {
	ctx := context30s(t)
	topic := newTopic(t, ctx)
	client := newClient(t, kgo.ConsumeTopics(topic))
	produce(t, ctx, client, topic, "before")
	failover(t, topic)
	produce(t, ctx, client, topic, "after")
	consume(t, ctx, client, "before", "after")
}
