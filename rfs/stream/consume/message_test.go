package consume

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		key    string
		value  string // "-": a tombstone
		want   string // index/id?routing source, or the reason
	}{
		{"a document", JSON, "1", `{"a":1}`, `topic/1? {"a":1}`},
		{"without a key", JSON, "", `{"a":1}`, `topic/Z4k3Kx? {"a":1}`},
		{"of several lines", JSON, "1", "{\n\"a\":1}", `topic/1? {"a":1}`},
		{"a tombstone", JSON, "1", "-", `topic/1? deleted`},
		{"a tombstone of actions", Bulk, "1", "-", `topic/1? deleted`},
		{"a tombstone without a key", JSON, "", "-", "no_key"},
		{"no object", JSON, "1", `7`, "bad_message"},
		{"nothing", JSON, "1", ``, "bad_message"},
		{"a line break in a string", JSON, "1", "{\"a\":\"\n\"}", "raw_line_break"},
		{"a key that is not a text", JSON, "\xff", `{}`, "bad_id"},
		{"too long", JSON, "1", `{"a":"` + strings.Repeat("x", 100) + `"}`, "too_large"},
		{"an action", Bulk, "", `{"index":{"_index":"i","_id":"7","routing":"r"}}` + "\n{}\n", `i/7?r {}`},
		{"an action of the key", Bulk, "k", `{"create":{}}` + "\r\n{}\r\n", `topic/k? {}`},
		{"a deletion", Bulk, "", `{"delete":{"_index":"i","_id":"7"}}`, `i/7? deleted`},
		{"a deletion with a source", Bulk, "", `{"delete":{"_index":"i","_id":"7"}}` + "\n{}", "bad_message"},
		{"two documents", Bulk, "", `{"index":{"_id":"7"}}` + "\n{}\n" + `{"index":{"_id":"8"}}` + "\n{}", "bad_message"},
		{"no source", Bulk, "", `{"index":{"_id":"7"}}`, "no_source_line"},
		{"no action", Bulk, "", `{"a":1}` + "\n{}", "bad_message"},
		{"an update", Bulk, "", `{"update":{"_id":"7"}}` + "\n{}", "bad_message"},
		{"a version", Bulk, "", `{"index":{"_id":"7","version":3}}` + "\n{}", "bad_action"},
		{"a bad index", Bulk, "", `{"index":{"_index":"I","_id":"7"}}` + "\n{}", "bad_action"},
		{"a type", Bulk, "", `{"index":{"_id":"7","_type":"t"}}` + "\n{}", "mapping_type"},
		{"the system's", Bulk, "", `{"index":{"_index":".kibana","_id":"7"}}` + "\n{}", "filtered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reader{topic: "topic", partition: 3, format: c.format, index: []byte("topic"), longest: 90}
			m := Message{Offset: 5, Key: []byte(c.key), Value: []byte(c.value)}
			if c.value == "-" {
				m.Value = nil
			}
			if got := shown(r.read(m)); c.key == "" && c.format == JSON && strings.HasPrefix(got, "topic/") {
				if again := shown(r.read(m)); again != got || len(got) != len("topic/?")+20+len(` {"a":1}`) {
					t.Errorf("%s, then %s", got, again)
				}
			} else if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func shown(is outcome, d *doc.Document, f doc.Failure) string {
	switch {
	case is == filtered:
		return "filtered"
	case is == failing:
		return string(f.Reason)
	case d.Delete:
		return string(d.Index) + "/" + string(d.ID) + "?" + string(d.Routing) + " deleted"
	}
	return string(d.Index) + "/" + string(d.ID) + "?" + string(d.Routing) + " " + string(d.Source)
}

// FuzzMessage: whatever a message holds, what is sent is one line, for an index that a target may have.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("1"), []byte("{\n}"), true)
	f.Add([]byte(""), []byte(`{"index":{"_index":"i","_id":"7"}}`+"\n{}\n"), false)
	f.Add([]byte("\xff"), []byte(`{"delete":{}}`), false)
	f.Fuzz(func(t *testing.T, key, value []byte, plain bool) {
		defer fuzzing.Bounded(t, len(key)+len(value))()
		r := reader{topic: "topic", format: Bulk, index: []byte("topic")}
		if plain {
			r.format = JSON
		}
		is, d, failure := r.read(Message{Key: key, Value: value})
		switch {
		case is == failing && failure.Reason == "":
			t.Error("a failure without a reason")
		case is == sent && (bytes.ContainsAny(d.Source, "\n") || len(d.ID) == 0 || !d.Delete && len(d.Source) == 0):
			t.Errorf("%+v", d)
		}
	})
}
