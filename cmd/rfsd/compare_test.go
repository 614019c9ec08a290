package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestVerifyOfFilesRefusesWhatFilesDoNotHave(t *testing.T) {
	for _, c := range []struct {
		name   string
		values config.Values
		says   string
	}{
		{"no target", config.Values{}, "--target-host is missing"},
		{"a snapshot beside the files", config.Values{"target-host": {"http://127.0.0.1:1"}, "snapshot-name": {"s"}}, "--snapshot-name has no meaning for files"},
		{"rules", config.Values{"target-host": {"http://127.0.0.1:1"}, "rules": {"r.toml"}}, "--rules has no meaning for files"},
		{"numbers only", config.Values{"target-host": {"http://127.0.0.1:1"}, "quick": {"true"}}, "--quick compares numbers of Lucene documents"},
		{"no such directory", config.Values{"target-host": {"http://127.0.0.1:1"}}, "no-such-directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.values["from"] = []string{"no-such-directory"}
			err := verifyFiles(t.Context(), c.values, output.New(io.Discard))
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
