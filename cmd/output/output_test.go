package output_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/testing/outputtest"
)

func TestWriter_Finish(t *testing.T) {
	for _, c := range []struct {
		name           string
		asJSON         bool
		do             func(w *output.Writer) error
		code           exit.Code
		stdout, stderr string
	}{
		{"text", false, func(w *output.Writer) error { fmt.Fprintln(w, "done"); return w.Result([]int{1}) }, exit.OK, "done\n", ""},
		{"text and an error", false, func(*output.Writer) error { return errors.New("no answer") }, exit.Failed, "", "rfsx: no answer\n"},
		{"a result", true, func(w *output.Writer) error { fmt.Fprintln(w, "done"); return w.Result([]int{1}) }, exit.OK, "0[]  [1]", ""},
		{"an empty result", true, func(w *output.Writer) error { return w.Result([]int{}) }, exit.OK, "0[]  []", ""},
		{"no result", true, func(*output.Writer) error { return nil }, exit.OK, "0[]", ""},
		{"an error", true, func(*output.Writer) error { return errors.New("no answer") }, exit.Failed, "1[no answer]", "rfsx: no answer\n"},
		{"a result with an exit code", true, func(w *output.Writer) error {
			return errors.Join(w.Result(1), exit.With(exit.Documents, nil))
		}, exit.Documents, "6[]  1", ""},
		{"a result and an error", true, func(w *output.Writer) error {
			return exit.With(exit.Parts, errors.Join(w.Result(1), errors.New("a < b")))
		}, exit.Parts, "7[a < b]  1", "rfsx: a < b\n"},
		{"several results", true, func(w *output.Writer) error {
			return errors.Join(w.Result(1), w.Result(2), w.Flush(), w.Flush(), w.Result(3))
		}, exit.OK, "-[]  1|-[]  2|0[]  3", ""},
		{"control characters stay in JSON", true, func(w *output.Writer) error { return w.Result("a\x1b[31m") }, exit.OK, `0[]  "a\u001b[31m"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			w := output.New(terminal.NewWriter(&stdout))
			w.Start("rfsx items list", c.asJSON)
			code := w.Finish("rfsx", c.do(w), error.Error, &stderr)
			got := stdout.String()
			if c.asJSON {
				all, err := outputtest.Documents(got)
				if err != nil {
					t.Fatal(err)
				}
				var texts []string
				for _, d := range all {
					text := "-"
					if d.ExitCode != nil {
						text = fmt.Sprint(*d.ExitCode)
					}
					text += "[" + d.Error + "]"
					if d.Data != nil {
						text += "  " + strings.Join(strings.Fields(string(d.Data)), "")
					}
					texts = append(texts, text)
				}
				got = strings.Join(texts, "|")
				if n := strings.Count(stdout.String(), "\n"); len(all) > 1 && n != len(all) {
					t.Errorf("%d documents in %d lines", len(all), n)
				}
			}
			if code != c.code || got != c.stdout || stderr.String() != c.stderr {
				t.Errorf("exit %d, %q, %q", code, got, stderr.String())
			}
		})
	}
}

// broken is an output that nobody reads any more.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriter_ABrokenOutputIsAFailure(t *testing.T) {
	w := output.New(broken{})
	w.Start("rfsx", true)
	var stderr bytes.Buffer
	if code := w.Finish("rfsx", nil, error.Error, &stderr); code != exit.Failed || !strings.Contains(stderr.String(), "write output: broken pipe") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}
