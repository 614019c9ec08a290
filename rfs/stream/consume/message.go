package consume

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Format is the format of the values of messages.
type Format string

// The formats.
const (
	JSON Format = "json" // a document; its id is the key of the message
	Bulk Format = "bulk" // one action line and, unless it is a deletion, one source line, as in a bulk request
)

// Reasons of messages that fail before they are sent.
const (
	BadMessage doc.Reason = "bad_message" // the value is not in the format
	NoKey      doc.Reason = "no_key"      // a tombstone without a key deletes no document
)

// reader converts messages to documents.
type reader struct {
	topic     string
	partition int
	format    Format
	index     []byte // of documents that name none
	system    bool   // documents for indices that start with a dot are not left out
	longest   int64  // maximum length of a source in bytes; 0: no limit

	action doc.Action
	line   []byte
	id     []byte
	doc    doc.Document
}

// outcome is the result of a message.
type outcome int

const (
	sent outcome = iota
	failing
	filtered
)

// read returns the document of a message, or its failure. Both are borrowed until the next call.
func (r *reader) read(m Message) (outcome, *doc.Document, doc.Failure) {
	r.doc = doc.Document{Ordinal: m.Offset, Index: r.index}
	reason, detail := r.parse(m)
	if reason == "" && !importer.ValidIndex(r.doc.Index) {
		reason, detail = importer.BadAction, fmt.Sprintf("%q is not a name of an index", r.doc.Index)
	}
	if reason == "" {
		if importer.LeftOut(r.doc.Index, r.system) {
			return filtered, nil, doc.Failure{}
		}
		return sent, &r.doc, doc.Failure{}
	}
	f := doc.Failure{
		Index: string(r.doc.Index), ID: string(bytes.ToValidUTF8(r.doc.ID, []byte("\uFFFD"))), Routing: string(r.doc.Routing), Shard: r.partition, Ordinal: m.Offset,
		Reason: reason, Detail: r.place(m.Offset) + detail,
	}
	if reason != doc.TooLarge {
		f.Source = bytes.Clone(m.Value)
	}
	return failing, nil, f
}

// place returns the position of a message, for errors.
func (r *reader) place(offset int64) string {
	return fmt.Sprintf("topic %s, partition %d, offset %d: ", r.topic, r.partition, offset)
}

// parse parses a message into r.doc. It returns the reason why it cannot be sent, "" if it can.
func (r *reader) parse(m Message) (reason doc.Reason, detail string) {
	switch {
	case m.Value == nil:
		r.doc.Delete = true
		return r.keyed(m)
	case r.longest > 0 && int64(len(m.Value)) > r.longest:
		return doc.TooLarge, fmt.Sprintf("a value of %d bytes, at most %d are sent (--max-document-size, or http.max_content_length of the target)", len(m.Value), r.longest)
	case r.format == Bulk:
		return r.parseBulk(m)
	}
	if reason, detail = r.keyed(m); reason != "" {
		return reason, detail
	}
	return r.source(m.Value)
}

// keyed sets the id of a document to the key of its message, or to idOf if it has none.
func (r *reader) keyed(m Message) (doc.Reason, string) {
	switch {
	case len(m.Key) == 0 && r.doc.Delete:
		return NoKey, "a tombstone without a key has no id to delete"
	case len(m.Key) == 0:
		r.doc.ID = r.idOf(m.Offset)
	case !utf8.Valid(m.Key):
		r.doc.ID = m.Key
		return doc.BadID, "the key is not UTF-8"
	default:
		r.doc.ID = m.Key
	}
	return "", ""
}

// idOf returns the id for a message without a key, which is the same each time the message is read: 20 characters of base64url, for 120
// bits of the SHA-256 of topic, a zero byte, partition and offset (8 bytes each, big-endian).
func (r *reader) idOf(offset int64) []byte {
	b := binary.BigEndian.AppendUint64(append([]byte(r.topic), 0), uint64(r.partition))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(offset)))
	r.id = base64.RawURLEncoding.AppendEncode(r.id[:0], sum[:15])
	return r.id
}

// source sets the source of the document to a value.
func (r *reader) source(value []byte) (doc.Reason, string) {
	if b := doc.TrimSpace(value); len(b) == 0 || b[0] != '{' {
		return BadMessage, "the value is not a JSON object"
	}
	line, err := doc.AppendLine(r.line[:0], value)
	if err != nil {
		return doc.LineBreak, err.Error()
	}
	r.line, r.doc.Source = line, line
	return "", ""
}

// parseBulk parses a value of the format Bulk.
func (r *reader) parseBulk(m Message) (doc.Reason, string) {
	action, rest, _ := bytes.Cut(m.Value, []byte("\n"))
	if !r.action.Parse(bytes.TrimSuffix(action, []byte("\r"))) {
		return BadMessage, "the value does not start with an action line (index, create or delete)"
	}
	if len(r.action.Index) > 0 {
		r.doc.Index = r.action.Index
	}
	r.doc.Delete, r.doc.Routing = r.action.Delete, r.action.Routing
	if r.doc.ID = r.action.ID; r.doc.ID == nil {
		if reason, detail := r.keyed(m); reason != "" {
			return reason, detail
		}
	}
	switch {
	case r.action.Fault != "":
		return importer.BadAction, r.action.Fault
	case len(r.action.Type) > 0 && string(r.action.Type) != "_doc":
		return importer.Typed, fmt.Sprintf("the document has the mapping type %q", r.action.Type)
	}
	source, more, _ := bytes.Cut(rest, []byte("\n"))
	switch {
	case r.doc.Delete && len(bytes.TrimSpace(rest)) > 0, !r.doc.Delete && len(bytes.TrimSpace(more)) > 0:
		return BadMessage, "more than one document in a message"
	case r.doc.Delete:
		return "", ""
	case len(bytes.TrimSpace(source)) == 0:
		return importer.NoLine, "no source line after the action line"
	}
	return r.source(bytes.TrimSuffix(source, []byte("\r")))
}
