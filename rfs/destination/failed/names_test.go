package failed_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestNames(t *testing.T) {
	line := func(index, id, source string) string {
		return string(failed.AppendLine(nil, &doc.Failure{Index: index, ID: id, Source: []byte(source)}, failed.Full))
	}
	for _, c := range []struct {
		name, text string
		want       []string
		err        error
	}{
		{"every line", line("a", "1", `{"id":"not this"}`) + line("b", "\u0001\"", "\n"), []string{"a 1", "b \u0001\""}, nil},
		{"an unfinished last line", line("a", "1", `{}`) + `{"index":"b`, []string{"a 1"}, nil},
		{"no JSON", "x\n", nil, fault.ErrCorrupt},
		{"nothing", "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			err := failed.Names(strings.NewReader(c.text), func(index, id string) error {
				got = append(got, index+" "+id)
				return nil
			})
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}
