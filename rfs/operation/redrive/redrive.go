package redrive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Reasons of documents that are not sent.
const (
	// Unreadable is a line that does not contain a failed document.
	Unreadable doc.Reason = "unreadable_line"
	// NotAgain is a document that the snapshot, or the file of an import, does not contain unchanged.
	NotAgain doc.Reason = "not_read_again"
	// NotPermitted is a line with an index to which documents may not be sent.
	NotPermitted doc.Reason = "index_not_permitted"
)

// Document identifies a document that arrived.
type Document struct {
	Index   string
	ID      string
	Shard   int
	Ordinal int64
}

// Source reads documents of a migration or an import again.
type Source interface {
	// Read calls each with the wanted documents that it finds, in the form in which they were sent. n is the index in wanted. A
	// document is borrowed until each returns.
	Read(ctx context.Context, wanted []Document, each func(n int, d *doc.Document) error) error
}

// Redrive is one run. Fields are required unless they have a default.
type Redrive struct {
	Storage Storage
	Bulk    bulk.Options // Sender and the limits of bodies; Run sets Recorder, From and Existing
	// Existing returns the policy for documents that an index of the target already has: for data streams, only bulk.Keep. With
	// bulk.Newer, a document of unknown version does not replace any. Its error ends the run.
	Existing func(ctx context.Context, index string) (bulk.Existing, error)
	// MaxDocument is the maximum length of a source, in bytes; a file with a longer one ends the run and stays unchanged.
	MaxDocument int64
	Select      func(index string) bool // nil: all; documents of other indices stay in the files
	// Permit returns the reason why documents may not be sent to an index, "" if they may. Their lines stay in the files and count as
	// failed. Its error ends the run. nil: all indices are permitted.
	Permit func(ctx context.Context, index string) (why string, err error)
	Source Source // reads documents again whose sources are not in the files; nil: they end the run
	// Later passes on what later rounds of a followed session have sent to some target indices. Documents that they have deleted, and
	// not sent, are removed from the files, and not sent. It is called once, and not without failed documents. nil: they have deleted none.
	Later func(ctx context.Context, indices []string, each func(*doc.Document)) error
	// Arrived is called before a file is replaced, with a function that reports whether a document arrived. nil: not called.
	Arrived func(ctx context.Context, arrived func(Document) bool) error
	// Account records deliveries; nil: none.
	Account Account
	Log     *slog.Logger

	existing map[string]bulk.Existing
	refused  map[string]string // by index: reason why it is not permitted, "" if it is
	fates    map[key]known     // of all documents seen so far
	found    map[string]int64  // by target index
	later    map[key]later     // by index, id and routing: what later rounds did with the documents in the files
	report   Report
	unknown  bool // more documents are in the files than are remembered
	// bounds; 0: the constants
	maxLines, maxKnown, maxWanted int
	// Sent and Failed are the progress of the run. Any goroutine may read them.
	Sent, Failed atomic.Int64
}

// Account records the documents that redrives of a Storage have delivered.
type Account interface {
	// Begin is called once with the names of the files, and the number of failed documents in them, by target index.
	Begin(ctx context.Context, files []string, left map[string]int64) error
	// Delivered is called before a file with a number of lines is replaced, with the number of its documents that arrived, by target
	// index. If the file is not replaced, the next run calls it again for the same file and lines.
	Delivered(ctx context.Context, file string, lines int, documents map[string]int64) error
}

// Report is the account of a run: Documents = Indexed + Deleted + Kept + Failed + Filtered + Remaining.
type Report struct {
	Documents  int64    `json:"documents"`  // failed documents in the files, each once
	Indexed    int64    `json:"indexed"`    // of them, arrived: removed from the files
	Deleted    int64    `json:"deleted"`    // of them, not sent because a later round has deleted them: removed likewise
	Kept       int64    `json:"kept"`       // of them, not sent in place of the target's own, by Redrive.Existing: removed likewise
	Failed     int64    `json:"failed"`     // of them, failed again, or cannot be sent: they stay, with the reason of now
	Filtered   int64    `json:"filtered"`   // of them, left in the files by choice
	Duplicates int64    `json:"duplicates"` // further lines of the same documents: removed
	Remaining  int64    `json:"remaining"`  // unknown results, since the run ended early: they stay in the files
	Files      int      `json:"files"`      // files read
	Classes    []Class  `json:"classes"`
	InUse      []string `json:"in_use"` // files that a running process writes, which stay unchanged
	Complete   bool     `json:"complete"`
}

// Class counts the documents of one index and class that failed again.
type Class struct {
	Index   string     `json:"index"`
	Class   string     `json:"class"`  // a name of package classes
	Reason  doc.Reason `json:"reason"` // of the first document
	Count   int64      `json:"count"`
	Example string     `json:"example"` // the first message
	Remedy  string     `json:"remedy"`
}

type fate uint8

const (
	pending    fate = iota // sent, no answer yet
	arrived                // accepted
	again                  // failed, in the draft
	left                   // not sent by choice, in the draft
	gone                   // not sent, because a later round has deleted it
	unreadable             // no failed document, in the draft
	duplicate              // another line of a document
)

// key identifies a document among all that failed, or on the target.
type key [16]byte

func (d Document) key() key { return keyOf("%q %q %d %d", d.Index, d.ID, d.Shard, d.Ordinal) }

