package failed

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Content is the part of a failed document's source that is recorded.
type Content string

// The values of --failed-documents-content. The zero Content is Full.
const (
	Full Content = "full"
	Hash Content = "hash" // its SHA-256 and length; instead of the message, which quotes values, the class of the failure
	None Content = "none" // the class of the failure only
)

// sources reports whether sources and messages are recorded.
func (c Content) sources() bool { return c == Full || c == "" }

// line is a failure in its JSON form. AppendLine appends the source itself, byte for byte.
type line struct {
	Index   string          `json:"index"`
	ID      string          `json:"id"`
	Type    string          `json:"type,omitempty"`
	Routing string          `json:"routing,omitempty"`
	Shard   int             `json:"shard"`
	Ordinal int64           `json:"ordinal"`
	Reason  doc.Reason      `json:"reason"`
	Status  int             `json:"status"`
	Version int64           `json:"version,omitempty"`
	Class   string          `json:"class,omitempty"`
	Content Content         `json:"content,omitempty"` // Hash or None if the document has a source that is not in the line
	SHA256  string          `json:"source_sha256,omitempty"`
	Bytes   int             `json:"source_bytes,omitempty"`
	Detail  string          `json:"detail"`
	Remedy  string          `json:"remedy,omitempty"` // of the class; "" for failures without a class
	Source  json.RawMessage `json:"source,omitempty"`
	Base64  []byte          `json:"source_base64,omitempty"`
}

// AppendLine appends a failure as a line to dst and returns the result. A source that is JSON in one line is embedded
// as it is, any other in base64.
func AppendLine(dst []byte, f *doc.Failure, content Content) []byte {
	l := line{Index: f.Index, ID: f.ID, Type: f.Type, Routing: f.Routing, Shard: f.Shard, Ordinal: f.Ordinal, Reason: f.Reason, Status: f.Status, Version: f.Version}
	if content.sources() {
		l.Detail = f.Detail
		if c := classes.Of(f.Reason, f.Detail); c.Known() {
			l.Remedy = c.For(f.Index, f.Detail)
		}
	} else {
		l.leaveOut(f, content)
	}
	dst = l.append(dst)
	if f.Source == nil || !content.sources() {
		return dst
	}
	dst = bytes.TrimSuffix(dst, []byte("}\n"))
	if !bytes.ContainsAny(f.Source, "\n\r") && utf8.Valid(f.Source) && json.Valid(f.Source) {
		dst = append(append(dst, `,"source":`...), f.Source...)
		return append(dst, "}\n"...)
	}
	dst = append(dst, `,"source_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, f.Source)
	return append(dst, "\"}\n"...)
}

// AppendRecord appends a failure with only names and class, as a line of None, to dst and returns the result.
func AppendRecord(dst []byte, f *doc.Failure, class string) []byte {
	l := line{Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal, Reason: f.Reason, Status: f.Status, Class: class, Content: None}
	return l.append(dst)
}

func (l *line) append(dst []byte) []byte {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(l) // strings and numbers can always be encoded, and writing to memory never fails
	return buf.Bytes()
}

// leaveOut sets the fields that replace the source and the message.
func (l *line) leaveOut(f *doc.Failure, content Content) {
	l.Class = classes.Of(f.Reason, f.Detail).Name
	if f.Source == nil {
		return
	}
	l.Content = content
	if content == Hash {
		l.SHA256, l.Bytes = Digest(f.Source), len(f.Source)
	}
}

// Digest returns the SHA-256 of a source in hexadecimal, as a line of Hash contains it.
func Digest(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:])
}

// Omitted reports whether the document has a source that is not in the line.
func (l Line) Omitted() bool { return l.Content == Hash || l.Content == None }

// Class returns the class that the line names, else the class of its reason and message.
func (l Line) Class() classes.Class {
	if c, ok := classes.Named(l.class); ok {
		return c
	}
	return classes.Of(l.Failure.Reason, l.Failure.Detail)
}

// parse parses one line. The result does not alias text.
func (l *Line) parse(text []byte) error {
	var x line
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	if x.Index == "" && x.ID == "" {
		return errors.New("neither index nor id")
	}
	l.Failure = doc.Failure{
		Index: x.Index, ID: x.ID, Type: x.Type, Routing: x.Routing, Shard: x.Shard, Ordinal: x.Ordinal,
		Reason: x.Reason, Status: x.Status, Version: x.Version, Detail: x.Detail, Source: x.Base64,
	}
	if x.Source != nil {
		l.Failure.Source = x.Source
	}
	l.Content, l.SHA256, l.class = x.Content, x.SHA256, x.Class
	return nil
}

// IsLine reports whether text starts like a line of a file of failed documents.
func IsLine(text []byte) bool {
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(text, []byte(`{"index":"`))
	for _, key := range []string{`,"id":"`, `,"shard":`, `,"ordinal":`, `,"reason":"`, `,"status":`} {
		if ok {
			_, rest, ok = bytes.Cut(rest, []byte(key))
		}
	}
	return ok
}
