package target

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// blanks is a reader of n blanks.
func blanks(n int64) io.Reader { return io.LimitReader(blank{}, n) }

type blank struct{}

func (blank) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// squeezed answers every request with gzip.
func squeezed(t *testing.T, parts ...io.Reader) http.HandlerFunc {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := io.Copy(z, io.MultiReader(parts...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, packed.String())
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Run("a bulk answer by the number of items", func(t *testing.T) {
		c := serve(t, squeezed(t, blanks(100<<20)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Send(t.Context(), []byte(twoItems), 2)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "more than") {
			t.Error(err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
			t.Errorf("%d bytes were allocated", took)
		}
	})
	t.Run("a long answer to few items that quotes the document arrives", func(t *testing.T) {
		quoted := strings.Repeat("x", 1<<20)
		c := serve(t, answer(200, `{"errors":true,"items":[{"index":{"status":400,"error":{"type":"a","reason":"`+quoted+`"}}}]}`))
		body := `{"index":{"_index":"a","_id":"1"}}` + "\n{\"a\":\"" + quoted + "\"}\n"
		r, err := c.Send(t.Context(), []byte(body), 1)
		if err != nil || len(r.Refused) != 1 {
			t.Errorf("%v, %d refused", err, len(r.Refused))
		}
	})
	t.Run("all answers together", func(t *testing.T) {
		c := serve(t, squeezed(t, blanks(maxAnswer-2), strings.NewReader("{}")), func(c *Config) { c.Timeout = 5 * time.Minute })
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() { _, _, errs[i] = c.Do(t.Context(), "GET", "/", nil, nil) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil && !strings.Contains(err.Error(), "memory does not suffice for its answer") {
				t.Error(err)
			}
		}
		if all, ok := c.conf.Memory.Try(maxAnswers); !ok {
			t.Error("bytes are left taken")
		} else {
			all.Release()
		}
		if _, _, err := c.Do(t.Context(), "GET", "/", nil, nil); err != nil {
			t.Errorf("one alone: %v", err)
		}
	})
	t.Run("values", func(t *testing.T) {
		c := serve(t, squeezed(t, strings.NewReader("["+strings.Repeat("{},", maxValues)+"{}]")))
		if _, _, err := c.Do(t.Context(), "GET", "/", nil, nil); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "values") {
			t.Error(err)
		}
	})
}
