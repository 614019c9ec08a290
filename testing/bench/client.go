package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/testing/rest"
)

// clientBody is the size of a prepared request body in bytes, as in rfsd's default.
const clientBody = 5 << 20

// clientConnections is the number of concurrent requests of the minimal client, as in rfsd's default.
const clientConnections = 4

// prepareBodies splits exported bulk files into request bodies: whole pairs of lines, up to clientBody bytes each.
func prepareBodies(dir string) ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, indexName, "*.ndjson"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nothing exported below %s", dir)
	}
	var bodies [][]byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for len(data) > 0 {
			n := cut(data, clientBody)
			bodies = append(bodies, data[:n:n])
			data = data[n:]
		}
	}
	return bodies, nil
}

// cut returns the length of the longest prefix of whole pairs of lines that is not longer than limit, but at least one pair.
func cut(data []byte, limit int) int {
	end := 0
	for end < len(data) {
		next := end
		for range 2 {
			i := bytes.IndexByte(data[next:], '\n')
			if i < 0 {
				return len(data)
			}
			next += i + 1
		}
		if next > limit && end > 0 {
			break
		}
		end = next
	}
	return end
}

// sendAll sends the bodies over a few connections as fast as the cluster accepts them, requesting minimal responses. A rejected request or
// item is an error.
func sendAll(ctx context.Context, url string, bodies [][]byte) error {
	c := rest.Client{URL: url, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clientConnections, DisableCompression: true}}}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range clientConnections {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(bodies) {
					return nil
				}
				answer, err := c.Send(ctx, http.MethodPost, "/_bulk?filter_path=errors", "application/x-ndjson", bodies[i])
				if err != nil {
					return err
				}
				if !bytes.Contains(answer, []byte(`"errors":false`)) {
					return fmt.Errorf("the minimal client was refused: %s", answer)
				}
			}
		})
	}
	return g.Wait()
}
