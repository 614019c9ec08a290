package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// shelf plays a shard that is read by points in time or scrolls.
type shelf struct {
	sources []string
	breaks  map[int]string // answers of the n-th search instead of the right one
	asked   []int          // sizes of the searches
	open    int
	at      int // of the scroll
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Size   int
		After  []int  `json:"search_after"`
		Scroll string `json:"scroll_id"`
	}
	_ = json.Unmarshal(body, &q)
	switch {
	case r.Method == http.MethodDelete:
		s.open--
		fmt.Fprint(w, `{}`)
		return
	case strings.HasSuffix(r.URL.Path, "/point_in_time"):
		s.open++
		fmt.Fprint(w, `{"pit_id":"p","_shards":{"total":1,"successful":1,"skipped":0,"failed":0}}`)
		return
	case r.URL.Query().Get("scroll") != "":
		s.open++
		s.at = 0
	}
	n := len(s.asked)
	if s.asked = append(s.asked, q.Size); s.breaks[n] != "" {
		if s.breaks[n] == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, s.breaks[n])
		return
	}
	from := s.at
	if len(q.After) > 0 {
		from = q.After[0] + 1
	}
	if q.Size == 0 {
		q.Size = s.asked[0]
	}
	var hits []string
	for i := from; i < min(from+q.Size, len(s.sources)); i++ {
		routing := ""
		if i%2 == 1 {
			routing = `"_routing":"r\u00e9",`
		}
		hits = append(hits, fmt.Sprintf(`{"_index":"a","_id":"%d\"","_score":null,%s"_source":%s,"sort":[%d]}`, i, routing, s.sources[i], i))
	}
	s.at = from + len(hits)
	fmt.Fprintf(w, `{"_scroll_id":"s","pit_id":"p","took":1,"timed_out":false,"_shards":{"total":1,"failed":0},"hits":{"max_score":null,"hits":[%s]}}`, strings.Join(hits, ","))
}

func TestReadShard(t *testing.T) {
	sources := make([]string, 350)
	for i := range sources {
		sources[i] = fmt.Sprintf(`{"n":%d.0,/* "}" */"l":[{"a":"\"]}"}]}`, i)
	}
	sources[7], sources[8], sources[9] = ` {"n":1} `, "/* } */ {} /* , */", "\t{}\r\n"
	sources[10], sources[11] = "\xEF\xBB\xBF{\"n\":1}", "\xEF\xBB\xBF {} "
	const failed = `{"timed_out":false,"_shards":{"total":1,"failed":1},"hits":{"hits":[{"_id":"0","_source":{}}]}}`
	for _, c := range []struct {
		name   string
		pit    bool
		breaks map[int]string
		want   error
	}{
		{"point in time", true, nil, nil},
		{"scroll", false, nil, nil},
		{"a page of a point in time is asked for again", true, map[int]string{1: "503"}, nil},
		{"a page of a scroll is not", false, map[int]string{1: "503"}, fault.ErrUnavailable},
		{"a shard that failed", true, map[int]string{1: failed}, fault.ErrUnavailable},
		{"a search that ran out of time", true, map[int]string{0: `{"timed_out":true,"_shards":{"failed":0},"hits":{"hits":[{"_id":"0"}]}}`}, fault.ErrUnavailable},
		{"an answer that ends early", true, map[int]string{1: `{"timed_out":false,"hits":{"hits":[{"_id":"x","_source":{"a":"`}, fault.ErrUnavailable},
		{"a page that is too long", true, map[int]string{0: `{"x":"` + strings.Repeat("x", pageLimit) + `"}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shelf{sources: sources, breaks: c.breaks}
			client := serve(t, s.ServeHTTP)
			n, size, admitted := 0, 0, 0
			err := client.ReadShard(t.Context(), Reading{
				Index: "a", PointInTime: c.pit, Size: &size,
				Pause: func(context.Context, time.Duration) error { return nil },
				Admit: func(_ context.Context, bytes int) error { admitted += bytes; return nil },
			}, func(h Hit) error {
				routing := ""
				if n%2 == 1 {
					routing = "ré"
				}
				if string(h.ID) != fmt.Sprintf(`%d"`, n) || string(h.Source) != sources[n] || string(h.Routing) != routing {
					t.Fatalf("hit %d: %q %q %q", n, h.ID, h.Routing, h.Source)
				}
				n++
				return nil
			})
			if !errors.Is(err, c.want) || c.want == nil && (n != len(sources) || admitted == 0) {
				t.Errorf("%d documents, %d bytes admitted, %v", n, admitted, err)
			}
			if s.open != 0 {
				t.Errorf("%d readings are left open", s.open)
			}
			if c.breaks[0] != "" && c.want == nil && s.asked[1] >= s.asked[0] {
				t.Errorf("asked for %v documents", s.asked)
			}
		})
	}
	t.Run("an error of the callback is returned as it is", func(t *testing.T) {
		s, stop := &shelf{sources: sources}, errors.New("enough")
		err := serve(t, s.ServeHTTP).ReadShard(t.Context(), Reading{Index: "a", PointInTime: true}, func(Hit) error { return stop })
		if err != stop || s.open != 0 { //nolint:errorlint // the very error
			t.Errorf("%v, %d left open", err, s.open)
		}
	})
}

