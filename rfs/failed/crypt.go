package failed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/rfsd/rfsd/rfs/fault"
)

// An encrypted file consists of age files in ASCII armour, one after the other: one for each call of Record, so that what
// was synced can be read whatever comes after it.

const (
	// maxAgeHeader bounds what is read of an age file before its header is authenticated, in bytes.
	maxAgeHeader = 64 << 10
	// maxIdentities bounds a file of identities, in bytes.
	maxIdentities = 1 << 20
)

// Recipient is a public key to which failed documents are encrypted.
type Recipient struct{ key *age.X25519Recipient }

// ParseRecipient reads a public key of age; fault.ErrConfig for another text.
func ParseRecipient(text string) (*Recipient, error) {
	key, err := age.ParseX25519Recipient(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("want the public key that age-keygen prints (age1…): %w: %w", err, fault.ErrConfig)
	}
	return &Recipient{key}, nil
}

// seal returns what encrypts to the recipient; its Close ends the age file and does not close w.
func (r *Recipient) seal(w io.Writer) (io.WriteCloser, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	text := armor.NewWriter(out)
	body, err := age.Encrypt(text, r.key)
	if err != nil {
		return nil, fmt.Errorf("encrypt failed documents: %w", err)
	}
	return &sealing{WriteCloser: body, text: text, out: out}, nil
}

type sealing struct {
	io.WriteCloser

	text io.Closer
	out  *bufio.Writer
}

func (s *sealing) Close() error {
	for _, end := range []func() error{s.WriteCloser.Close, s.text.Close, s.out.Flush} {
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

// Identities are the secret keys that read encrypted files.
type Identities struct{ keys []*age.X25519Identity }

// ReadIdentities reads a file of secret keys as age-keygen writes it; fault.ErrConfig for another one.
func ReadIdentities(r io.Reader) (*Identities, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxIdentities+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxIdentities {
		return nil, fmt.Errorf("more than %d bytes: want the file that age-keygen writes: %w", maxIdentities, fault.ErrConfig)
	}
	ids := &Identities{}
	for n, text := range strings.Split(string(b), "\n") {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		key, err := age.ParseX25519Identity(text)
		if err != nil { // its text would be that of a secret key
			return nil, fmt.Errorf("line %d is no secret key (AGE-SECRET-KEY-1…): want the file that age-keygen writes: %w", n+1, fault.ErrConfig)
		}
		ids.keys = append(ids.keys, key)
	}
	if len(ids.keys) == 0 {
		return nil, fmt.Errorf("no secret key in it: want the file that age-keygen writes: %w", fault.ErrConfig)
	}
	return ids, nil
}

// Encrypted reports whether text begins as an encrypted file does.
func Encrypted(text []byte) bool { return bytes.HasPrefix(text, []byte(armor.Header)) }

// Plain reads a file of failed documents that may be encrypted. Nothing is returned that is not authenticated. Errors beside
// those of reading are fault.ErrConfig for a file that the identities do not read, and fault.ErrCorrupt.
type Plain struct {
	in   *bufio.Reader
	with *Identities
	to   *age.X25519Recipient // of the age file at hand

	begun, sealed bool
	begin, off    int64 // of the age file at hand, and what was read, in bytes
	opened, ended bool  // the age file at hand
	body          io.Reader
	line, buf     []byte // what is left of the last line; its memory
}

// NewPlain returns a reader of r; with may be nil.
func NewPlain(r io.Reader, with *Identities) *Plain {
	return &Plain{in: bufio.NewReaderSize(r, 64<<10), with: with}
}

// Recipient returns the key to which the file is encrypted, as far as it was read; nil for a file in clear.
func (p *Plain) Recipient() *Recipient {
	if p.to == nil {
		return nil
	}
	return &Recipient{p.to}
}

// Read reads lines in clear.
func (p *Plain) Read(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		head, err := p.in.Peek(len(armor.Header))
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		p.sealed = Encrypted(head)
	}
	if !p.sealed {
		return p.in.Read(b)
	}
	if p.with == nil {
		return 0, fmt.Errorf("it is encrypted: --failed-documents-identity names the file with the secret key: %w", fault.ErrConfig)
	}
	for {
		if p.body == nil {
			if _, err := p.in.Peek(1); err != nil {
				return 0, err
			}
			if err := p.open(); err != nil {
				return 0, err
			}
		}
		n, err := p.body.Read(b)
		if errors.Is(err, io.EOF) {
			p.body, err = nil, nil
		}
		if err != nil {
			err = p.blame(err)
		}
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
	}
}

// open reads the header of the next age file.
func (p *Plain) open() error {
	p.begin, p.opened, p.ended, p.line = p.off, false, false, nil
	body, err := age.Decrypt(armor.NewReader(armored{p}), p)
	if err != nil {
		return p.blame(err)
	}
	p.opened, p.body = true, body
	return nil
}

// Unwrap tries the identities, and notes the one that fits.
func (p *Plain) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, id := range p.with.keys {
		key, err := id.Unwrap(stanzas)
		if errors.Is(err, age.ErrIncorrectIdentity) {
			continue
		}
		if err == nil {
			p.to = id.Recipient()
		}
		return key, err
	}
	return nil, age.ErrIncorrectIdentity
}

