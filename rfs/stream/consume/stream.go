package consume

import "context"

// Stream is the source of a session: a topic whose partitions are read by offsets. *kafka.Topic implements it.
// Errors are fault.ErrUnavailable while the brokers do not answer, and fault.ErrConfig if the user must correct them.
type Stream interface {
	// Describe returns the current description of the stream.
	Describe(ctx context.Context) (Description, error)
	// Open opens a partition at an offset.
	Open(ctx context.Context, partition int, from int64) (Messages, error)
	// Committed returns the offsets that the group has committed, by partition.
	Committed(ctx context.Context) (map[int]int64, error)
	// Commit commits offsets for the group, by partition. They are for other tools: a session continues from its own records.
	Commit(ctx context.Context, offsets map[int]int64) error
}

// Description describes a stream at one moment.
type Description struct {
	ID         string // of the topic; it distinguishes topics of the same name
	Partitions []Range
}

// Range is the range of a partition's offsets: [Begin, End).
type Range struct {
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// Messages is an open partition. It is used by one goroutine.
type Messages interface {
	// Next returns the next messages in order of their offsets, or none if none arrived for a moment. They are borrowed until
	// the next call.
	Next(ctx context.Context) ([]Message, error)
	// Close releases all resources.
	Close()
}

// Message is one message of a partition.
type Message struct {
	Offset int64
	Key    []byte // nil: none
	Value  []byte // nil: a tombstone
	Mark   bool   // a control record of the broker, such as the end of a transaction
}