// TestACursorIsClosedThoughTheReadingEndsWhileItIsOpened ends the reading before the target has answered with the id of the
// cursor: it is waited for and closed.
func TestACursorIsClosedThoughTheReadingEndsWhileItIsOpened(t *testing.T) {
	for _, pit := range []bool{true, false} {
		s := &shelf{sources: []string{`{}`, `{}`}}
		ctx, cancel := context.WithCancel(t.Context())
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(w, r) // the answer is sent when this function returns
			if ctx.Err() == nil {
				cancel()
				time.Sleep(20 * time.Millisecond)
			}
		})
		err := client.ReadShard(ctx, Reading{Index: "a", PointInTime: pit}, func(Hit) error { return ctx.Err() })
		if !errors.Is(err, context.Canceled) || s.open != 0 {
			t.Errorf("point in time %v: %v, %d left open", pit, err, s.open)
		}
	}
}

// halves is a Pace that wants half of what it wanted before.
type halves struct {
	part  float64
	ended int
}

func (h *halves) Begin() (float64, func(context.Context) error) {
	h.part /= 2
	return h.part, func(context.Context) error { h.ended++; return nil }
}

func TestPagesFollowThePace(t *testing.T) {
	sources := make([]string, 400)
	for i := range sources {
		sources[i] = `{}`
	}
	s := &shelf{sources: sources}
	pace, size := &halves{part: 2}, 200
	err := serve(t, s.ServeHTTP).ReadShard(t.Context(), Reading{Index: "a", PointInTime: true, Size: &size, Pace: pace}, func(h Hit) error {
		if h.Sequence != -1 {
			t.Errorf("sequence %d without being asked for", h.Sequence)
		}
		return nil
	})
	if err != nil || len(s.asked) < 2 || s.asked[0] != 200 || s.asked[1] > 400 || pace.ended != len(s.asked) {
		t.Errorf("%v: sizes %v, %d ended", err, s.asked, pace.ended)
	}
	for i, n := range s.asked[2:] {
		if n > max(1, s.asked[i+1]*4/2) {
			t.Errorf("sizes %v", s.asked)
		}
	}
}

func TestHitsCarryTheirSequenceNumbers(t *testing.T) {
	answers := []string{`{"_id":"1","_seq_no":7,"_primary_term":1,"_source":{},"sort":[0]},{"_id":"2","_source":{},"sort":[1]},{"_id":"3","_seq_no":-2,"_source":{},"sort":[2]}`, ""}
	asked := ""
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/_search") {
			fmt.Fprint(w, `{"pit_id":"p"}`)
			return
		}
		asked = string(body)
		fmt.Fprintf(w, `{"timed_out":false,"_shards":{"failed":0},"hits":{"hits":[%s]}}`, answers[0])
		answers = answers[1:]
	})
	var got []int64
	err := client.ReadShard(t.Context(), Reading{Index: "a", PointInTime: true, Sequence: true}, func(h Hit) error {
		got = append(got, h.Sequence)
		return nil
	})
	if err != nil || fmt.Sprint(got) != "[7 -1 -1]" || !strings.Contains(asked, `"seq_no_primary_term":true`) {
		t.Errorf("%v: %v, asked %s", err, got, asked)
	}
}
