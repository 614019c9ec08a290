package classes

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

var update = flag.Bool("update", false, "write the table of docs/FAILED-DOCUMENTS.md anew")

// Messages are those of OpenSearch 2.19.4 and 3.8.0.
func TestOf(t *testing.T) {
	for _, c := range []struct{ class, reason, detail string }{
		{"strict_mapping", "strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed"},
		{"duplicate_key", "mapper_parsing_exception", "failed to parse; caused by Duplicate field 'a'"},
		{"duplicate_key", "mapper_parsing_exception", `failed to parse; caused by Duplicate Object property "a"`},
		{"total_fields_limit", "illegal_argument_exception", "Limit of total fields [1] has been exceeded"},
		{"depth_limit", "mapper_parsing_exception", "failed to parse; caused by The depth of the field has exceeded the allowed limit of [2]. This limit can be set by changing the [index.mapping.depth.limit] index level setting."},
		{"stream_timestamp", "mapper_parsing_exception", "failed to parse; caused by documents must contain a single-valued timestamp field '@timestamp' of date type"},
		{"pipeline_failure", "illegal_argument_exception", "field [b] doesn't exist"},
		{"immense_term", "illegal_argument_exception", `Document contains at least one immense term in field="a" (whose UTF8 encoding is longer than the max length 32766), all of which were skipped.`},
		{"type_conflict", "illegal_argument_exception", "mapper [raw.d] cannot be changed from type [long] to [float]"},
		{"field_name", "mapper_parsing_exception", "failed to parse; caused by field name cannot be an empty string"},
		{"number_range", "mapper_parsing_exception", "failed to parse field [raw.big] of type [long] in document with id 'special-0'. Preview of field's value: '12345678901234567890123456789'; caused by Numeric value (12345678901234567890123456789) out of range of long"},
		{"date_format", "mapper_parsing_exception", "failed to parse field [a] of type [date] in document with id '1'. Preview of field's value: 'yesterday'"},
		{"stream_create_only", "illegal_argument_exception", "only write ops with an op_type of create are allowed in data streams"},
		{"index_closed", "index_closed_exception", "closed"},
		{"index_block", "cluster_block_exception", "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"},
		{"id_too_long", "action_request_validation_exception", "Validation Failed: 1: id [x] is too long, must be no longer than 512 bytes but was: 600;"},
		{"id_too_long", string(doc.LongID), "an id of 600 bytes: targets take 512"},
		{"mapping", "mapper_parsing_exception", "failed to parse"},
		{"too_large", string(doc.TooLarge), "104857601 bytes"},
		{"no_source", string(doc.NoSource), ""},
		{"unreadable", string(doc.LineBreak), ""},
		{"import_line", "bad_line", ""},
		{"other", "illegal_state_exception", "never seen before"},
	} {
		if got := Of(doc.Reason(c.reason), c.detail); got.Name != c.class {
			t.Errorf("%s: %s is of class %s, want %s", c.reason, c.detail, got.Name, c.class)
		}
	}
}

func TestRemediesNameIndexAndField(t *testing.T) {
	limit, _ := Named("total_fields_limit")
	if got, want := limit.For("logs", ""), `PUT logs/_settings {"index.mapping.total_fields.limit":NUMBER}`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	term, _ := Named("immense_term")
	for _, detail := range []string{`immense term in field="a.b" (whose`, "failed to parse field [a.b] of type"} {
		if got := term.For("", detail); !strings.Contains(got, `{"a.b":{`) || !strings.Contains(got, "INDEX") {
			t.Errorf("%q", got)
		}
	}
	number, _ := Named("number_range")
	if got := number.For("logs", "failed to parse field [n] of type [long] in document"); !strings.Contains(got, `PUT logs/_mapping {"properties":{"n":{"type":"long","ignore_malformed":true}}}; or create`) {
		t.Errorf("the type of the field is not named: %q", got)
	}
	if got := number.For("logs", "out of range"); !strings.Contains(got, `"type":"TYPE","ignore_malformed":true}}} with the TYPE of the field; or`) {
		t.Errorf("%q", got)
	}
	if got := term.For("logs", "field ["+strings.Repeat("x", maxField+1)+"]"); !strings.Contains(got, "FIELD") {
		t.Errorf("a long name is shown: %q", got)
	}
}

func TestEveryClassIsDescribedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] || c.Name == "" || c.Cause == "" || c.Remedy == "" {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
		if got, ok := Named(c.Name); !ok || got.Name != c.Name {
			t.Errorf("%s is not found by its name", c.Name)
		}
	}
	if _, ok := Named("nothing"); ok {
		t.Error("a class without a name is found")
	}
}

// The page of failed documents holds the table of this package.
func TestThePageHoldsTheClasses(t *testing.T) {
	const page, head = "../../../../docs/FAILED-DOCUMENTS.md", "| class | cause | remedy |\n|---|---|---|\n"
	var table strings.Builder
	table.WriteString(head)
	for _, c := range All() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c.Name, c.Cause, c.Remedy)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	begin := strings.Index(text, head)
	if begin < 0 {
		t.Fatal("the page has no table")
	}
	rest := text[begin:]
	end := strings.Index(rest, "\n\n")
	if end < 0 {
		t.Fatal("the table has no end")
	}
	if rest[:end+1] == table.String() {
		return
	}
	if !*update {
		t.Fatalf("the table is another; go test ./rfs/destination/failed/classes -update writes it:\n%s", table.String())
	}
	if err := os.WriteFile(page, []byte(text[:begin]+table.String()+rest[end+1:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