// errCut means that a file ends within an age file.
var errCut = errors.New("the file ends within it")

// blame returns what is wrong with the age file at hand.
func (p *Plain) blame(err error) error {
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return fmt.Errorf("it is encrypted to another key than those of --failed-documents-identity: %w", fault.ErrConfig)
	}
	if errors.Is(err, errCut) {
		return fmt.Errorf("the encrypted part from byte %d on is not complete: its writer died before it counted it, or the end of the file was lost: restore the file, or cut this part off (truncate -s %d): %w: %w", p.begin, p.begin, err, fault.ErrCorrupt)
	}
	return fmt.Errorf("the encrypted part from byte %d on is damaged: restore the file: %w: %w", p.begin, err, fault.ErrCorrupt)
}

// armored reads the text of one age file.
type armored struct{ p *Plain }

func (x armored) Read(b []byte) (int, error) {
	p := x.p
	if len(p.line) == 0 {
		if p.ended {
			return 0, io.EOF
		}
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.line)
	p.line = p.line[n:]
	return n, nil
}

// next reads a line of armour.
func (p *Plain) next() error {
	text, err := p.in.Peek(maxArmorLine)
	i := bytes.IndexByte(text, '\n')
	switch {
	case i >= 0:
	case errors.Is(err, io.EOF):
		return errCut
	case err != nil:
		return err
	default:
		return fmt.Errorf("one of its lines has more than %d bytes", maxArmorLine)
	}
	p.line = append(p.buf[:0], text[:i+1]...)
	p.buf = p.line
	p.ended = string(p.line) == armor.Footer+"\n"
	if p.off += int64(len(p.line)); !p.opened && p.off-p.begin > maxAgeHeader {
		return fmt.Errorf("its header has more than %d bytes", maxAgeHeader)
	}
	_, err = p.in.Discard(len(p.line))
	return err
}

// maxArmorLine bounds a line of armour with its line feed, in bytes.
const maxArmorLine = 80

// wholeParts returns the length of f, whose first size bytes are whole lines, up to the last age file that is complete.
func wholeParts(f io.ReaderAt, size int64) (int64, error) {
	in := bufio.NewReader(io.NewSectionReader(f, 0, size))
	off, begin, start := int64(0), int64(-1), true
	for {
		line, err := in.ReadSlice('\n')
		if start && string(line) == armor.Header+"\n" {
			begin = off
		} else if start && string(line) == armor.Footer+"\n" {
			begin = -1
		}
		off += int64(len(line))
		start = err == nil
		switch {
		case errors.Is(err, io.EOF) && begin >= 0:
			return begin, nil
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		}
	}
}

// Draft writes lines in place of those of a file, encrypted as that was.
type Draft struct {
	w   io.Writer
	to  func() *Recipient
	out io.WriteCloser // nil before the first line, and in clear
}

// NewDraft returns a draft that is written to w; to returns the key of the file when the first line is written, nil for none.
func NewDraft(w io.Writer, to func() *Recipient) *Draft { return &Draft{w: w, to: to} }

// Write appends lines.
func (d *Draft) Write(text []byte) (int, error) {
	if d.out == nil {
		to := d.to()
		if to == nil {
			return d.w.Write(text)
		}
		var err error
		if d.out, err = to.seal(d.w); err != nil {
			return 0, err
		}
	}
	return d.out.Write(text)
}

// Close writes what is not written yet.
func (d *Draft) Close() error {
	if d.out == nil {
		return nil
	}
	return d.out.Close()
}
