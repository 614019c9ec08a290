package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lzf"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/smile"
)

// Framing of metadata blobs (every .dat and shard index-<G> since Elasticsearch 2.0):
//
//	3F D7 6C 17 | VInt length, codec name | i32 version 1 | payload | C0 28 93 E8 | i32 0 | i64 CRC-32
//
// all integers big-endian; the CRC-32 (IEEE) covers everything before itself.
// The payload is sniffed: "DFL\0" and raw DEFLATE, a zstd frame (after "ZSTD\0" as OpenSearch 2.19
// writes it), LZF chunks, SMILE, or JSON.
const (
	headerMagic = 0x3FD76C17
	footerMagic = 0xC02893E8
	footerSize  = 16
)

// Limits of blobs that are read whole. A few kilobytes may decompress to any length, once.
const (
	// maxMetadata bounds a metadata blob in bytes, both stored and decompressed: the largest index metadata seen in the field has some 100
	// MB of mappings.
	maxMetadata = 128 << 20
	// maxCatalog bounds the catalog likewise: 10,000 indices in 500 snapshots take 125 MB.
	maxCatalog = 192 << 20
	// A payload of more than freely bytes must not exceed maxRatio times the length of its compressed form.
	freely   = 32 << 20
	maxRatio = 200
	// maxValues bounds the values of a list of files or snapshots, and of the metadata of an index: a short text can hold many of them.
	maxValues = 2_000_000
	// maxSettings bounds the values of the settings of an index: lists of words are the longest.
	maxSettings = 200_000
)

// Codec names in the header of a metadata blob.
const (
	codecSnapshot  = "snapshot"
	codecSnapshots = "snapshots"
	codecMetadata  = "metadata"
	codecIndex     = "index-metadata"
)

// A blob that is longer than smallBlob, decompresses to more than smallText, or holds more than smallValues is large: several large blobs
// are not held at the same time if the Repository limits them.
const (
	smallBlob   = 1 << 20
	smallText   = 4 << 20
	smallValues = 100_000
)

// patient is a Repository that limits the large blobs that are held at the same time.
type patient interface {
	// HoldLarge blocks until a large blob may be held; the caller calls release when it has dropped the blob.
	HoldLarge(ctx context.Context) (release func(), err error)
}

// readJSON reads a metadata blob of the given codec ("" if it has no frame) as JSON. The caller calls done when it has parsed the blob, but
// not after an error.
func readJSON(ctx context.Context, r Repository, name, codec string) (payload []byte, done func(), err error) {
	payload, _, done, err = readBlob(ctx, r, name, codec, maxMetadata)
	return payload, done, err
}

// readSummed is readJSON that also returns the sum of the blob's bytes.
func readSummed(ctx context.Context, r Repository, name, codec string) (payload []byte, sum string, done func(), err error) {
	payload, b, done, err := readBlob(ctx, r, name, codec, maxMetadata)
	if b == nil {
		return nil, "", done, err
	}
	hash := sha256.Sum256(b)
	return payload, base64.RawURLEncoding.EncodeToString(hash[:sumSize]), done, err
}

// readBlob is readJSON with another limit, in bytes; it also returns the bytes of the blob.
func readBlob(ctx context.Context, r Repository, name, codec string, limit int) (payload, b []byte, done func(), err error) {
	done = func() {}
	if p, ok := r.(patient); ok {
		if b, err = repo.ReadAll(ctx, r, name, smallBlob); err == nil {
			payload, err = decodeBlob(name, codec, b, min(limit, smallText))
		}
		if err == nil && countValues(payload) <= smallValues || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			return payload, b, done, err
		}
		if done, err = p.HoldLarge(ctx); err != nil {
			return nil, nil, func() {}, err
		}
	}
	if b, err = readDecoded(ctx, r, name, limit, func(b []byte) (err error) {
		payload, err = decodeBlob(name, codec, b, limit)
		return err
	}); err != nil { // callers may look for the reason in other blobs
		done()
		return nil, nil, func() {}, err
	}
	return payload, b, done, nil
}

// suspectTries limits the retries for a blob that cannot be decoded and whose length differs from the length stated by the repository.
const suspectTries = 3

// readDecoded reads a blob of at most limit bytes and decodes it. A bucket may answer with a part of the blob, or with something else, as
// if it were the blob: the blob is corrupt only if its stated length equals the length of the answer, or if retries give the same result.
func readDecoded(ctx context.Context, r Repository, name string, limit int, decode func(b []byte) error) ([]byte, error) {
	for n := 0; ; n++ {
		b, err := repo.ReadAll(ctx, r, name, int64(limit))
		if err != nil {
			return nil, err
		}
		if err = decode(b); err == nil {
			return b, nil
		}
		if n == suspectTries || !errors.Is(err, fault.ErrCorrupt) {
			return nil, err
		}
		if size, serr := r.Stat(ctx, name); serr != nil || size == int64(len(b)) {
			return nil, err
		}
	}
}

// sumSize is the number of bytes of a blob's SHA-256 that are kept to identify it.
const sumSize = 16

// known checks that a blob equals the blob that was read when the work was planned.
func known(name, sum, planned string) error {
	if planned == "" || sum == planned {
		return nil
	}
	return fault.Corrupt(name, "", -1, "it differs from the blob that was read when this session was planned: the snapshot was replaced, or the repository is a different one; start a new session")
}

// decodeBlob checks the frame and returns the payload as JSON, of at most limit bytes.
func decodeBlob(name, codec string, b []byte, limit int) ([]byte, error) {
	if codec != "" {
		payload, err := unframe(codec, b)
		if err != nil {
			return nil, inBlob(name, err)
		}
		b = payload
	}
	out, err := payloadJSON(b, limit)
	if err != nil {
		return nil, inBlob(name, err)
	}
	return out, nil
}

