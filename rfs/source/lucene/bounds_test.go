package lucene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// away is a file whose repository does not answer.
type away struct{ memFile }

func (f away) ReadAt(context.Context, []byte, int64) error { return f.err() }

func (f away) Stream(context.Context, int64, int64) (io.ReadCloser, error) { return nil, f.err() }

func (f away) err() error { return fmt.Errorf("blob __%s: %w", f.name, fault.ErrUnavailable) }

func TestARepositoryThatDoesNotAnswerIsNoDamage(t *testing.T) {
	src := &source{name: "_0.dvd", file: away{memFile{"_0.dvd", make([]byte, 4<<20)}}, size: 4 << 20, own: true}
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"a file of columns", func() error { return (&columnData{data: src, id: "0123456789abcdef"}).readWhole(t.Context()) }},
		{"what is skipped", func() error {
			var w window
			w.open(src, 0, 0, src.size, nil)
			return w.skip(t.Context(), 3<<20)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.read(); !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestABlockOfNoCompressionIsDamage(t *testing.T) {
	for _, c := range []struct{ name, block string }{
		{"nothing", ""}, {"three bytes", "\x28\xB5\x2F"}, {"of an unknown method", "\x01\x02\x03\x04stored"}, {"a gzip header alone", "\x1F\x8B\x08\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := (&qat{}).block(make([]byte, 8), []byte(c.block)); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestACommitEndsAtItsFooter(t *testing.T) {
	b := segmentsFile(10, 1)
	if _, err := parseSegments("segments_1", b); err != nil {
		t.Fatal(err)
	}
	end := len(b) - 16
	longer := reseal(append(append(append([]byte{}, b[:end]...), 0), b[end:]...))
	if _, err := parseSegments("segments_1", longer); err == nil || !strings.Contains(err.Error(), "17 bytes left where the footer of 16") {
		t.Errorf("a byte too many: %v", err)
	}
}
