package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestMessagesStateWhatIsWanted holds the errors of options that made operators guess.
func TestMessagesStateWhatIsWanted(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	base := []string{"--repo-uri", "/repo", "--snapshot-name", "s", "--target-host", "http://127.0.0.1:9200"}
	for _, c := range []struct {
		name  string
		args  []string
		wants []string
	}{
		{"a negative number of replicas", []string{"--replicas", "-1"}, []string{`--replicas "-1"`, "0 or more"}},
		{"replicas that are no number", []string{"--replicas", "many"}, []string{`--replicas "many"`, "0 or more"}},
		{"an address without a scheme", []string{"--target-host", "localhost:9200"}, []string{`--target-host "localhost:9200"`, "https://"}},
		{"a coordinator without a scheme", []string{"--coordinator-host", "other:9200"}, []string{`--coordinator-host "other:9200"`, "https://"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, append(base[:len(base):len(base)], c.args...)...)
			if !errors.Is(err, fault.ErrConfig) {
				t.Fatalf("%v", err)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
		})
	}
}

func TestAnUnknownCommandIsAnError(t *testing.T) {
	if err := newApp().RunContext(t.Context(), []string{"rfsd", "migrat"}); err == nil || !strings.Contains(err.Error(), `"migrat"`) || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("%v", err)
	}
}

func TestLogsHaveReadableDurationsAndNoEmptyErrors(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, report.LogOptions(slog.LevelInfo))).With("slot", 1).Info("lease_started", "length", 10*time.Minute, "error", "", "documents", 0)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if _, has := line["error"]; line["length"] != "10m0s" || has || line["documents"] != float64(0) {
		t.Errorf("%s", out.String())
	}
}
