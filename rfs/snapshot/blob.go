package snapshot

import (
	"bytes"
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

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lzf"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/smile"
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
	// maxMetadata bounds a metadata blob, compressed or not: the largest index metadata
	// seen in the field has some 100 MB of mappings.
	maxMetadata = 1 << 30
)

// Codec names in the header of a metadata blob.
const (
	codecSnapshot  = "snapshot"
	codecSnapshots = "snapshots"
	codecMetadata  = "metadata"
	codecIndex     = "index-metadata"
)

// readJSON reads a metadata blob of the given codec ("" when it has no frame) as JSON.
func readJSON(ctx context.Context, r Repository, name, codec string) ([]byte, error) {
	b, err := repo.ReadAll(ctx, r, name, maxMetadata)
	if err != nil {
		return nil, err
	}
	return decodeBlob(name, codec, b)
}

// readSummed is readJSON and gives the sum of the blob's bytes, too.
func readSummed(ctx context.Context, r Repository, name, codec string) (payload []byte, sum string, err error) {
	b, err := repo.ReadAll(ctx, r, name, maxMetadata)
	if err != nil {
		return nil, "", err
	}
	hash := sha256.Sum256(b)
	payload, err = decodeBlob(name, codec, b)
	return payload, base64.RawURLEncoding.EncodeToString(hash[:sumSize]), err
}

// sumSize is how much of the SHA-256 of a blob is kept to know it again, bytes.
const sumSize = 16

// known demands that a blob is the one that was read when the work was planned.
func known(name, sum, planned string) error {
	if planned == "" || sum == planned {
		return nil
	}
	return fault.Corrupt(name, "", -1, "it is not the blob that was read when this session was planned: the snapshot was replaced, or the repository is another; begin a new session")
}

// decodeBlob checks the frame and gives the payload as JSON.
func decodeBlob(name, codec string, b []byte) ([]byte, error) {
	if codec != "" {
		payload, err := unframe(codec, b)
		if err != nil {
			return nil, inBlob(name, err)
		}
		b = payload
	}
	out, err := payloadJSON(b)
	if err != nil {
		return nil, inBlob(name, err)
	}
	return out, nil
}

// inBlob names the blob in a Damage that does not yet.
func inBlob(name string, err error) error {
	var d *fault.Damage
	if errors.As(err, &d) && d.Blob == "" {
		return &fault.Damage{Blob: name, File: d.File, Offset: d.Offset, Err: d.Err}
	}
	if errors.Is(err, fault.ErrCorrupt) {
		return err
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

// payloadJSON sniffs the form of a payload and gives JSON.
func payloadJSON(b []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(b, []byte("DFL\x00")):
		raw, err := inflate(flate.NewReader(bytes.NewReader(b[4:])))
		if err != nil {
			return nil, err
		}
		return payloadJSON(raw)
	case bytes.HasPrefix(b, []byte("ZSTD\x00\x28\xB5\x2F\xFD")):
		return payloadJSON(b[5:])
	case bytes.HasPrefix(b, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMetadata))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		defer z.Close()
		raw, err := inflate(z)
		if err != nil {
			return nil, err
		}
		return payloadJSON(raw)
	case len(b) > 2 && b[0] == 'Z' && b[1] == 'V' && b[2] < 2:
		raw, err := lzf.Append(nil, b)
		if err != nil {
			return nil, err
		}
		return payloadJSON(raw)
	case smile.Is(b):
		return smile.AppendJSON(nil, b)
	}
	if !json.Valid(b) {
		return nil, fault.Corrupt("", "", 0, "neither JSON nor SMILE nor a known compression")
	}
	return b, nil
}

// inflate reads a decompressor to its end, bounded.
func inflate(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err != nil {
		return nil, fault.Corrupt("", "", -1, "decompress: %w", err)
	}
	if len(out) > maxMetadata {
		return nil, fault.Corrupt("", "", -1, "decompresses to more than %d bytes", maxMetadata)
	}
	return out, nil
}

// unmarshal decodes the JSON of a blob.
func unmarshal(name string, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fault.Corrupt(name, "", -1, "unexpected content: %w", err)
	}
	return nil
}

// missing says whether a blob is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// referenced turns a missing blob that something refers to into damage.
func referenced(name, by string, err error) error {
	if missing(err) {
		return fault.Corrupt(name, "", -1, "the blob is missing, but %s refers to it", by)
	}
	return err
}
