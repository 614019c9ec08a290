package target

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestAnswersOfPipelines sends two documents to indices whose pipelines drop, move or rename the first of them.
func TestAnswersOfPipelines(t *testing.T) {
	const second = `{"index":{"_index":"a","_id":"2","_version":1,"result":"created","status":201}}`
	for name, c := range map[string]struct {
		first   string
		run     bool   // --run-pipelines
		final   string // pipeline of the index
		dropped bool
		moved   int
		err     error
	}{
		"created":                           {first: `"_index":"a","_id":"1","_version":1,"result":"created","status":201`},
		"dropped":                           {first: `"_index":"a","_id":"1","_version":-3,"result":"noop","status":200`, dropped: true},
		"dropped by one that was asked for": {first: `"_index":"a","_id":"1","_version":-3,"result":"noop","status":200`, run: true, dropped: true},
		"another id":                        {first: `"_index":"a","_id":"x","_version":1,"result":"created","status":201`, err: fault.ErrUnavailable},
		"another id by a final pipeline":    {first: `"_index":"a","_id":"x","_version":1,"result":"created","status":201`, final: "p", err: fault.ErrUnsupported},
		"another index by a final pipeline": {first: `"_index":"a","_id":"1","status":500,"error":{"type":"illegal_state_exception","reason":"final pipeline [p] can't change the target index"}`, err: fault.ErrUnsupported},
		"another id as asked for":           {first: `"_index":"a","_id":"x","_version":1,"result":"created","status":201`, run: true, moved: 1},
		"another index as asked for":        {first: `"_index":"b","_id":"1","_version":4,"result":"updated","status":200`, run: true, moved: 1},
		"the index behind an alias":         {first: `"_index":"behind","_id":"1","_version":1,"result":"created","status":201`, run: true},
	} {
		t.Run(name, func(t *testing.T) {
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/_bulk") {
					answer(200, `{"errors":false,"items":[{"index":{`+c.first+`}},`+second+`]}`)(w, r)
					return
				}
				if strings.HasSuffix(r.URL.Path, "final_pipeline") {
					answer(200, `{"a":{"settings":{"index.final_pipeline":"`+c.final+`"}}}`)(w, r)
					return
				}
				answer(200, `{"behind":{}}`)(w, r)
			}, func(conf *Config) { conf.RunPipelines = c.run })
			res, err := cl.Send(t.Context(), []byte(twoItems), 2)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if err != nil {
				if errors.Is(err, fault.ErrUnsupported) && !(strings.Contains(err.Error(), "final pipeline") && strings.Contains(err.Error(), "--run-pipelines")) {
					t.Error(err)
				}
				return
			}
			if res.Moved != c.moved || len(res.Replaced) != 0 || (len(res.Refused) == 1) != c.dropped {
				t.Fatalf("%+v", res)
			}
			if c.dropped && (res.Refused[0].Pos != 0 || res.Refused[0].Type != string(doc.Dropped) || res.Refused[0].Retryable()) {
				t.Errorf("%+v", res.Refused[0])
			}
		})
	}
}

func TestOperationsAreThoseOfAllPrimaries(t *testing.T) {
	const two = `{"_shards":{"failed":0},"indices":{"a":{"shards":{
		"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":4},"indexing":{"delete_total":2}},{"routing":{"primary":false},"seq_no":{"max_seq_no":4},"indexing":{"delete_total":2}}],
		"1":[{"routing":{"primary":true},"seq_no":{"max_seq_no":-1},"indexing":{"delete_total":0}}]}}}}`
	for name, c := range map[string]struct {
		body string
		want Operations
		err  error
	}{
		"two shards, one with a replica": {body: two, want: Operations{Executed: 5, Deletes: 2}},
		"a shard without a primary":      {body: strings.Replace(two, `"primary":true`, `"primary":false`, 1), err: fault.ErrRejected},
		"a shard that does not answer":   {body: strings.Replace(two, `"failed":0`, `"failed":1`, 1), err: fault.ErrUnavailable},
		"no sequence numbers":            {body: `{}`, err: fault.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			is, err := serve(t, answer(200, c.body)).Operations(t.Context(), "a")
			if !errors.Is(err, c.err) || err == nil && is != c.want {
				t.Errorf("%+v, %v", is, err)
			}
		})
	}
}
