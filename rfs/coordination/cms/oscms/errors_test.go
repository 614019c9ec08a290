package oscms

import (
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestAnswersFallIntoOneCategory(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		answer string
		want   error
	}{
		{"missing index", 404, `{"error":{"type":"index_not_found_exception","reason":"no such index [x] and [require_alias] request flag is [true]"}}`, cms.ErrStoreGone},
		{"missing document", 404, `{"_id":"x","found":false}`, cms.ErrNotFound},
		{"missing document of an update", 404, `{"error":{"type":"document_missing_exception","reason":"[x]: document missing"}}`, cms.ErrNotFound},
		{"lost race", 409, `{"error":{"type":"version_conflict_engine_exception","reason":"x"}}`, cms.ErrConflict},
		{"flood stage", 429, `{"error":{"type":"cluster_block_exception","reason":"x"}}`, fault.ErrUnavailable},
		{"read-only block", 403, `{"error":{"type":"cluster_block_exception","reason":"x"}}`, fault.ErrUnavailable},
		{"red index", 503, `{"error":{"type":"unavailable_shards_exception","reason":"x"}}`, fault.ErrUnavailable},
		{"a proxy", 502, `<html>bad gateway</html>`, fault.ErrUnavailable},
		{"no permission", 403, `{"error":{"type":"security_exception","reason":"x"}}`, fault.ErrConfig},
		{"no user", 401, ``, fault.ErrConfig},
		{"bad request", 400, `{"error":{"type":"parsing_exception","reason":"x"}}`, fault.ErrRejected},
		{"an error as text", 400, `{"error":"no handler"}`, fault.ErrRejected},
		{"scripts are off", 400, `{"error":{"type":"illegal_argument_exception","reason":"failed to execute script","caused_by":{"type":"illegal_argument_exception","reason":"cannot execute [inline] scripts"}}}`, errScripts},
	} {
		if err := answerError(tc.status, []byte(tc.answer)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestAThrownResultIsReadFromTheChainOfCauses(t *testing.T) {
	err := answerError(400, []byte(`{"error":{"type":"illegal_argument_exception","reason":"failed to execute script","caused_by":{"type":"script_exception","reason":"runtime error","caused_by":{"type":"illegal_argument_exception","reason":"rfsd:lost"}}}}`))
	var no refused
	if !errors.As(err, &no) || no.result != cms.Lost {
		t.Errorf("got %v", err)
	}
	if err := answerError(400, []byte(`{"error":{"type":"x","reason":"rfsd:nonsense"}}`)); !errors.Is(err, fault.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

func FuzzAnswerError(f *testing.F) {
	f.Add(400, []byte(`{"error":{"type":"a","reason":"b","caused_by":{"caused_by":{}}}}`))
	f.Add(404, []byte(`{"error":"x"}`))
	f.Add(500, []byte(``))
	f.Fuzz(func(t *testing.T, status int, answer []byte) {
		defer fuzzing.Bounded(t, len(answer))()
		if status >= 300 && answerError(status, answer) == nil {
			t.Error("a failed request is not an error")
		}
	})
}

func TestSessionNamesAreChecked(t *testing.T) {
	for _, s := range []string{"A", "a_b", "a.b", "a b", "ä", "0123456789012345678901234567890123456789012345678901234567890123x"} {
		if _, err := Open(t.Context(), Config{Session: s}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