// inBlob adds the name of the blob to a Damage that has none.
func inBlob(name string, err error) error {
	var d *fault.Damage
	if errors.As(err, &d) && d.Blob == "" {
		return &fault.Damage{Blob: name, File: d.File, Offset: d.Offset, Err: d.Err}
	}
	var parsing *codec.Error
	switch {
	case errors.As(err, &parsing):
		return &fault.Damage{Blob: name, Offset: parsing.Off, Err: err}
	case errors.Is(err, fault.ErrCorrupt):
		return err
	case errors.Is(err, fault.ErrUnsupported):
		return fmt.Errorf("%s: %w", name, err)
	}
	return &fault.Damage{Blob: name, Offset: -1, Err: err}
}

// unframe verifies header, footer and checksum.
func unframe(codec string, b []byte) ([]byte, error) {
	if len(b) < 9+footerSize {
		return nil, fault.Corrupt("", "", int64(len(b)), "%d bytes are too few for a metadata blob", len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != headerMagic {
		return nil, fault.Corrupt("", "", 0, "header magic %#08x", m)
	}
	end := len(b) - footerSize
	if binary.BigEndian.Uint32(b[end:]) != footerMagic || binary.BigEndian.Uint32(b[end+4:]) != 0 {
		return nil, fault.Corrupt("", "", int64(end), "no footer")
	}
	if want, got := binary.BigEndian.Uint64(b[end+8:]), uint64(crc32.ChecksumIEEE(b[:end+8])); want != got {
		return nil, fault.Corrupt("", "", int64(end+8), "checksum %08x, computed %08x", want, got)
	}
	n := int(b[4])
	if n >= 0x80 || 9+n > end {
		return nil, fault.Corrupt("", "", 4, "codec name of %d bytes", n)
	}
	if got := string(b[5 : 5+n]); got != codec {
		return nil, fault.Corrupt("", "", 5, "codec %q where %q is expected", got, codec)
	}
	if v := binary.BigEndian.Uint32(b[5+n:]); v != 1 {
		return nil, fault.Corrupt("", "", int64(5+n), "codec version %d is unknown", v)
	}
	return b[9+n : end], nil
}

// payloadJSON detects the format of a payload and returns JSON of at most limit bytes. A payload may be compressed only once, as every
// version writes it.
func payloadJSON(b []byte, limit int) ([]byte, error) {
	limit = min(limit, max(freely, maxRatio*len(b)))
	raw, err := decompress(b, limit)
	if err != nil {
		return nil, err
	}
	switch {
	case smile.Is(raw):
		out, err := smile.AppendJSON(make([]byte, 0, len(raw)+len(raw)/2), raw) // the usual growth
		if err == nil && len(out) > limit {
			err = tooLong(limit)
		}
		return out, err
	case len(raw) > limit:
		return nil, tooLong(limit)
	case !json.Valid(raw):
		return nil, fault.Corrupt("", "", 0, "neither JSON nor SMILE nor a known compression (a payload is compressed once at most)")
	}
	return raw, nil
}

// decompress returns the decompressed bytes; uncompressed ones are returned unchanged.
func decompress(b []byte, limit int) ([]byte, error) {
	switch {
	case bytes.HasPrefix(b, []byte("DFL\x00")):
		return inflate(flate.NewReader(bytes.NewReader(b[4:])), limit)
	case bytes.HasPrefix(b, []byte("ZSTD\x00\x28\xB5\x2F\xFD")):
		b = b[5:]
	case bytes.HasPrefix(b, []byte{0x28, 0xB5, 0x2F, 0xFD}):
	case len(b) > 2 && b[0] == 'Z' && b[1] == 'V' && b[2] < 2:
		if n, err := lzf.Length(b); err != nil || n > limit {
			return nil, cmp.Or(err, tooLong(limit))
		}
		return lzf.Append(nil, b)
	default:
		return b, nil
	}
	z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer z.Close()
	return inflate(z, limit)
}

// maxWindow is the maximum window of a zstd frame, in bytes: the highest level (22) uses 128 MiB, the levels that snapshots are written
// with 8 MiB and less.
const maxWindow = 32 << 20

func tooLong(limit int) error {
	return fault.Corrupt("", "", -1, "decompresses to more than %d bytes", limit)
}

// inflate reads a decompressor to its end, at most limit bytes.
func inflate(r io.Reader, limit int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fault.Corrupt("", "", -1, "decompress: %w", err)
	}
	if len(out) > limit {
		return nil, tooLong(limit)
	}
	return out, nil
}

// fewValues returns an error if the JSON of a blob holds more than maxValues values.
func fewValues(name string, b []byte) error {
	if len(b) > maxValues && countValues(b) > maxValues {
		return fault.Corrupt(name, "", -1, "it holds more than %d values", maxValues)
	}
	return nil
}

// countValues returns the approximate number of values that valid JSON holds.
func countValues(b []byte) (n int) {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case ',', '{', '[':
			n++
		}
	}
	return n
}

// unmarshalList decodes a blob of many small values.
func unmarshalList(name string, b []byte, v any) error {
	if err := fewValues(name, b); err != nil {
		return err
	}
	return unmarshal(name, b, v)
}

// unmarshal decodes the JSON of a blob.
func unmarshal(name string, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fault.Corrupt(name, "", -1, "unexpected content: %w", err)
	}
	return nil
}

// missing reports whether a blob is missing.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// referenced converts the error of a missing blob that another blob refers to into damage.
func referenced(name, by string, err error) error {
	if missing(err) {
		return fault.Corrupt(name, "", -1, "the blob is missing, but %s refers to it", by)
	}
	return err
}