// onTarget identifies a document on the target.
func onTarget(index, id, routing string) key { return keyOf("%q %q %q", index, id, routing) }

func keyOf(format string, parts ...any) key {
	h := sha256.New()
	fmt.Fprintf(h, format, parts...)
	return key(h.Sum(nil)[:16])
}

// maxKnown limits the documents that are remembered to detect further lines of them. Duplicates beyond it are sent again.
const maxKnown = 4 << 20

// maxLines limits the lines of a file; each takes 44 bytes while the file is processed.
const maxLines = 4 << 20

// Run sends the documents of all files. With an error it also returns the known results. When ctx is done, it drains and saves the
// results of sent documents.
func (r *Redrive) Run(ctx context.Context) (Report, error) {
	r.existing, r.fates = map[string]bulk.Existing{}, map[key]known{}
	r.found, r.refused, r.later = map[string]int64{}, map[string]string{}, map[key]later{}
	r.maxLines, r.maxKnown, r.maxWanted = cmp.Or(r.maxLines, maxLines), cmp.Or(r.maxKnown, maxKnown), cmp.Or(r.maxWanted, maxWanted)
	r.report = Report{Classes: []Class{}, InUse: []string{}}
	names, err := r.Storage.Names(ctx)
	if err == nil {
		err = r.survey(ctx, names)
	}
	if err == nil {
		err = r.findLater(ctx)
	}
	if err == nil && r.Account != nil {
		err = r.Account.Begin(ctx, names, r.found)
	}
	for i := 0; err == nil && i < len(names); i++ {
		err = r.edit(ctx, names[i])
	}
	r.report.Complete = err == nil && len(r.report.InUse) == 0
	slices.SortFunc(r.report.Classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Class, b.Class))
	})
	return r.report, err
}

// edit sends the documents of one file and replaces it.
func (r *Redrive) edit(ctx context.Context, name string) (err error) {
	e, err := r.Storage.Edit(ctx, name)
	if errors.Is(err, failed.ErrInUse) {
		r.Log.WarnContext(ctx, "file in use", "file", name, "remedy", "redrive it when the process that writes it has ended")
		r.report.InUse = append(r.report.InUse, name)
		return nil
	}
	if err != nil {
		return inFile(name, err)
	}
	defer func() {
		if cerr := e.Close(); cerr != nil {
			err = errors.Join(err, inFile(name, cerr))
		}
	}()
	r.report.Files++
	f := &file{run: r, edit: e, name: name}
	f.noter, _ = e.(noter)
	err = f.send(ctx)
	// Save the results of sent documents even if the run ends early.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	if serr := f.save(late); serr != nil {
		return errors.Join(err, inFile(name, serr))
	}
	return err
}

// inFile returns an error with the name of the file.
func inFile(name string, err error) error {
	return fmt.Errorf("failed documents in %s: %w", name, err)
}

// existingIn returns the result of Existing, which it calls once per index.
func (r *Redrive) existingIn(ctx context.Context, index string) (bulk.Existing, error) {
	if is, known := r.existing[index]; known {
		return is, nil
	}
	is, err := r.Existing(ctx, index)
	if err != nil {
		return "", err
	}
	r.existing[index] = is
	return is, nil
}

// mayNot returns the result of Permit, which it calls once per index.
func (r *Redrive) mayNot(ctx context.Context, index string) (string, error) {
	if r.Permit == nil {
		return "", nil
	}
	if why, known := r.refused[index]; known {
		return why, nil
	}
	why, err := r.Permit(ctx, index)
	if err == nil && len(r.refused) < maxClasses {
		r.refused[index] = why
	}
	return why, err
}

// count adds a failed document, which stays in the files.
func (r *Report) count(index string, reason doc.Reason, detail string, class classes.Class) {
	at := slices.IndexFunc(r.Classes, func(c Class) bool { return c.Index == index && c.Class == class.Name })
	if at < 0 {
		if at = len(r.Classes); at == maxClasses {
			return
		}
		r.Classes = append(r.Classes, Class{
			Index: index, Class: class.Name, Reason: reason, Example: detail[:min(len(detail), maxExample)], Remedy: class.For(index, detail),
		})
	}
	r.Classes[at].Count++
}

// add counts the documents of a file. kept is the number of arrived documents for which the target kept its own, remaining the
// number of unknown results.
func (r *Report) add(lines []entry, kept, remaining int64) {
	for _, e := range lines {
		switch e.fate {
		case arrived:
			r.Indexed++
		case again, unreadable:
			r.Failed++
		case left:
			r.Filtered++
		case gone:
			r.Deleted++
		case duplicate:
			r.Duplicates++
		case pending:
		}
	}
	r.Indexed, r.Kept = r.Indexed-kept, r.Kept+kept
	r.Remaining += remaining
	r.Documents = r.Indexed + r.Deleted + r.Kept + r.Failed + r.Filtered + r.Remaining
}

const (
	maxClasses = 10_000 // pairs of index and class that are counted
	maxExample = 1000   // bytes of a message
)

// sendable reports whether a failed document can be sent again: the target rejected it, and its source is available.
func sendable(l failed.Line) bool {
	return l.Failure.Status != 0 && l.Failure.ID != "" && (l.Failure.Source != nil || l.Omitted())
}
