package target_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// BenchmarkSend sends bodies of 5 MB to a server on loopback that reads and drops them:
// what the client alone costs, without compression and where it is allowed.
func BenchmarkSend(b *testing.B) {
	const docs = 5000
	var body, answer bytes.Buffer
	answer.WriteString(`{"took":1,"errors":false,"items":[`)
	for i := range docs {
		fmt.Fprintf(&body, `{"index":{"_index":"bench","_id":"%08d"}}`+"\n", i)
		fmt.Fprintf(&body, `{"id":%d,"name":"customer %x","text":"%s","price":%d.5,"tags":["a%d","b%d"]}`+"\n", i, i*7919, words64(i), i%977, i%13, i%7)
		if i > 0 {
			answer.WriteByte(',')
		}
		fmt.Fprintf(&answer, `{"index":{"_index":"bench","_id":"%08d","status":201}}`, i)
	}
	answer.WriteString("]}")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer.Bytes())
	}))
	defer s.Close()
	for _, compress := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "as measured"}[compress], func(b *testing.B) {
			c, err := target.New(b.Context(), target.Config{URL: s.URL, CompressRequests: compress})
			if err != nil {
				b.Fatal(err)
			}
			var sender bulk.Sender = c
			b.SetBytes(int64(body.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sender.Send(b.Context(), body.Bytes(), docs); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// words64 is text of some 800 bytes that differs between documents, as prose does.
func words64(seed int) string {
	var b bytes.Buffer
	vocabulary := []string{"quick", "migration", "of", "every", "document", "without", "loss", "and", "the", "shard", "segment", "whose", "bytes", "remain"}
	x := uint32(seed)*2654435761 + 1
	for range 128 {
		x = x*1664525 + 1013904223
		b.WriteString(vocabulary[(x>>16)%uint32(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}
