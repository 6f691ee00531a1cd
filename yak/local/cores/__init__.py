"""Several brokers as one machine: `yak serve --cores`. `plan` shares the machine out, `supervisor` runs the brokers."""
