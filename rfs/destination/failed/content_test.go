package failed_test

import (
	"bytes"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestWhatALineHoldsOfADocument: with hash and none neither the source nor the message of the target, which quotes values.
func TestWhatALineHoldsOfADocument(t *testing.T) {
	refused := doc.Failure{Index: "logs", ID: "1", Routing: "r", Shard: 2, Ordinal: 7, Reason: "mapper_parsing_exception", Status: 400,
		Detail: "failed to parse field [a] of type [byte]. Preview of field's value: 'secret'; caused by Value [secret] is out of range for a byte", Source: []byte(`{"a":"secret"}`)}
	none := doc.Failure{Index: "logs", ID: "2", Shard: 2, Ordinal: 8, Reason: doc.NoSource, Detail: "not stored"}
	for _, c := range []struct {
		name    string
		content failed.Content
		failure doc.Failure
		omitted bool
		sha     string
	}{
		{"full", failed.Full, refused, false, ""},
		{"by default", "", refused, false, ""},
		{"hash", failed.Hash, refused, true, failed.Digest(refused.Source)},
		{"none", failed.None, refused, true, ""},
		{"a document without a source with hash", failed.Hash, none, false, ""},
		{"a document without a source with none", failed.None, none, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := failed.AppendLine(nil, &c.failure, c.content)
			whole := c.content == failed.Full || c.content == ""
			if leaks := bytes.Contains(text, []byte("secret")); leaks != (whole && c.failure.Source != nil) {
				t.Errorf("the line is %s", text)
			}
			n := 0
			for l, err := range failed.Lines(bytes.NewReader(text), 1<<20) {
				if n++; err != nil || l.Err != nil {
					t.Fatal(err, l.Err)
				}
				if l.Omitted() != c.omitted || l.SHA256 != c.sha || l.Class().Name != map[bool]string{true: "number_range", false: "no_source"}[c.failure.Status != 0] {
					t.Errorf("omitted %v, %q, class %s", l.Omitted(), l.SHA256, l.Class().Name)
				}
				want := c.failure
				if !whole {
					want.Source, want.Detail = nil, ""
				}
				if got, w := l.Failure, want; got.Index != w.Index || got.ID != w.ID || got.Routing != w.Routing || got.Ordinal != w.Ordinal || got.Reason != w.Reason || got.Detail != w.Detail || !bytes.Equal(got.Source, w.Source) {
					t.Errorf("%+v", got)
				}
			}
			if n != 1 || !failed.IsLine(text) {
				t.Errorf("%d lines: %s", n, text)
			}
		})
	}
}

func TestARecordIsALineWithoutContent(t *testing.T) {
	text := failed.AppendRecord(nil, &doc.Failure{Index: "logs", ID: "1", Shard: 2, Ordinal: 7, Reason: "illegal_argument_exception", Status: 400}, "total_fields_limit")
	for l, err := range failed.Lines(bytes.NewReader(text), 1<<20) {
		if err != nil || l.Err != nil || !l.Omitted() || l.Class().Name != "total_fields_limit" || l.Failure.Ordinal != 7 {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

// TestALineStatesTheRemedy: what to do stands beside each document; but for failures whose message is all that is known.
func TestALineStatesTheRemedy(t *testing.T) {
	const keepLast = `"remedy":"migrate the index in a new session (--session-name) with --duplicate-keys keep-last --existing-documents overwrite"`
	for _, c := range []struct {
		name, detail string
		reason       doc.Reason
		content      failed.Content
		want         string // "" for none
	}{
		{"a duplicate key", "failed to parse; caused by Duplicate field 'a'", "mapper_parsing_exception", failed.Full, keepLast},
		{"a duplicate key of OpenSearch 2", `failed to parse; caused by Duplicate Object property "a"`, "mapper_parsing_exception", failed.Full, keepLast},
		{"names of index and field", "failed to parse field [a] of type [byte]; caused by Value is out of range for a byte", "mapper_parsing_exception", failed.Full, `PUT logs/_mapping {\"properties\":{\"a\"`},
		{"an unknown message", "odd", "odd_exception", failed.Full, ""},
		{"without messages", "failed to parse; caused by Duplicate field 'a'", "mapper_parsing_exception", failed.None, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := failed.AppendLine(nil, &doc.Failure{Index: "logs", ID: "1", Reason: c.reason, Status: 400, Detail: c.detail}, c.content)
			if !bytes.Contains(text, []byte(c.want)) || (c.want == "") == bytes.Contains(text, []byte(`"remedy"`)) {
				t.Errorf("%s", text)
			}
		})
	}
}
