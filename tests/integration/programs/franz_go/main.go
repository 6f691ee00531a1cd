// Logs in with franz-go by the mechanism of the arguments, writes a record to a topic and reads it back.
// main ADDRESS TOPIC MECHANISM USER [AUTHORITY]: with the authority's certificate inside TLS. The password or the access token is
// the first line of the standard input.
// The mechanism "token" is SCRAM-SHA-256 with a delegation token.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(name, user, secret string) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()
	case "token":
		return scram.Auth{User: user, Pass: secret, IsToken: true}.AsSha256Mechanism()
	default:
		return oauth.Auth{Token: secret}.AsMechanism()
	}
}

func main() {
	address, topic := os.Args[1], os.Args[2]
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	options := []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.SASL(mechanism(os.Args[3], os.Args[4], lines.Text())),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(5 * time.Second),
	}
	if len(os.Args) > 5 {
		authority, err := os.ReadFile(os.Args[5])
		known := x509.NewCertPool()
		if err != nil || !known.AppendCertsFromPEM(authority) {
			panic("the authority cannot be read")
		}
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: known}))
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr()
		if err == nil {
			client.PollFetches(ctx).EachRecord(func(record *kgo.Record) { fmt.Printf("read %s\n", record.Value) })
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
