package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

func storageRecipes() []recipe {
	all := []recipe{
		{
			name: "7.10.2-parts", holds: "files in parts of 30 kB, metadata compressed",
			make: func(ctx context.Context, l *lab) error {
				return l.stored(ctx, "7.10.2", map[string]any{"chunk_size": "30kb", "compress": true})
			},
		},
		{
			name: "6.8.23-plain", holds: "metadata not compressed",
			make: func(ctx context.Context, l *lab) error {
				return l.stored(ctx, "6.8.23", map[string]any{"compress": false})
			},
		},
		{
			name: "os2.19.4-zstd-metadata", holds: "metadata compressed with zstd",
			make: func(ctx context.Context, l *lab) error {
				return l.stored(ctx, "os2.19.4", map[string]any{"compress": true, "compression_type": "zstd"})
			},
		},
		{
			name: "os2.19.4-hashed-path", holds: "shards below hashed paths",
			make: func(ctx context.Context, l *lab) error {
				return l.stored(ctx, "os2.19.4", map[string]any{"shard_path_type": "HASHED_PREFIX"})
			},
		},
		{
			name: "os3.8.0-hashed-infix", holds: "shards below hashed paths with the hash inside",
			make: func(ctx context.Context, l *lab) error {
				return l.stored(ctx, "os3.8.0", map[string]any{"shard_path_type": "HASHED_INFIX"})
			},
		},
	}
	for _, v := range []string{"5.6.16", "7.10.2", "8.19.21"} {
		all = append(all, recipe{
			name: v + "-many-chunks", holds: "one segment of more than 1,024 chunks of stored fields",
			make: func(ctx context.Context, l *lab) error { return l.manyChunks(ctx, v) },
		})
	}
	for _, v := range []string{"8.19.21", "os2.19.4"} {
		all = append(all, recipe{
			name: v + "-data-stream", holds: "a data stream that was rolled over",
			make: func(ctx context.Context, l *lab) error { return l.dataStream(ctx, v) },
		})
	}
	return all
}

// stored takes a snapshot of one index into a repository with the given settings.
func (l *lab) stored(ctx context.Context, version string, settings map[string]any) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, settings); err != nil {
		return err
	}
	if err := l.create(ctx, "stored", `"number_of_shards":2`, plain); err != nil {
		return err
	}
	var x, y body
	for i := range 80 {
		x.index(strconv.Itoa(i), note(i))
	}
	x.index("incompressible", fmt.Sprintf(`{"n":1,"raw":{"noise":%q}}`, noise(70_000)))
	for i := range 10 {
		y.remove(strconv.Itoa(i*7)).index(strconv.Itoa(i*7+1), note(500+i))
	}
	for _, b := range []*body{&x, &y} {
		if err := l.load(ctx, "stored", b); err != nil {
			return err
		}
	}
	return l.take(ctx, "snap1", "")
}

// noise returns text that hardly compresses.
func noise(n int) string {
	r := rand.New(rand.NewPCG(5, 5))
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[r.IntN(64)]
	}
	return string(b)
}

// manyChunks merges documents into one segment that are each larger than a chunk but compress well.
func (l *lab) manyChunks(ctx context.Context, version string) error {
	const documents = 1_300
	size := 17 << 10 // LZ4 chunks hold 16 KiB up to Lucene 8.6,
	if version >= "7" && version < "9" {
		size = 82 << 10 // 80 KiB from 8.7 on
	}
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	if err := l.create(ctx, "chunks", `"number_of_shards":1,"refresh_interval":-1`, plain); err != nil {
		return err
	}
	for start := 0; start < documents; start += 50 {
		var x body
		for i := start; i < start+50; i++ {
			unit := fmt.Sprintf("%04d ", i)
			x.index(strconv.Itoa(i), fmt.Sprintf(`{"n":%d,"raw":{"text":%q}}`, i, strings.Repeat(unit, size/len(unit))))
		}
		if err := l.load(ctx, "chunks", &x); err != nil {
			return err
		}
	}
	var gone body
	for i := range 20 {
		gone.remove(strconv.Itoa(i * 61))
	}
	if err := l.load(ctx, "chunks", &gone); err != nil {
		return err
	}
	if err := l.put(ctx, http.MethodPost, "/chunks/_forcemerge?max_num_segments=1", nil); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}

// dataStream fills a data stream before and after a rollover.
func (l *lab) dataStream(ctx context.Context, version string) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	template := `{"index_patterns":["events*"],"data_stream":{},"priority":900,"template":{"settings":{"number_of_shards":1,"number_of_replicas":0}}}`
	if err := l.put(ctx, http.MethodPut, "/_index_template/events", template); err != nil {
		return err
	}
	for round := range 2 {
		var b strings.Builder
		for i := range 25 {
			fmt.Fprintf(&b, "{\"create\":{\"_id\":\"%d-%d\"}}\n{\"@timestamp\":\"2024-01-%02dT00:00:00Z\",\"message\":%q}\n", round, i, i+1, words(uint64(i), 8))
		}
		err := l.steps(ctx, step{"POST /events/_bulk", b.String()}, step{"POST /events/_refresh", ""})
		if err == nil && round == 0 {
			err = l.put(ctx, http.MethodPost, "/events/_rollover", nil)
		}
		if err != nil {
			return err
		}
	}
	docs, err := l.dump(ctx, "events")
	if err != nil {
		return err
	}
	l.truths["snap1"] = docs
	return l.snapshot(ctx, "snap1", "events", "SUCCESS", false)
}
