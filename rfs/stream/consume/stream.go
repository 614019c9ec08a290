package consume

import "context"

// Stream is the source of a session: a topic, whose partitions are read by offsets. *kafka.Topic implements it.
// Errors: fault.ErrUnavailable while the brokers do not answer; fault.ErrConfig for errors that the user has to
// correct.
type Stream interface {
	// Describe returns the stream as it is now.
	Describe(ctx context.Context) (Description, error)
	// Open reads a partition from an offset on.
	Open(ctx context.Context, partition int, from int64) (Messages, error)
	// Committed returns the offsets that the group has committed, by partition.
	Committed(ctx context.Context) (map[int]int64, error)
	// Commit commits offsets for the group, by partition. They are for other tools: a session continues from its own records.
	Commit(ctx context.Context, offsets map[int]int64) error
}

// Description is a stream at a moment.
type Description struct {
	ID         string // of the topic: another one with the same name has another
	Partitions []Range
}

// Range holds the offsets of a partition: [Begin, End).
type Range struct {
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// Messages is an open partition. It is used by one goroutine.
type Messages interface {
	// Next returns the next messages in order of their offsets, none when there were none for a moment. They are borrowed until
	// the next call.
	Next(ctx context.Context) ([]Message, error)
	// Close gives everything back.
	Close()
}

// Message is one message of a partition.
type Message struct {
	Offset int64
	Key    []byte // nil: none
	Value  []byte // nil: a tombstone
	Mark   bool   // written by the broker, such as the end of a transaction: no message of the topic's users
}
