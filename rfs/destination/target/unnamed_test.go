package target

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// named is the inverse of appendUnnamed.
func named(unnamed, index []byte) []byte {
	var body []byte
	for rest := unnamed; len(rest) > 0; {
		line, behind, _ := bytes.Cut(rest, []byte{'\n'})
		op, after, _ := bytes.Cut(line, []byte(`":{`))
		body = fmt.Appendf(body, `%s":{"_index":"%s",%s`+"\n", op, index, after)
		if string(op) != `{"delete` {
			var source []byte
			source, behind, _ = bytes.Cut(behind, []byte{'\n'})
			body = append(append(body, source...), '\n')
		}
		rest = behind
	}
	return body
}

func TestAppendUnnamed(t *testing.T) {
	for body, want := range map[string]string{
		`{"index":{"_index":"a","_id":"1"}}` + "\n{}\n" + `{"delete":{"_index":"a","_id":"2"}}` + "\n" + `{"create":{"_index":"a","_id":"3","routing":"r"}}` + "\n{}\n": `{"index":{"_id":"1"}}` + "\n{}\n" + `{"delete":{"_id":"2"}}` + "\n" + `{"create":{"_id":"3","routing":"r"}}` + "\n{}\n",
		`{"index":{"_index":"a","_id":"1"}}` + "\n" + `{"index":{"_index":"b","_id":"1"}}` + "\n":                                                                       `{"index":{"_id":"1"}}` + "\n" + `{"index":{"_index":"b","_id":"1"}}` + "\n", // a source
		`{"index":{"_index":"a","_id":"1"}}` + "\n{}\n" + `{"index":{"_index":"b","_id":"1"}}` + "\n{}\n":                                                               "",
		`{"index":{"_index":"a","_id":"1"}}` + "\n{}\n" + `{"index":{"_index":"ab","_id":"1"}}` + "\n{}\n":                                                              "",
		`{"index":{"_index":"a\u0062","_id":"1"}}` + "\n{}\n":                                                                                                           "",
		`{"index":{"_id":"1"}}` + "\n{}\n":               "",
		`{"index":{"_index":"a"}}` + "\n{}\n":            "",
		`{"update":{"_index":"a","_id":"1"}}` + "\n{}\n": "",
		`{"index":{"_index":"a","_id":"1"}}` + "\n{}":    "",
		"": "",
	} {
		got, index, ok := appendUnnamed(nil, []byte(body))
		if ok != (want != "") || ok && (string(got) != want || string(index) != "a") {
			t.Errorf("%q: %q, %q, %v", body, got, index, ok)
		}
	}
}

// FuzzAppendUnnamed: a body is sent unnamed only if nothing but the one index is left out.
func FuzzAppendUnnamed(f *testing.F) {
	f.Add([]byte(twoItems))
	f.Add([]byte(`{"delete":{"_index":"a","_id":"2"}}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, index, ok := appendUnnamed(nil, body)
		if !ok {
			return
		}
		if back := named(got, index); !bytes.Equal(bytes.TrimSuffix(back, []byte{'\n'}), bytes.TrimSuffix(body, []byte{'\n'})) {
			t.Errorf("%q is sent to %q as %q", body, index, got)
		}
	})
}

// TestShortDocumentsOfOneIndexAreSentWithoutItsName, compressed or not; long ones and those of several indices with it.
func TestShortDocumentsOfOneIndexAreSentWithoutItsName(t *testing.T) {
	short, several, long := &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	const n = 2000
	for i := range n {
		fmt.Fprintf(short, `{"index":{"_index":"a-é","_id":"%d"}}`+"\n"+`{"n":%d}`+"\n", i, i)
		fmt.Fprintf(several, `{"index":{"_index":"a%d","_id":"%d"}}`+"\n"+`{"n":%d}`+"\n", i%2, i, i)
		fmt.Fprintf(long, `{"index":{"_index":"a","_id":"%d"}}`+"\n"+`{"n":"%s"}`+"\n", i, strings.Repeat("x", unnamedLength))
	}
	unnamed, _, _ := appendUnnamed(nil, short.Bytes())
	for _, c := range []struct {
		name             string
		body, path, want string
	}{
		{"short", short.String(), "/a-é/_bulk", string(unnamed)},
		{"of several indices", several.String(), "/_bulk", several.String()},
		{"long", long.String(), "/_bulk", long.String()},
	} {
		for _, compress := range []bool{false, true} {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(unpacked(t, r))
				if r.URL.Path != c.path || string(got) != c.want || err != nil {
					t.Errorf("%s, compressed %v: %s got %d bytes of %d, %v", c.name, compress, r.URL.Path, len(got), len(c.want), err)
				}
				var items []string
				for line := range strings.SplitSeq(c.body, "\n") {
					if strings.HasPrefix(line, `{"index":`) {
						items = append(items, strings.Replace(line, "}}", `,"status":201}}`, 1))
					}
				}
				answer(200, `{"errors":false,"items":[`+strings.Join(items, ",")+`]}`)(w, r)
			}, func(conf *Config) { conf.CompressRequests = compress })
			for range 2 { // the buffer is used again
				if _, err := client.Send(t.Context(), []byte(c.body), n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// unpacked returns the body of a request as it was before compression.
func unpacked(t *testing.T, r *http.Request) io.Reader {
	t.Helper()
	if r.Header.Get("Content-Encoding") == "" {
		return r.Body
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return r.Body
	}
	return z
}
