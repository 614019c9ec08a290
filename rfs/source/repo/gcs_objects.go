package repo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func (g *GCS) put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	rctx, cancel := context.WithTimeout(ctx, putTimeout(g.stall, size))
	defer cancel()
	if _, err := g.upload(rctx, name, body, size, url.Values{}); err != nil {
		return g.failed(ctx, verbPut, name, err)
	}
	return nil
}

// noGeneration is a generation that no object has: generations are microseconds since 1970.
const noGeneration = "1"

func (g *GCS) putIf(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	query := url.Values{"ifGenerationMatch": {"0"}} // it does not exist
	if version != "" {
		if _, err := strconv.ParseInt(version, 10, 64); err != nil {
			version = noGeneration
		}
		query.Set("ifGenerationMatch", version)
	}
	o, err := g.upload(ctx, name, bytes.NewReader(body), int64(len(body)), query)
	var r *refusal
	switch {
	case err != nil && ctx.Err() == nil && errors.As(err, &r) && r.status == http.StatusPreconditionFailed:
		return "", fmt.Errorf("put %s: %w", name, fs.ErrExist)
	case err != nil:
		return "", g.failed(ctx, verbPut, name, err)
	}
	return o.Generation, nil
}

// upload writes an object with its checksum, which the store verifies.
func (g *GCS) upload(ctx context.Context, name string, body io.ReadSeeker, size int64, query url.Values) (o gcsObject, err error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.CopyN(sum, body, size); err != nil {
		return o, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return o, err
	}
	about, err := json.Marshal(map[string]string{"name": g.prefix + name, "crc32c": base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32()))})
	if err != nil {
		return o, err
	}
	const boundary = "rfsd-part-of-an-object"
	head := "--" + boundary + "\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" + string(about) + "\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\n\r\n"
	tail := "\r\n--" + boundary + "--\r\n"
	query.Set("uploadType", "multipart")
	query.Set("fields", "name,size,generation")
	address := g.endpoint + "/upload/storage/v1/b/" + url.PathEscape(g.bucket) + "/o?" + query.Encode()
	res, err := g.send(ctx, http.MethodPost, address, http.Header{"Content-Type": {"multipart/related; boundary=" + boundary}},
		io.MultiReader(strings.NewReader(head), io.LimitReader(body, size), strings.NewReader(tail)), int64(len(head))+size+int64(len(tail)))
	if err != nil {
		return o, err
	}
	return o, g.decode(ctx, verbPut, name, res, &o)
}

func (g *GCS) names(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	p, err := g.page(ctx, prefix, after, "")
	if err != nil {
		return nil, nil, false, err
	}
	for _, o := range p.Items {
		if name, below := strings.CutPrefix(o.Name, g.prefix); below && name != after { // the start of a listing is part of it
			names, versions = append(names, name), append(versions, o.Generation)
		}
	}
	return names, versions, p.Next != "", nil
}

func (g *GCS) delete(ctx context.Context, name string) error {
	res, err := g.send(ctx, http.MethodDelete, g.object(name, nil), nil, nil, 0)
	var r *refusal
	switch {
	case err == nil:
		return res.Body.Close()
	case ctx.Err() == nil && errors.As(err, &r) && r.status == http.StatusNotFound:
		if _, message := gcsReasons(r.body); !strings.Contains(message, "bucket does not exist") {
			return nil
		}
	}
	return g.failed(ctx, "delete", name, err)
}

func (g *GCS) date(ctx context.Context, name string) (time.Time, error) {
	res, err := g.send(ctx, http.MethodGet, g.object(name, url.Values{"fields": {"generation"}}), nil, nil, 0)
	if err != nil {
		return time.Time{}, g.failed(ctx, "head", name, err)
	}
	defer res.Body.Close()
	at, _ := http.ParseTime(res.Header.Get("Date")) // the zero time if it is invalid
	return at, nil
}
