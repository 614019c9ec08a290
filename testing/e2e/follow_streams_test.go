package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// streamed is a data stream of a source that is followed.
type streamed struct {
	t           *testing.T
	source, n   *cluster.Node
	name        string // of the data stream; the session, and an index that is followed with it, are named after it
	dir         string
	args        []string
	lastWritten int
}

// write adds n documents to the stream at the source, and one to the index.
func (s *streamed) write(n int) {
	s.t.Helper()
	for range n {
		s.lastWritten++
		call(s.t, s.source, "POST", "/"+s.name+"/_doc?refresh=true", map[string]any{"@timestamp": 1700000000000 + s.lastWritten})
	}
	call(s.t, s.source, "POST", "/"+s.name+"-index/_doc?refresh=true", map[string]any{"v": s.lastWritten})
}

// create makes the template of the stream at the source; the first document makes the stream.
func (s *streamed) create() {
	s.t.Helper()
	streamTemplate(s.t, s.source, s.name)
}

func (s *streamed) rollover() { call(s.t, s.source, "POST", "/"+s.name+"/_rollover", nil) }

// backing returns the backing indices of the stream at the source, the oldest first. The nodes of Elasticsearch lack the requests for data
// streams, but keep them.
func (s *streamed) backing() (names []string) {
	s.t.Helper()
	metadata := call(s.t, s.source, "GET", "/_cluster/state/metadata", nil)["metadata"].(map[string]any)
	stream := metadata["data_stream"].(map[string]any)["data_stream"].(map[string]any)[s.name].(map[string]any)
	for _, x := range stream["indices"].([]any) {
		names = append(names, x.(map[string]any)["index_name"].(string))
	}
	return names
}

// change deletes the documents of a backing index with a timestamp before a limit, and writes the others again if it is asked to.
func (s *streamed) change(index string, limit int, rewrite bool) {
	s.t.Helper()
	found := call(s.t, s.source, "GET", "/"+index+"/_search?size=500&seq_no_primary_term=true", nil)["hits"].(map[string]any)["hits"].([]any)
	deleted := 0
	for _, x := range found {
		hit := x.(map[string]any)
		doc := fmt.Sprintf("/%s/_doc/%s?refresh=true&if_seq_no=%v&if_primary_term=%v", index, hit["_id"], hit["_seq_no"], hit["_primary_term"])
		switch source := hit["_source"].(map[string]any); {
		case fmt.Sprint(source["@timestamp"]) < strconv.Itoa(limit):
			call(s.t, s.source, "DELETE", doc, nil)
			deleted++
		case rewrite:
			call(s.t, s.source, "PUT", doc, source)
		}
	}
	if deleted == 0 || deleted == len(found) {
		s.t.Errorf("%d of %d documents of %s were deleted", deleted, len(found), index)
	}
}

// dotless is the name of a backing index where the target has a data stream of the same name.
func dotless(index string) string { return strings.TrimPrefix(index, ".") }

func unchanged(index string) string { return index }

func (s *streamed) round() summary {
	s.t.Helper()
	return round(s.t, s.dir, s.args)
}

// refused runs a round that is refused with words.
func (s *streamed) refused(words ...string) {
	s.t.Helper()
	refusedWith(s.t, RunIn(s.t, s.dir, nil, "rfsd", s.args...), words...)
}

// equal compares the documents of the backing indices, and of the alias unless it is "", with the stream.
func (s *streamed) equal(alias string, becomes func(index string) string) {
	s.t.Helper()
	shown(s.t, s.source)
	shown(s.t, s.n)
	const search = "/_search?scroll=1m&size=500"
	want := renamed(scrolled(s.t, s.source, "/"+s.name+search), becomes)
	if len(want) == 0 {
		s.t.Error("no documents at the source")
	}
	got := truth.Docs{}
	for index := range perIndex(want) {
		for k, v := range scrolled(s.t, s.n, "/"+index+search) {
			got[k] = v
		}
	}
	if f := truth.Compare(want, got).Faults(); f != "" {
		s.t.Errorf("backing indices: %s", f)
	}
	if alias == "" {
		return
	}
	if f := truth.Compare(want, scrolled(s.t, s.n, "/"+alias+search)).Faults(); f != "" {
		s.t.Errorf("alias %s: %s", alias, f)
	}
	all := s.backing()
	var writes []string
	for index, x := range call(s.t, s.n, "GET", "/_alias/"+alias, nil) {
		if x.(map[string]any)["aliases"].(map[string]any)[alias].(map[string]any)["is_write_index"] == true {
			writes = append(writes, index)
		}
	}
	if want := becomes(all[len(all)-1]); !slices.Equal(writes, []string{want}) {
		s.t.Errorf("the alias %s writes to %q, want %s", alias, writes, want)
	}
}

// theirs fails if what others have made on the target is not as they left it.
func (s *streamed) theirs(name string, docs int) {
	s.t.Helper()
	if got := countOf(s.t, s.n, name); got != docs {
		s.t.Errorf("%s of others has %d documents, want %d", name, got, docs)
	}
}

