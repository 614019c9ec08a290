package compare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// shardMark is the mark of one shard.
type shardMark struct {
	index string
	shard int
	mark  int64
}

func (m shardMark) Of(index string, shard int) (int64, bool) {
	return m.mark, index == m.index && shard == m.shard
}

func TestWhatTheTargetWroteAfterTheMigrationIsMarked(t *testing.T) {
	const page = `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[{"_id":"1","_seq_no":7,"_source":{}},{"_id":"2","_seq_no":8,"_source":{}},{"_id":"3","_source":{}}]}}`
	on := replies{
		"GET /a": `{"a":{"settings":{"index.number_of_shards":"1","index.uuid":"u"},"mappings":{}}}`, "POST /a/_refresh": `{}`, "GET /a/_count": `{"count":3}`,
		"POST /a/_search": page, "POST /_search/scroll": `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[]}}`, "DELETE /_search/scroll": `{}`,
	}
	search := target.Version{Distribution: "elasticsearch", Major: 7}
	for _, c := range []struct {
		name    string
		version target.Version
		marks   shardMark
		since   []string
	}{
		{"above the mark", search, shardMark{"a", 0, 7}, []string{"2"}},
		{"in an index that is younger than the migration", search, shardMark{"a", 0, -1}, []string{"1", "2"}},
		{"nothing is recorded of the shard", search, shardMark{"a", 1, 0}, nil},
		{"nothing is recorded of the index", search, shardMark{"b", 0, 0}, nil},
		{"the target reports no numbers", target.Version{Distribution: "elasticsearch", Major: 6}, shardMark{"a", 0, 0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := comparedTarget(t, on, &bytes.Buffer{})
			x.Version, x.Marks = c.version, c.marks
			held, err := x.Content(t.Context(), "a")
			if err != nil || len(held.Units) != 1 {
				t.Fatalf("%+v, %v", held, err)
			}
			var since []string
			err = held.Units[0].Read(t.Context(), 0, func(d *verify.Document) error {
				if d.Since {
					since = append(since, string(d.ID))
				}
				return nil
			})
			if err != nil || !slices.Equal(since, c.since) {
				t.Errorf("%q, want %q, %v", since, c.since, err)
			}
		})
	}
}

func TestAShardOfTheTargetIsKnownByWhatWasWrittenToIt(t *testing.T) {
	on := func(uuid, refresh string) replies {
		return replies{"GET /a": fmt.Sprintf(`{"a":{"settings":{"index.number_of_shards":"2","index.uuid":%q},"mappings":{}}}`, uuid), "POST /a/_refresh": refresh, "GET /a/_count": `{"count":3}`}
	}
	keys := func(on replies, written map[string]int64, fails error) (all [2]string) {
		x := comparedTarget(t, on, &bytes.Buffer{})
		x.Sequence = func(context.Context, string) (map[string]int64, error) { return written, fails }
		held, err := x.Content(t.Context(), "a")
		if err != nil || len(held.Units) != 2 {
			t.Fatalf("%+v, %v", held, err)
		}
		return [2]string{held.Units[0].Key, held.Units[1].Key}
	}
	known := map[string]int64{"a/0": 7, "a/1": 7}
	first := keys(on("u", `{}`), known, nil)
	if first[0] == "" || first[1] == "" || first[0] == first[1] || keys(on("u", `{}`), known, nil) != first {
		t.Errorf("%q", first)
	}
	if more := keys(on("u", `{}`), map[string]int64{"a/0": 7, "a/1": 8}, nil); more[0] != first[0] || more[1] == first[1] {
		t.Errorf("written to since: %q, before %q", more, first)
	}
	if other := keys(on("another", `{}`), known, nil); other[0] == first[0] {
		t.Error("another index of the name has the same key")
	}
	for name, all := range map[string][2]string{
		"numbers that cannot be read": keys(on("u", `{}`), known, errors.New("not permitted")),
		"a refresh that is refused":   keys(on("u", "403"), known, nil),
		"no UUID":                     keys(on("", `{}`), known, nil),
	} {
		if all != [2]string{} {
			t.Errorf("%s: %q", name, all)
		}
	}
	if one := keys(on("u", `{}`), map[string]int64{"a/0": 7}, nil); one[0] == "" || one[1] != "" {
		t.Errorf("one shard is known: %q", one)
	}
}
