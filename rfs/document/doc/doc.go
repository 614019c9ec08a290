// Package doc defines Document, one live root document of a snapshot with its exact source, and its conversion from
// the records of the Lucene reader to the form of bulk requests.
package doc

// Document is one live root document. All slices are borrowed until the reader's next step.
type Document struct {
	Ordinal int64  // see lucene.Record
	Index   []byte // target index, after naming rules
	Type    []byte // mapping type, nil if the source has none or only _doc
	ID      []byte // decoded id, UTF-8
	Routing []byte // nil for none
	// Source is the document as a single line of JSON, byte for byte as it was
	// indexed except for line breaks (see AppendLine).
	Source []byte
	// Reduced states that Source may lack indexed parts, because of a filter or omitted vectors,
	// and no complete original is stored.
	Reduced bool
	// Version is the document's version in the source cluster; 0 if it was not read.
	Version int64
	// Rebuilt states that the source was not stored, but rebuilt from other fields.
	Rebuilt bool
	// KeptLast states that only the last of duplicate keys in an object was kept.
	KeptLast bool
	// Delete states that the document is to be deleted on the target. It has no Source.
	Delete bool
}

// Reason is the reason of a failure: a stable name, used for grouping and in documentation.
type Reason string

// Reasons of rfsd itself. Rejections by a target have the target's error type.
const (
	NoSource    Reason = "no_source"           // neither _source nor _recovery_source is stored, and it cannot be rebuilt
	NoID        Reason = "no_id"               // a root document without a stored id
	BadID       Reason = "bad_id"              // the stored id cannot be decoded
	LongID      Reason = "id_too_long"         // no target accepts an id of that length
	BadSource   Reason = "bad_source"          // the source is not JSON, SMILE, CBOR or YAML that can be sent
	LineBreak   Reason = "raw_line_break"      // a raw line break inside a JSON string
	TooLarge    Reason = "too_large"           // the target accepts no request of that size (413)
	Collision   Reason = "id_collision"        // another document has the same id on the same shard of the target
	Foreign     Reason = "replaced_foreign"    // it has replaced a document that another client wrote to a new index
	Dropped     Reason = "dropped_by_pipeline" // an ingest pipeline of the target dropped the document
	MissingType Reason = "missing_type_name"   // a type is needed to name the target index and none is stored
)

// Failure is a live document that did not arrive, with the reason. It is
// recorded before the watermark passes it.
type Failure struct {
	Index   string
	ID      string // "" if unknown
	Type    string
	Routing string
	Shard   int
	Ordinal int64
	Reason  Reason
	Detail  string // the target's message, or the error in the bytes
	Status  int    // HTTP status of the rejected item; 0 if the target did not reject it
	Version int64  // Document.Version
	Source  []byte // as stored; may be nil
}