// streamTemplate makes data streams of a name.
func streamTemplate(t *testing.T, n *cluster.Node, name string) {
	t.Helper()
	call(t, n, "PUT", "/_index_template/"+name, map[string]any{"index_patterns": []string{name}, "data_stream": map[string]any{}, "priority": 500,
		"template": map[string]any{"settings": map[string]any{"number_of_shards": 1, "number_of_replicas": 0}}})
}

// streamCase is what happens to a data stream of its name.
type streamCase struct {
	name string
	run  func(s *streamed)
}

// TestFollow_DataStreams: what happens to data streams between rounds. After each round the target has what the source has, or the round is
// refused and says what to do.
func TestFollow_DataStreams(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, version := range draw.Of(t, 1, []string{"8.19.21", "os1.3.14", "os2.19.4"}) {
		source := livingSource(t, version)
		for _, c := range draw.Of(t, 4, []streamCase{
			{"name-of-a-stream", nameOfAStream},
			{"name-of-an-index", nameOfAnIndex},
			{"name-of-an-alias", nameOfAnAlias},
			{"index-of-others", indexOfOthers},
			{"rolled-over", rolledOver},
			{"retained", retained},
			{"rolled-on-target", rolledOnTarget},
			{"recreated", recreated},
			{"cut-over", cutOver},
		}) {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				if !strings.HasPrefix(version, "os") && (c.name == "recreated" || c.name == "cut-over") {
					t.Skip("the nodes of Elasticsearch cannot list or delete data streams: their distribution lacks that module")
				}
				withoutStreams(t, n)
				s := &streamed{t: t, source: source, n: n, name: c.name, dir: t.TempDir(), args: followLive(source, c.name, n.URL, "*"+c.name+"*", "--block-source-writes")}
				t.Cleanup(func() {
					ctx := context.WithoutCancel(t.Context())
					for _, path := range []string{"/_data_stream/" + c.name, "/_index_template/" + c.name, "/" + c.name + "-index"} {
						for _, x := range []*cluster.Node{source, n} {
							_, _ = x.Send(ctx, http.MethodDelete, path, "", nil)
						}
					}
				})
				c.run(s)
			})
		}
	}
}

// nameOfAStream: others make a data stream on the target, of which a stream of the source gets the name later, and delete it.
func nameOfAStream(s *streamed) {
	call(s.t, s.source, "POST", "/"+s.name+"-index/_doc?refresh=true", map[string]any{"v": 0})
	s.round()
	streamTemplate(s.t, s.n, s.name)
	call(s.t, s.n, "POST", "/"+s.name+"/_doc?refresh=true", map[string]any{"@timestamp": 1})
	s.create()
	s.write(3)
	s.round()
	s.equal("", dotless)
	s.theirs(s.name, 1)
	s.rollover()
	s.write(2)
	s.round()
	s.equal("", dotless)
	s.theirs(s.name, 1)
	call(s.t, s.n, "DELETE", "/_data_stream/"+s.name, nil)
	s.change(s.backing()[0], 1700000000002, false)
	s.write(2)
	s.round()
	s.equal(s.name, dotless)
	s.rollover()
	s.write(2)
	s.round()
	shown(s.t, s.n)
	if want, got := countOf(s.t, s.source, s.name), countOf(s.t, s.n, s.name); got != want {
		s.t.Errorf("%d documents behind the alias, want %d", got, want)
	}
}

// nameOfAnIndex: others make an index on the target that has the name of a later stream.
func nameOfAnIndex(s *streamed) {
	call(s.t, s.source, "POST", "/"+s.name+"-index/_doc?refresh=true", map[string]any{"v": 0})
	s.round()
	call(s.t, s.n, "PUT", "/"+s.name+"/_doc/theirs?refresh=true", map[string]any{"v": 1})
	s.create()
	for range 2 {
		s.write(3)
		s.round()
		s.equal("", unchanged)
		s.theirs(s.name, 1)
		s.rollover()
	}
	call(s.t, s.n, "DELETE", "/"+s.name, nil)
	s.write(3)
	s.round()
	s.equal(s.name, unchanged)
}

// nameOfAnAlias: others make an alias on the target that has the name of a later stream.
func nameOfAnAlias(s *streamed) {
	call(s.t, s.source, "POST", "/"+s.name+"-index/_doc?refresh=true", map[string]any{"v": 0})
	s.round()
	call(s.t, s.n, "PUT", "/theirs/_doc/1?refresh=true", map[string]any{"v": 1})
	call(s.t, s.n, "PUT", "/theirs/_alias/"+s.name, nil)
	s.create()
	for range 2 {
		s.write(3)
		s.round()
		s.equal("", unchanged)
		s.theirs(s.name, 1)
		s.rollover()
	}
	call(s.t, s.n, "DELETE", "/theirs", nil)
	s.write(3)
	s.round()
	s.equal(s.name, unchanged)
}

// indexOfOthers: others make an index on the target that has the name of a later index, with documents.
func indexOfOthers(s *streamed) {
	call(s.t, s.source, "PUT", "/"+s.name+"-index/_doc/1?refresh=true", map[string]any{"v": 0})
	s.round()
	call(s.t, s.source, "PUT", "/"+s.name+"-index-2/_doc/1?refresh=true", map[string]any{"v": 0})
	s.t.Cleanup(func() {
		_, _ = s.source.Send(context.WithoutCancel(s.t.Context()), http.MethodDelete, "/"+s.name+"-index-2", "", nil)
	})
	call(s.t, s.n, "PUT", "/"+s.name+"-index-2/_doc/1?refresh=true", map[string]any{"v": 7})
	for range 2 {
		s.refused(s.name+"-index-2", "--existing-documents")
	}
	if got := call(s.t, s.n, "GET", "/"+s.name+"-index-2/_doc/1", nil)["_source"].(map[string]any)["v"]; fmt.Sprint(got) != "7" {
		s.t.Errorf("the document of others is %v", got)
	}
	call(s.t, s.n, "DELETE", "/"+s.name+"-index-2", nil)
	s.round()
	same(s.t, s.source, s.n, s.name+"-*")
}

// rolledOver: the source rolls over, and changes older backing indices, too.
func rolledOver(s *streamed) {
	s.create()
	s.write(5)
	s.round()
	s.equal(s.name, unchanged)
	for i := range 2 {
		s.write(2)
		s.rollover()
		s.write(3)
		s.change(s.backing()[i], 1700000000003+6*i, true)
		s.round()
		s.equal(s.name, unchanged)
	}
}

// retained: the source deletes its oldest backing index.
func retained(s *streamed) {
	s.create()
	s.write(3)
	s.rollover()
	s.write(3)
	s.round()
	for range 2 {
		s.rollover()
		s.write(2)
		call(s.t, s.source, "DELETE", "/"+s.backing()[0], nil)
		s.round()
		s.equal(s.name, unchanged)
		s.write(1)
		s.round()
		s.equal(s.name, unchanged)
	}
}

// rolledOnTarget: others roll the alias over on the target.
func rolledOnTarget(s *streamed) {
	s.create()
	s.write(3)
	s.round()
	was := call(s.t, s.n, "POST", "/"+s.name+"/_rollover", nil)["new_index"].(string)
	s.write(1)
	s.refused(was, s.name)
	s.rollover()
	s.write(1)
	s.refused(was, s.name)
	call(s.t, s.n, "POST", "/"+s.name+"/_doc/theirs?refresh=true", map[string]any{"@timestamp": 7})
	s.refused(was, s.name)
	s.theirs(was, 1)
	call(s.t, s.n, "DELETE", "/"+was, nil)
	s.round() // whose snapshot was made before
	s.round()
	s.equal(s.name, unchanged)
}

// recreated: the stream is deleted and made anew.
func recreated(s *streamed) {
	s.create()
	s.write(3)
	s.rollover()
	s.write(3)
	s.round()
	call(s.t, s.source, "DELETE", "/_data_stream/"+s.name, nil)
	s.create()
	s.write(2)
	s.round()
	s.equal(s.name, unchanged)
	s.rollover()
	s.write(2)
	s.round()
	s.equal(s.name, unchanged)
	call(s.t, s.source, "DELETE", "/_data_stream/"+s.name, nil)
	s.round()
	s.create()
	s.write(2)
	s.round()
	s.equal(s.name, unchanged)
}

// cutOver: the stream rolls over before and after its writes are blocked, and after the cut-over.
func cutOver(s *streamed) {
	door := newProxy(s.t, s.source.URL, 0)
	s.args[slices.Index(s.args, s.source.URL)] = door.URL
	var before sync.Once
	door.before = func(path string) {
		if strings.HasSuffix(path, "/_block/write") {
			before.Do(func() {
				s.write(2)
				s.rollover()
				s.write(2)
			})
		}
	}
	s.create()
	s.write(3)
	s.round()
	order := RunIn(s.t, s.dir, nil, "rfsctl", "cutover", "--target-host", s.n.URL, "--session-name", s.name, "--indices", ".ds-"+s.name+"-*", "--no-wait", "--block-source-writes")
	if order.Code != 4 {
		s.t.Fatalf("exit %d: %s %s", order.Code, order.Stdout, order.Stderr)
	}
	r := RunIn(s.t, s.dir, nil, "rfsd", s.args...)
	if r.Code != 0 {
		s.t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	s.equal(s.name, unchanged)
	moved := s.backing()
	call(s.t, s.n, "POST", "/"+s.name+"/_doc/new?refresh=true", map[string]any{"@timestamp": 1})
	s.rollover() // as a policy of the source does
	call(s.t, s.source, "POST", "/"+s.name+"-index/_doc?refresh=true", map[string]any{"v": 7})
	s.round()
	for index, x := range call(s.t, s.n, "GET", "/_alias/"+s.name, nil) {
		if x.(map[string]any)["aliases"].(map[string]any)[s.name].(map[string]any)["is_write_index"] == true && index != moved[len(moved)-1] {
			s.t.Errorf("the alias writes to %s", index)
		}
	}
	same(s.t, s.source, s.n, s.name+"-index")
}
